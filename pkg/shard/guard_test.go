package shard

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/brotli"
	"github.com/parquet-go/parquet-go/compress/gzip"
	"github.com/parquet-go/parquet-go/compress/lz4"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/uncompressed"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

func TestCodecs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codec compress.Codec
		want  string // of the error; empty when it reads
	}{
		"zstd":   {&zstd.Codec{}, ""},
		"snappy": {&snappy.Codec{}, ""},
		"gzip":   {&gzip.Codec{}, ""},
		"none":   {&uncompressed.Codec{}, ""},
		"lz4":    {&lz4.Codec{}, "column instance_id is compressed with LZ4_RAW; write the file with zstd"},
		"brotli": {&brotli.Codec{}, "column instance_id is compressed with BROTLI"},
	} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[Rollout](&b, parquet.Compression(c.codec))
		must.Get(w.Write(sampleRollouts))(t)
		must.Do(t, w.Close())
		rows, err := decode[Rollout](b.Bytes(), true)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "":
			shardtest.SameRows(t, rows, sampleRollouts)
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// footer returns a file of nothing but a footer.
func footer(metadata ...byte) []byte {
	data := append([]byte("PAR1"), metadata...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(metadata)))
	return append(data, "PAR1"...)
}

func TestFooterLengthsAreChecked(t *testing.T) {
	t.Parallel()
	huge := binary.AppendUvarint(nil, 1<<40)
	for name, c := range map[string]struct {
		data []byte
		want string // of the error; empty for a footer in order
	}{
		"nothing":           {nil, "does not begin and end with PAR1"},
		"cut":               {[]byte("PAR1 and no more"), "was its writer killed?"},
		"footer too large":  {append([]byte("PAR1....\xff\xff\xff\xff"), "PAR1"...), "states a footer of 4294967295 bytes and has 16 bytes"},
		"empty struct":      {footer(0), ""},
		"no end":            {footer(), "runs over its end"},
		"numbers":           {footer(0x15, 2, 0x16, 4, 0x13, 9, 0x11, 0x12, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0), ""},
		"long field number": {footer(0x05, 200, 1, 2, 0), ""},
		"string":            {footer(0x18, 2, 'a', 'b', 0), ""},
		"string too long":   {footer(append([]byte{0x18}, huge...)...), "runs over its end"},
		"list of structs":   {footer(0x19, 0x2c, 0, 0, 0), ""},
		"list too long":     {footer(append([]byte{0x19, 0xfc}, huge...)...), "runs over its end"},
		"list of lists":     {footer(0x19, 0x19, 0x19, 0x15, 7, 0), ""},
		"no such type":      {footer(0x1b, 0), "cannot be decoded"},
		"nested too deep":   {footer(bytes.Repeat([]byte{0x1c}, 100)...), "cannot be decoded"},
		"lists too deep":    {footer(append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 100)...)...), "cannot be decoded"},
	} {
		err := checkFooter(c.data)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestPageSizesAreChecked(t *testing.T) {
	t.Parallel()
	good := encode(t, sampleRollouts, nil)
	file := must.Get(openParquet(bytes.NewReader(good), int64(len(good))))(t)
	for name, c := range map[string]struct {
		change func(m *format.ColumnMetaData)
		want   string
	}{
		"in order":       {func(m *format.ColumnMetaData) {}, ""},
		"offset":         {func(m *format.ColumnMetaData) { m.DataPageOffset = 1 << 40; m.DictionaryPageOffset = 0 }, "runs over its end"},
		"negative":       {func(m *format.ColumnMetaData) { m.TotalCompressedSize = -1 }, "runs over its end"},
		"chunk too long": {func(m *format.ColumnMetaData) { m.TotalCompressedSize = int64(len(good)) }, "runs over its end"},
		"chunk cut":      {func(m *format.ColumnMetaData) { m.TotalCompressedSize-- }, "runs over its end"},
		"page too large": {func(m *format.ColumnMetaData) { m.TotalUncompressedSize = 3 }, "a page states"},
		"more values":    {func(m *format.ColumnMetaData) { m.NumValues = 2 }, "state more than its 2 values"},
	} {
		m := file.Metadata().RowGroups[0].Columns[0].MetaData
		c.change(&m)
		err := checkChunk(good, &m)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
