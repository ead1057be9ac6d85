package foreign

import (
	"errors"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmemory"
	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmessage"
	"github.com/lathe-rl/lathe/pkg/shard/internal/pages"
)

// Kind is what the values of a column become in JSON.
type Kind string

// The kinds of columns.
const (
	Nulls   Kind = "nulls"
	Bools   Kind = "true and false"
	Numbers Kind = "numbers"
	Texts   Kind = "texts"
	Lists   Kind = "lists"
	Maps    Kind = "maps"
	Objects Kind = "objects"
	Others  Kind = "values of several kinds" // of a union
)

// Column says what the values of a column are, without their values.
type Column struct {
	Name   string
	Kind   Kind
	Inside []Column // of lists their items, of maps their keys and values, of objects their fields
}

// Columns reads what columns a table has.
func Columns(r io.ReaderAt, size int64, format Format) (columns []Column, err error) {
	if format == Parquet {
		meta, err := pages.Footer(r, size)
		if err != nil {
			return nil, err
		}
		nodes, _, err := tree(meta.Schema)
		return columnsOf(nodes), err
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = arrowFault(fault)
		}
	}()
	messages, err := arrowmessage.New(r, size)
	if err != nil {
		return nil, err
	}
	reader, err := ipc.NewReaderFromMessageReader(messages, ipc.WithAllocator(arrowmemory.New(unpackedRoom)))
	if err != nil {
		return nil, arrowFault(err)
	}
	defer reader.Release()
	if reader.Schema() == nil {
		return nil, errors.New("it has no schema")
	}
	for _, field := range reader.Schema().Fields() {
		columns = append(columns, arrowColumn(field.Name, field.Type))
	}
	return columns, nil
}

func columnsOf(nodes []*node) []Column {
	var columns []Column
	for _, n := range nodes {
		column := Column{Name: n.name, Kind: n.shown, Inside: columnsOf(n.inside)}
		switch n.kind {
		case structKind:
			column.Kind = Objects
		case listKind:
			column.Kind = Lists
		case mapKind:
			column.Kind = Maps
		}
		columns = append(columns, column)
	}
	return columns
}

func arrowColumn(name string, t arrow.DataType) Column {
	column := Column{Name: name, Kind: Texts}
	switch t := t.(type) {
	case *arrow.NullType:
		column.Kind = Nulls
	case *arrow.BooleanType:
		column.Kind = Bools
	case *arrow.DurationType:
		column.Kind = Numbers
	case *arrow.DictionaryType:
		return arrowColumn(name, t.ValueType)
	case *arrow.RunEndEncodedType:
		return arrowColumn(name, t.Encoded())
	case arrow.ExtensionType:
		return arrowColumn(name, t.StorageType())
	case *arrow.MapType:
		column.Kind, column.Inside = Maps, []Column{arrowColumn("key", t.KeyType()), arrowColumn("value", t.ItemType())}
	case arrow.ListLikeType:
		column.Kind, column.Inside = Lists, []Column{arrowColumn("item", t.Elem())}
	case *arrow.StructType:
		column.Kind = Objects
		for _, field := range t.Fields() {
			column.Inside = append(column.Inside, arrowColumn(field.Name, field.Type))
		}
	case arrow.UnionType:
		column.Kind = Others
	case *arrow.MonthIntervalType, *arrow.DayTimeIntervalType, *arrow.MonthDayNanoIntervalType:
		column.Kind = Objects
	default:
		if arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) {
			column.Kind = Numbers
		}
	}
	return column
}
