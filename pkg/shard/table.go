package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// What decides the bytes of a table besides its rows. A change here changes
// every digest: it is a new minor version of every schema.
const (
	rowsPerRowGroup = 8192
	bytesPerPage    = 256 << 10
)

// rowsPerRead is how many rows are decoded at a time.
const rowsPerRead = 256

// Write seals rows as a Parquet table. meta is kept in the file as key/value
// metadata and may be nil; it is part of the bytes, and its key "schema" is
// taken. The manifest's schema, rows and content digest are filled in.
func Write[T Row](path string, rows []T, meta map[string]string, a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	return write(path, false, rows, meta, a, m)
}

// WriteInBlocks is [Write] of a table of which many will read a part each: [ReadPart].
func WriteInBlocks[T Row](path string, rows []T, a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	return write(path, true, rows, nil, a, m)
}

func write[T Row](path string, blocks bool, rows []T, meta map[string]string, a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	var zero T
	m.Schema, m.Rows = zero.Schema(), int64(len(rows))
	if _, hasVolatile := ContentDigest[T](nil); hasVolatile { // else the content is the bytes
		m.ContentSHA256, _ = ContentDigest(rows)
	}
	return codec.Seal(path, blocks, a, m, func(w io.Writer) error { return encodeTable(w, rows, meta) })
}

// Encode returns the bytes that [Write] seals.
func Encode[T Row](rows []T, meta map[string]string) ([]byte, error) {
	var b bytes.Buffer
	if err := encodeTable(&b, rows, meta); err != nil {
		return nil, exitcode.Bugf("encoding %T: %w", rows, err)
	}
	return b.Bytes(), nil
}

// encodeTable writes the Parquet file.
func encodeTable[T Row](w io.Writer, rows []T, meta map[string]string) error {
	var zero T
	return encodeAs(w, parquet.SchemaOf(zero), zero.Schema(), rows, meta)
}

// encodeAs writes rows of any type as a table of a schema.
func encodeAs[T any](w io.Writer, schema *parquet.Schema, named seal.Schema, rows []T, meta map[string]string) (err error) {
	defer codec.Recovered(&err)
	options := []parquet.WriterOption{
		schema,
		parquet.CreatedBy("lathe", "1", "0"),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault, Concurrency: 1}),
		parquet.DataPageVersion(2),
		parquet.MaxRowsPerRowGroup(rowsPerRowGroup),
		parquet.PageBufferSize(bytesPerPage),
		parquet.KeyValueMetadata(codec.SchemaKey, named.String()),
	}
	for _, path := range textColumns(schema) {
		options = append(options, parquet.SkipPageBounds(path...), parquet.SkipPageStatistics(path...))
	}
	for key, value := range meta { // the writer sorts them
		if key == codec.SchemaKey {
			return fmt.Errorf("metadata key %q is taken", key)
		}
		options = append(options, parquet.KeyValueMetadata(key, value))
	}
	writer := parquet.NewGenericWriter[T](w, options...)
	for len(rows) > 0 {
		// A call per row group keeps the file independent of how the writer
		// splits a long slice.
		n := min(len(rows), rowsPerRowGroup)
		if _, err := writer.Write(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return writer.Close()
}

// Read returns the rows of a sealed table.
func Read[T Row](ctx context.Context, path string, o seal.Options) ([]T, seal.Manifest, error) {
	data, m, err := seal.Open(ctx, path, o)
	if err != nil {
		return nil, seal.Manifest{}, err
	}
	t, err := openTable[T](data, false)
	if err != nil {
		return nil, seal.Manifest{}, codec.Unreadable(path, err)
	}
	rows, err := t.all(m.Rows)
	if err == nil && int64(len(rows)) != m.Rows {
		err = fmt.Errorf("it holds %d rows, its manifest says %d", len(rows), m.Rows)
	}
	if err != nil {
		return nil, seal.Manifest{}, codec.Unreadable(path, err)
	}
	return rows, m, nil
}

// Rows yields the rows of a sealed table one after the other, for tables
// whose rows should not all be in memory at once. It stops after an error.
func Rows[T Row](ctx context.Context, path string, o seal.Options) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		data, _, err := seal.Open(ctx, path, o)
		if err != nil {
			yield(zero, err)
			return
		}
		t, err := openTable[T](data, false)
		if err != nil {
			yield(zero, codec.Unreadable(path, err))
			return
		}
		for {
			rows, err := t.next()
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(zero, codec.Unreadable(path, err))
				return
			}
		}
	}
}

