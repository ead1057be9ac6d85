package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// ReadPart returns the rows from first to the one before last of a sealed table, as many
// as it has of them; the manifest says how many there are. Of a table that was written in
// blocks it reads no more than the groups of rows that they are in.
func ReadPart[T Row](ctx context.Context, path string, first, last int, o seal.Options) ([]T, seal.Manifest, error) {
	return readSome(ctx, path, func(t *table[T]) ([]T, error) { return t.part(first, last) }, o)
}

// ReadNamed returns the rows of a sealed table that a column of text names, in the
// table's order. Of a table that was written in blocks it reads that column, and of the
// others little more than the rows.
func ReadNamed[T Row](ctx context.Context, path, column string, names map[string]bool, o seal.Options) ([]T, seal.Manifest, error) {
	return readSome(ctx, path, func(t *table[T]) ([]T, error) { return t.rowsNamed(column, names) }, o)
}

// readSome reads what some decodes of a sealed table.
func readSome[T Row](ctx context.Context, path string, some func(*table[T]) ([]T, error), o seal.Options) ([]T, seal.Manifest, error) {
	m, err := seal.Read(ctx, path, o)
	if err != nil {
		return nil, m, err
	}
	if m.Blocks == nil { // before tables were written so
		data, m, err := seal.Open(ctx, path, o)
		if err != nil {
			return nil, m, err
		}
		rows, err := decodeSome(bytes.NewReader(data), m, some)
		if err != nil {
			return nil, m, codec.Unreadable(path, err)
		}
		return rows, m, nil
	}
	r, m, err := seal.OpenAt(ctx, path, o)
	if err != nil {
		return nil, m, err
	}
	defer r.Close()
	r.Keep(blocksKept)
	rows, err := decodeSome(r, m, some, parquet.SkipMagicBytes(true)) // or the first block is read for four bytes
	if err != nil {
		return nil, m, codec.Failed(path, r, err)
	}
	return rows, m, nil
}

// blocksKept is enough for a group of rows of a plan, in bytes as [seal.Blocks] counts them.
const blocksKept = 16

// decodeSome opens a table, which has what its manifest says, and decodes some of it.
func decodeSome[T Row](r sized, m seal.Manifest, some func(*table[T]) ([]T, error), options ...parquet.FileOption) (rows []T, err error) {
	defer codec.Recovered(&err)
	file, err := openParquet(r, r.Size(), options...)
	if err != nil {
		return nil, err
	}
	t, err := tableOf[T](file, false)
	if err != nil {
		return nil, err
	}
	if n := t.file.NumRows(); n != m.Rows {
		return nil, fmt.Errorf("it holds %d rows, its manifest says %d", n, m.Rows)
	}
	return some(t)
}

// sized is what a table is read from.
type sized interface {
	io.ReaderAt
	Size() int64
}

// part decodes the rows from first to the one before last, as many as there are.
func (t *table[T]) part(first, last int) (rows []T, err error) {
	if last = min(last, int(t.file.NumRows())); first >= last {
		return nil, nil
	}
	if err := t.reader.SeekToRow(int64(first)); err != nil {
		return nil, err
	}
	for len(rows) < last-first {
		more, err := t.read(min(rowsPerRead, last-first-len(rows)))
		rows = append(rows, more...)
		if err != nil && len(rows) < last-first {
			return nil, fmt.Errorf("row %d and on: %w", first+len(rows), err)
		}
	}
	return rows, nil
}

// rowsNamed decodes the rows that a column of text names. Rows of one page, or of two that
// follow each other, are decoded with those between: to begin again would decode a page
// that two of them are in once more.
func (t *table[T]) rowsNamed(column string, names map[string]bool) (rows []T, err error) {
	wanted, err := t.named(column, names)
	if err != nil {
		return nil, err
	}
	pages, err := t.pages()
	if err != nil {
		return nil, err
	}
	for len(wanted) > 0 {
		n := 1
		for n < len(wanted) && pages.adjacent(wanted[n-1], wanted[n]) {
			n++
		}
		near, err := t.part(wanted[0], wanted[n-1]+1)
		if err != nil {
			return nil, err
		}
		for _, at := range wanted[:n] {
			rows = append(rows, near[at-wanted[0]])
		}
		wanted = wanted[n:]
	}
	return rows, nil
}

// columnPages are the first rows of the pages of each column, in ascending order.
type columnPages [][]int

// pages looks them up. A group of rows without an index of its pages counts as one.
func (t *table[T]) pages() (columnPages, error) {
	var pages columnPages
	first := 0
	for _, group := range t.file.RowGroups() {
		for i, column := range group.ColumnChunks() {
			if i == len(pages) {
				pages = append(pages, nil)
			}
			index, err := column.OffsetIndex()
			switch {
			case errors.Is(err, parquet.ErrMissingOffsetIndex):
				pages[i] = append(pages[i], first)
			case err != nil:
				return nil, err
			default:
				for page := range index.NumPages() {
					pages[i] = append(pages[i], first+int(index.FirstRowIndex(page)))
				}
			}
		}
		first += int(group.NumRows())
	}
	return pages, nil
}

// adjacent reports whether no column has a page between the two that rows a ≤ b are in.
func (p columnPages) adjacent(a, b int) bool {
	for _, firsts := range p {
		if sort.SearchInts(firsts, b+1)-sort.SearchInts(firsts, a+1) > 1 {
			return false
		}
	}
	return true
}

// named are the numbers of the rows that a column of text names.
func (t *table[T]) named(column string, names map[string]bool) (rows []int, err error) {
	leaf, found := t.file.Schema().Lookup(column)
	if !found {
		return nil, fmt.Errorf("it lacks column %q", column)
	}
	row := 0
	for _, group := range t.file.RowGroups() {
		if err := eachValue(group.ColumnChunks()[leaf.ColumnIndex], func(v parquet.Value) bool {
			if names[string(v.ByteArray())] {
				rows = append(rows, row)
			}
			row++
			return true
		}); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// eachValue decodes a column of a group of rows until each returns false.
func eachValue(column parquet.ColumnChunk, each func(parquet.Value) bool) (err error) {
	pages := column.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	values := make([]parquet.Value, rowsPerRead)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reader, more := page.Values(), true
		for err == nil && more {
			var n int
			if n, err = reader.ReadValues(values); n == 0 && err == nil {
				err = io.ErrNoProgress
			}
			for i := 0; i < n && more; i++ {
				more = each(values[i])
			}
		}
		parquet.Release(page)
		switch {
		case !more:
			return nil
		case !errors.Is(err, io.EOF):
			return err
		}
	}
}
