package foreign

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmemory"
	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmessage"
)

// arrowFault is the error of the library, or what it has panicked with, in words of ours.
func arrowFault(fault any) error {
	if err, ok := fault.(error); ok {
		for _, ours := range []error{arrowmessage.ErrDamaged, arrowmessage.ErrVersion, arrowmessage.ErrReplaced, arrowmessage.ErrWide, arrowmessage.ErrCut} {
			if errors.Is(err, ours) {
				return ours
			}
		}
	}
	text := fmt.Sprint(fault)
	switch {
	case strings.Contains(text, arrowmemory.ErrTooMuch.Error()):
		return errUnpacked
	case strings.Contains(text, "not implemented"), strings.Contains(text, "not handled"), strings.Contains(text, "decimal bit width"):
		return errors.New("a column has a type that is not supported: cast it, or write the table as Parquet")
	}
	return arrowmessage.ErrDamaged
}

func arrowRows(r io.ReaderAt, size int64, out *rows) (err error) {
	outside := false // in what the caller does with a row
	each := out.each
	out.each = func(columns row) error {
		outside = true
		err := each(columns)
		outside = false
		return err
	}
	defer func() {
		if outside {
			return
		}
		if fault := recover(); fault != nil { // the library panics on what it has not expected
			err = arrowFault(fault)
		}
	}()
	head := make([]byte, 4)
	if _, err := r.ReadAt(head, 0); err == nil && string(head) == "FEA1" {
		return errors.New("it is Feather version 1: write it as version 2, which is Arrow IPC")
	}
	messages, err := arrowmessage.New(r, size)
	if err != nil {
		return err
	}
	reader, err := ipc.NewReaderFromMessageReader(messages, ipc.WithAllocator(arrowmemory.New(int(out.left))))
	if err != nil {
		return arrowFault(err)
	}
	defer reader.Release()
	names, err := arrowNames(reader.Schema())
	if err != nil {
		return err
	}
	for reader.Next() {
		if err := recordRows(reader.Record(), names, out); err != nil {
			return err
		}
	}
	if err := reader.Err(); err != nil {
		return arrowFault(err)
	}
	return nil
}

// arrowNames are the names of the columns, which must differ at every depth.
func arrowNames(schema *arrow.Schema) ([]string, error) {
	names := make([]string, schema.NumFields())
	for i, field := range schema.Fields() {
		names[i] = field.Name
		if err := distinctInside(field.Type); err != nil {
			return nil, fmt.Errorf("column %q: %w", field.Name, err)
		}
	}
	return names, distinctNames(names)
}

func distinctInside(t arrow.DataType) error {
	nested, ok := t.(arrow.NestedType)
	if !ok {
		return nil
	}
	var names []string
	for _, field := range nested.Fields() {
		names = append(names, field.Name)
		if err := distinctInside(field.Type); err != nil {
			return err
		}
	}
	if t.ID() == arrow.STRUCT {
		return distinctNames(names)
	}
	return nil
}

func distinctNames(names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("two columns are named %q: rename one of them", name)
		}
		seen[name] = true
		if !utf8.ValidString(name) {
			return fmt.Errorf("the name %q of a column is not UTF-8: rename it", name)
		}
	}
	return nil
}

func recordRows(record arrow.Record, names []string, out *rows) error {
	if len(names) == 0 && record.NumRows() > 0 {
		return errNoColumns
	}
	columns := make([]arrowAppender, len(names))
	for c := range columns {
		var err error
		if columns[c], err = appenderOf(record.Column(c), record.Schema().Field(c).Metadata); err != nil {
			return fmt.Errorf("column %q: %w", names[c], err)
		}
	}
	for i := range int(record.NumRows()) {
		out.begin()
		for c, column := range columns {
			if err := out.add(func(text []byte) ([]byte, error) { return column(text, i) }); err != nil {
				return out.where(names[c], err)
			}
		}
		if err := out.end(names); err != nil {
			return err
		}
	}
	return nil
}

// arrowAppender appends the value of an array at a position as JSON.
type arrowAppender func(to []byte, i int) ([]byte, error)