// ReadForeign returns the rows of a table that somebody else may have made:
// without a manifest, without a schema key, with optional columns as DuckDB
// and pandas write them. A NULL is an error that names row and column. When
// a manifest lies beside the file, the file must match it.
func ReadForeign[T Row](ctx context.Context, path string) ([]T, error) {
	data, _, err := seal.Open(ctx, path, seal.Options{})
	if errors.Is(err, seal.ErrNotSealed) {
		data, err = plainfile.ReadWhole(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, exitcode.Dataf("%w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	t, err := openTable[T](data, true)
	if err != nil {
		return nil, foreign(path, err)
	}
	if err := t.checkNulls(); err != nil {
		return nil, foreign(path, err)
	}
	rows, err := t.allForeign(len(data))
	if err != nil {
		return nil, foreign(path, err)
	}
	return rows, nil
}

// Metadata returns the key/value metadata of a sealed table, without the
// schema's.
func Metadata(ctx context.Context, path string, o seal.Options) (map[string]string, error) {
	data, _, err := seal.Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	file, err := openParquet(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, codec.Unreadable(path, err)
	}
	meta := make(map[string]string)
	for _, kv := range file.Metadata().KeyValueMetadata {
		if kv.Key != codec.SchemaKey {
			meta[kv.Key] = kv.Value
		}
	}
	return meta, nil
}

func foreign(path string, err error) error {
	return exitcode.Dataf("reading %q: %w", path, err)
}

func openParquet(r io.ReaderAt, size int64, options ...parquet.FileOption) (file *parquet.File, err error) {
	defer codec.Recovered(&err)
	if size == 0 {
		return nil, errors.New("it is empty")
	}
	file, err = parquet.OpenFile(r, size, append(options, parquet.SkipBloomFilters(true))...)
	if err != nil {
		return nil, err
	}
	return file, checkCodecs(file.Metadata())
}

// checkCodecs reports a column whose compression this package does not read.
// The decoder of LZ4_RAW returns wrong rows (parquet-go issue 608), and asks
// for ever more memory until the process dies when a page is damaged.
func checkCodecs(m *format.FileMetaData) error {
	for _, group := range m.RowGroups {
		for _, column := range group.Columns {
			switch codec := column.MetaData.Codec; codec {
			case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
			default:
				return fmt.Errorf("column %s is compressed with %s; write the file with zstd, snappy, gzip or no compression",
					strings.Join(column.MetaData.PathInSchema, "."), codec)
			}
		}
	}
	return nil
}

// table reads the rows of one Parquet file.
type table[T Row] struct {
	file   *parquet.File
	reader *parquet.GenericReader[T]
}

// openTable opens a table.
func openTable[T Row](data []byte, isForeign bool) (t *table[T], err error) {
	defer codec.Recovered(&err)
	if isForeign {
		if err := checkFooter(data); err != nil {
			return nil, err
		}
	}
	file, err := openParquet(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	if isForeign {
		if err := checkPages(data, file.Metadata()); err != nil {
			return nil, err
		}
	}
	return tableOf[T](file, isForeign)
}

// tableOf compares the schema of a file with the row type's.
func tableOf[T Row](file *parquet.File, isForeign bool) (_ *table[T], err error) {
	var zero T
	found, ok := file.Lookup(codec.SchemaKey)
	older := false
	switch {
	case ok:
		if older, err = codec.CheckVersion(found, zero.Schema()); err != nil {
			return nil, err
		}
	case !isForeign:
		return nil, fmt.Errorf("it does not name its schema; expected %s", zero.Schema())
	}
	if problems := compareColumns(parquet.SchemaOf(zero), file.Schema(), isForeign, older); len(problems) > 0 {
		return nil, fmt.Errorf("its columns are not those of %s:\n  %s", zero.Schema(), strings.Join(problems, "\n  "))
	}
	return &table[T]{file: file, reader: parquet.NewGenericReader[T](file)}, nil
}

// next decodes the next rows; io.EOF comes with or after the last ones.
func (t *table[T]) next() (rows []T, err error) { return t.read(rowsPerRead) }

// read is next for at most so many rows.
func (t *table[T]) read(most int) (rows []T, err error) {
	defer codec.Recovered(&err)
	rows = make([]T, most) // fresh: the decoder appends to lists
	n, err := t.reader.Read(rows)
	if err == nil && n == 0 {
		err = io.ErrNoProgress
	}
	return rows[:n], err
}

// all decodes every row. expected is how many a manifest promises; the footer's
// count alone is not trusted with an allocation.
func (t *table[T]) all(expected int64) ([]T, error) {
	rows := make([]T, 0, min(t.file.NumRows(), max(expected, 1<<16)))
	for {
		more, err := t.next()
		rows = append(rows, more...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("row %d and on: %w", len(rows), err)
		}
	}
	return t.counted(rows)
}

// counted checks that the rows are as many as the footer says.
func (t *table[T]) counted(rows []T) ([]T, error) {
	if int64(len(rows)) != t.file.NumRows() {
		return nil, fmt.Errorf("it holds %d rows, its footer says %d", len(rows), t.file.NumRows())
	}
	return slices.Clip(rows), nil
}
