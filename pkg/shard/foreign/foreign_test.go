package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// testRow has values that JSON has not: bytes that are no text, and no number.
type testRow struct {
	Text  string  `parquet:"text"`
	Bytes []byte  `parquet:"bytes"`
	Share float64 `parquet:"share"`
	Count int64   `parquet:"count"`
}

var testRows = []testRow{
	{"a < b", []byte{0xff, 0}, math.NaN(), 1<<60 + 1},
	{"", []byte("text"), 0.1, -1},
}

var rowsAsJSON = []string{
	`{"bytes":"/wA=","count":1152921504606846977,"share":"nan","text":"a < b"}`,
	`{"bytes":"text","count":-1,"share":0.1,"text":""}`,
}

func parquetFile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, parquet.Write(&b, testRows))
	return b.Bytes()
}

func arrowStream(t *testing.T) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "bytes", Type: arrow.BinaryTypes.Binary},
		{Name: "share", Type: arrow.PrimitiveTypes.Float64},
		{Name: "count", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	defer b.Release()
	for _, r := range testRows {
		b.Field(0).(*array.StringBuilder).Append(r.Text)
		b.Field(1).(*array.BinaryBuilder).Append(r.Bytes)
		b.Field(2).(*array.Float64Builder).Append(r.Share)
		b.Field(3).(*array.Int64Builder).Append(r.Count)
	}
	record := b.NewRecord()
	defer record.Release()
	var buffer bytes.Buffer
	w := ipc.NewWriter(&buffer, ipc.WithSchema(schema))
	must.Do(t, errors.Join(w.Write(record), w.Close()))
	return buffer.Bytes()
}

// read gives the rows of a table as lines of JSON.
func read(data []byte, format Format) (found []string, err error) {
	err = Rows(bytes.NewReader(data), int64(len(data)), format, func(row map[string]json.RawMessage) error {
		line, err := plainjson.Line(row)
		found = append(found, string(line))
		return err
	})
	return found, err
}

func TestRows(t *testing.T) {
	t.Parallel()
	for format, data := range map[Format][]byte{Parquet: parquetFile(t), Arrow: arrowStream(t)} {
		found, err := read(data, format)
		if diff := cmp.Diff(rowsAsJSON, found); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", format, err, diff)
		}
		enough := errors.New("enough")
		err = Rows(bytes.NewReader(data), int64(len(data)), format, func(map[string]json.RawMessage) error { return enough })
		if !errors.Is(err, enough) {
			t.Errorf("%s: %v, want the error of each", format, err)
		}
		if _, err := read(data[:5], format); err == nil {
			t.Errorf("%s: five bytes are read", format)
		}
	}
}