// appenderOf is how an array's values become JSON. metadata are those of its field, where
// the names of extensions stand.
func appenderOf(a arrow.Array, metadata arrow.Metadata) (arrowAppender, error) {
	plain, err := nestedAppender(a)
	if plain == nil && err == nil {
		plain, err = scalarAppender(a, metadata)
	}
	if err != nil {
		return nil, err
	}
	return func(to []byte, i int) ([]byte, error) {
		if i < 0 || i >= a.Len() {
			return to, arrowmessage.ErrDamaged
		}
		if a.IsNull(i) {
			return append(to, null...), nil
		}
		to, err := plain(to, i)
		if err != nil {
			return to, err
		}
		return within(to)
	}, nil
}

// nestedAppender is that of an array which has others inside; nil for one that has none.
func nestedAppender(a arrow.Array) (arrowAppender, error) {
	switch a := a.(type) {
	case array.ExtensionArray:
		return appenderOf(a.Storage(), arrow.NewMetadata([]string{ipc.ExtensionTypeKeyName}, []string{a.ExtensionType().ExtensionName()}))
	case *array.Dictionary:
		value, err := appenderOf(a.Dictionary(), arrow.Metadata{})
		return func(to []byte, i int) ([]byte, error) { return value(to, a.GetValueIndex(i)) }, err
	case *array.RunEndEncoded:
		value, err := appenderOf(a.Values(), arrow.Metadata{})
		return func(to []byte, i int) ([]byte, error) { return value(to, a.GetPhysicalIndex(i)) }, err
	case array.Union:
		return unionAppender(a)
	case *array.Map: // before lists: it is one
		return mapAppender(a)
	case array.ListLike:
		field := a.DataType().(arrow.ListLikeType).ElemField()
		item, err := appenderOf(a.ListValues(), field.Metadata)
		return func(to []byte, i int) ([]byte, error) { return appendItems(to, a, i, item) }, err
	case *array.Struct:
		return structAppender(a)
	}
	return nil, nil
}

func appendItems(to []byte, a array.ListLike, i int, item arrowAppender) (_ []byte, err error) {
	start, end := a.ValueOffsets(i)
	if start > end || start < 0 {
		return to, arrowmessage.ErrDamaged
	}
	to = append(to, '[')
	for at := start; at < end; at++ {
		if at > start {
			to = append(to, ',')
		}
		if to, err = item(to, int(at)); err != nil {
			return to, err
		}
	}
	return append(to, ']'), nil
}

func mapAppender(a *array.Map) (arrowAppender, error) {
	fields := a.DataType().(*arrow.MapType)
	key, err := appenderOf(a.Keys(), fields.KeyField().Metadata)
	if err != nil {
		return nil, err
	}
	value, err := appenderOf(a.Items(), fields.ItemField().Metadata)
	pair := func(to []byte, i int) (_ []byte, err error) {
		if to, err = key(append(to, '['), i); err != nil {
			return to, err
		}
		if to, err = value(append(to, ','), i); err != nil {
			return to, err
		}
		return append(to, ']'), nil
	}
	return func(to []byte, i int) ([]byte, error) { return appendItems(to, a, i, pair) }, err
}

func structAppender(a *array.Struct) (arrowAppender, error) {
	fields := a.DataType().(*arrow.StructType).Fields()
	inside := make([]arrowAppender, len(fields))
	for f, field := range fields {
		var err error
		if inside[f], err = appenderOf(a.Field(f), field.Metadata); err != nil {
			return nil, err
		}
	}
	return func(to []byte, i int) (_ []byte, err error) {
		to = append(to, '{')
		for f, value := range inside {
			if f > 0 {
				to = append(to, ',')
			}
			to = append(appendQuoted(to, []byte(fields[f].Name)), ':')
			if to, err = value(to, i); err != nil {
				return to, err
			}
		}
		return append(to, '}'), nil
	}, nil
}

func unionAppender(a array.Union) (arrowAppender, error) {
	inside := make([]arrowAppender, a.NumFields())
	for f, field := range a.UnionType().Fields() {
		var err error
		if inside[f], err = appenderOf(a.Field(f), field.Metadata); err != nil {
			return nil, err
		}
	}
	return func(to []byte, i int) ([]byte, error) {
		at := i
		if dense, ok := a.(*array.DenseUnion); ok {
			at = int(dense.ValueOffset(i))
		}
		return inside[a.ChildID(i)](to, at)
	}, nil
}
