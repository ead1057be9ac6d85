// Package foreign reads tables that other programs have written, Parquet or Arrow,
// of any columns. For one whose columns are those of a row type, package shard has
// ReadForeign.
package foreign

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmemory"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// Format is a format of tables that others write.
type Format string

// The formats of others' tables.
const (
	Parquet Format = "Parquet"
	Arrow   Format = "Arrow" // IPC, as a file or as a stream
)

const (
	batch = 64       // rows read at a time
	room  = 64 << 20 // bytes of memory that a record of a small file may take
	ratio = 64       // times a file's size that its records may take, compressed ones among them
)

// Rows reads a table that another program has written, of any columns, and
// gives each row as JSON. Bytes that are no text become base64, numbers that JSON has
// not (NaN, infinities) null, times and dates the integers that they are stored as. A
// table that cannot be read is an error without an exit code; so is that of each.
func Rows(r io.ReaderAt, size int64, format Format, each func(row map[string]json.RawMessage) error) error {
	if format == Arrow {
		return arrowRows(r, size, each)
	}
	return parquetRows(r, size, each)
}

func parquetRows(r io.ReaderAt, size int64, each func(map[string]json.RawMessage) error) (err error) {
	defer codec.Recovered(&err)
	file, err := parquet.OpenFile(r, size)
	if err != nil {
		return err
	}
	reader := parquet.NewGenericReader[any](file, file.Schema())
	defer reader.Close()
	for {
		rows := make([]any, batch)
		n, err := reader.Read(rows)
		for _, row := range rows[:n] {
			columns, ok := row.(map[string]any)
			if !ok {
				return errors.New("its rows have no columns")
			}
			if err := eachOf(columns, each); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == 0:
			return io.ErrNoProgress
		}
	}
}

func eachOf(columns map[string]any, each func(map[string]json.RawMessage) error) error {
	row := make(map[string]json.RawMessage, len(columns))
	for name, value := range columns {
		text, err := plainjson.Line(plain(value))
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		row[name] = text
	}
	return each(row)
}

// plain takes out of a value what JSON has not.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = plain(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = plain(inner)
		}
	case string:
		if !utf8.ValidString(v) {
			return base64.StdEncoding.EncodeToString([]byte(v))
		}
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
	case float32:
		return plain(float64(v)) // the very number, as other readers give it
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return value
}

func arrowRows(r io.ReaderAt, size int64, each func(map[string]json.RawMessage) error) (err error) {
	defer codec.Recovered(&err)
	mem := arrowmemory.New(ratio*int(size) + room)
	magic := make([]byte, 6)
	if _, err := r.ReadAt(magic, 0); err != nil {
		return fmt.Errorf("it is too short: %w", err)
	}
	if string(magic) != "ARROW1" {
		reader, err := ipc.NewReader(io.NewSectionReader(r, 0, size), ipc.WithAllocator(mem))
		if err != nil {
			return err
		}
		defer reader.Release()
		for reader.Next() {
			if err := recordRows(reader.Record(), each); err != nil {
				return err
			}
		}
		return reader.Err()
	}
	reader, err := ipc.NewFileReader(io.NewSectionReader(r, 0, size), ipc.WithAllocator(mem))
	if err != nil {
		return err
	}
	defer reader.Close()
	for i := range reader.NumRecords() {
		record, err := reader.RecordAt(i)
		if err != nil {
			return err
		}
		err = recordRows(record, each)
		record.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func recordRows(record arrow.Record, each func(map[string]json.RawMessage) error) error {
	for i := range int(record.NumRows()) {
		columns := make(map[string]any, record.NumCols())
		for c := range int(record.NumCols()) {
			value, err := arrowValue(record.Column(c), i)
			if err != nil {
				return fmt.Errorf("column %q: %w", record.ColumnName(c), err)
			}
			columns[record.ColumnName(c)] = value
		}
		if err := eachOf(columns, each); err != nil {
			return err
		}
	}
	return nil
}

// arrowValue is one value of a column.
func arrowValue(column arrow.Array, i int) (any, error) {
	if column.IsNull(i) {
		return nil, nil
	}
	switch a := column.(type) {
	case *array.Null:
		return nil, nil
	case *array.Boolean:
		return a.Value(i), nil
	case *array.String:
		return a.Value(i), nil
	case *array.LargeString:
		return a.Value(i), nil
	case *array.Binary:
		return a.Value(i), nil
	case *array.LargeBinary:
		return a.Value(i), nil
	case *array.FixedSizeBinary:
		return a.Value(i), nil
	case *array.Float64:
		return a.Value(i), nil
	case *array.Float32:
		return a.Value(i), nil
	case interface{ Value(int) float16.Num }:
		return a.Value(i).Float32(), nil
	case *array.Decimal128:
		return a.Value(i).ToFloat64(a.DataType().(arrow.DecimalType).GetScale()), nil
	case *array.Decimal256:
		return a.Value(i).ToFloat64(a.DataType().(arrow.DecimalType).GetScale()), nil
	case *array.Dictionary:
		return arrowValue(a.Dictionary(), a.GetValueIndex(i))
	case array.ExtensionArray:
		return arrowValue(a.Storage(), i)
	case *array.Map:
		return arrowMap(a, i)
	case array.ListLike:
		start, end := a.ValueOffsets(i)
		list := make([]any, 0, end-start)
		for at := start; at < end; at++ {
			value, err := arrowValue(a.ListValues(), int(at))
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		inner := make(map[string]any, len(fields))
		for f, field := range fields {
			value, err := arrowValue(a.Field(f), i)
			if err != nil {
				return nil, err
			}
			inner[field.Name] = value
		}
		return inner, nil
	}
	return integer(column, i)
}

// arrowMap is a map whose keys are texts.
func arrowMap(a *array.Map, i int) (any, error) {
	start, end := a.ValueOffsets(i)
	inner := map[string]any{}
	for at := int(start); at < int(end); at++ {
		value, err := arrowValue(a.Items(), at)
		if err != nil {
			return nil, err
		}
		inner[a.Keys().ValueStr(at)] = value
	}
	return inner, nil
}

// integer is a whole number, or the one that a time is stored as.
func integer(column arrow.Array, i int) (any, error) {
	switch a := column.(type) {
	case *array.Int8:
		return a.Value(i), nil
	case *array.Int16:
		return a.Value(i), nil
	case *array.Int32:
		return a.Value(i), nil
	case *array.Int64:
		return a.Value(i), nil
	case *array.Uint8:
		return a.Value(i), nil
	case *array.Uint16:
		return a.Value(i), nil
	case *array.Uint32:
		return a.Value(i), nil
	case *array.Uint64:
		return a.Value(i), nil
	case *array.Timestamp:
		return int64(a.Value(i)), nil
	case *array.Date32:
		return int32(a.Value(i)), nil
	case *array.Date64:
		return int64(a.Value(i)), nil
	case *array.Time32:
		return int32(a.Value(i)), nil
	case *array.Time64:
		return int64(a.Value(i)), nil
	case *array.Duration:
		return int64(a.Value(i)), nil
	}
	return nil, fmt.Errorf("values of type %s are not read", column.DataType())
}
