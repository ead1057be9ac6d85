package foreign

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestFooter: a footer that ends before its bytes do, or that counts more rows than its row
// groups have, is damaged: the rows that are left would be a part of the table, or none.
func TestFooter(t *testing.T) {
	t.Parallel()
	whole := must.Get(os.ReadFile("testdata/codec-none-v1.parquet"))(t)
	length := int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	body, footer := whole[:len(whole)-8-length], whole[len(whole)-8-length:len(whole)-8]
	with := func(footer []byte) []byte {
		return append(binary.LittleEndian.AppendUint32(bytes.Join([][]byte{body, footer}, nil), uint32(len(footer))), "PAR1"...)
	}
	changed := func(change func(m *format.FileMetaData)) []byte {
		var m format.FileMetaData
		must.Do(t, thrift.Unmarshal(new(thrift.CompactProtocol), footer, &m))
		change(&m)
		footer := must.Get(thrift.Marshal(new(thrift.CompactProtocol), &m))(t)
		return with(footer)
	}
	for name, c := range map[string]struct {
		file []byte
		want string // of the error; empty for none
	}{
		"as it is":                  {with(footer), ""},
		"written again":             {changed(func(*format.FileMetaData) {}), ""},
		"ends at once":              {with(append([]byte{0}, footer...)), "the footer is damaged"},
		"bytes behind its end":      {with(append(bytes.Clone(footer), 1, 2, 3)), "the footer is damaged"},
		"one row more":              {changed(func(m *format.FileMetaData) { m.NumRows++ }), "row groups have"},
		"no row groups":             {changed(func(m *format.FileMetaData) { m.RowGroups = nil }), "row groups have 0"},
		"a row group without a row": {changed(func(m *format.FileMetaData) { m.RowGroups[0].NumRows = 0 }), "row groups have 0"},
		"no count":                  {changed(func(m *format.FileMetaData) { m.NumRows = 0 }), ""}, // as a file of Apache's parquet-testing has it
	} {
		rows := 0
		err := Rows(bytes.NewReader(c.file), int64(len(c.file)), Parquet, func(map[string]json.RawMessage) error { rows++; return nil })
		switch {
		case c.want == "" && (err != nil || rows == 0):
			t.Errorf("%s: %d rows, %v", name, rows, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || rows > 0):
			t.Errorf("%s: %d rows, and the error %v, want %q", name, rows, err, c.want)
		}
	}
}
