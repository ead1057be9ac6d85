package shard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/seal"
)

// ReadPart returns the rows from first to the one before last of a sealed table, as many
// as it has of them; the manifest says how many there are. Of a table that was written in
// blocks it reads no more than the groups of rows that they are in.
func ReadPart[T Row](ctx context.Context, path string, first, last int, o seal.Options) ([]T, seal.Manifest, error) {
	m, err := seal.Read(ctx, path, o)
	if err != nil {
		return nil, m, err
	}
	if m.Blocks == nil { // before tables were written so
		rows, m, err := Read[T](ctx, path, o)
		return rows[min(first, len(rows)):min(last, len(rows))], m, err
	}
	r, m, err := seal.OpenAt(ctx, path, o)
	if err != nil {
		return nil, m, err
	}
	defer r.Close()
	rows, err := readPart[T](r, m.Rows, first, last)
	if err != nil {
		return nil, m, failed(path, r, err)
	}
	return rows, m, nil
}

// ReadNamed returns the rows of a sealed table that a column of text names, in the
// table's order. Of a table that was written in blocks it reads that column, and of the
// others little more than the rows.
func ReadNamed[T Row](ctx context.Context, path, column string, names map[string]bool, o seal.Options) ([]T, seal.Manifest, error) {
	m, err := seal.Read(ctx, path, o)
	if err != nil {
		return nil, m, err
	}
	if m.Blocks == nil { // before tables were written so
		return namedInWhole[T](ctx, path, column, names, o)
	}
	r, m, err := seal.OpenAt(ctx, path, o)
	if err != nil {
		return nil, m, err
	}
	defer r.Close()
	rows, err := readNamed[T](r, m.Rows, column, names)
	if err != nil {
		return nil, m, failed(path, r, err)
	}
	return rows, m, nil
}

// blocksKept is enough for a group of rows of a plan, in bytes as [seal.Blocks] counts them.
const blocksKept = 16

// tableAt opens a table of which a part is read.
func tableAt[T Row](r *seal.ReaderAt, promised int64) (*table[T], error) {
	r.Keep(blocksKept)
	file, err := openParquet(r, r.Size(), parquet.SkipMagicBytes(true)) // or the first block is read for four bytes
	if err != nil {
		return nil, err
	}
	t, err := tableOf[T](file, false)
	if err == nil && t.file.NumRows() != promised {
		err = fmt.Errorf("it holds %d rows, its manifest says %d", t.file.NumRows(), promised)
	}
	return t, err
}

func readPart[T Row](r *seal.ReaderAt, promised int64, first, last int) (rows []T, err error) {
	defer recovered(&err)
	t, err := tableAt[T](r, promised)
	if err != nil {
		return nil, err
	}
	return t.part(first, min(last, int(promised)))
}

// part decodes the rows from first to the one before last.
func (t *table[T]) part(first, last int) (rows []T, err error) {
	if first >= last {
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

// farApart is how many rows are passed over rather than decoded.
const farApart = 32

func namedInWhole[T Row](ctx context.Context, path, column string, names map[string]bool, o seal.Options) ([]T, seal.Manifest, error) {
	data, m, err := seal.Open(ctx, path, o)
	if err != nil {
		return nil, m, err
	}
	t, err := openTable[T](data, false)
	var rows []T
	if err == nil {
		rows, err = t.rowsNamed(column, names)
	}
	if err != nil {
		return nil, m, unreadable(path, err)
	}
	return rows, m, nil
}

func readNamed[T Row](r *seal.ReaderAt, promised int64, column string, names map[string]bool) (rows []T, err error) {
	defer recovered(&err)
	t, err := tableAt[T](r, promised)
	if err != nil {
		return nil, err
	}
	return t.rowsNamed(column, names)
}

// rowsNamed decodes the rows that a column of text names.
func (t *table[T]) rowsNamed(column string, names map[string]bool) (rows []T, err error) {
	defer recovered(&err)
	wanted, err := t.named(column, names)
	if err != nil {
		return nil, err
	}
	for len(wanted) > 0 {
		n := 1
		for n < len(wanted) && wanted[n]-wanted[n-1] <= farApart {
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

// named are the numbers of the rows that a column of text names.
func (t *table[T]) named(column string, names map[string]bool) (rows []int, err error) {
	leaf, found := t.file.Schema().Lookup(column)
	if !found {
		return nil, fmt.Errorf("it has no column %q", column)
	}
	row, values := 0, make([]parquet.Value, rowsPerRead)
	for _, group := range t.file.RowGroups() {
		pages := group.ColumnChunks()[leaf.ColumnIndex].Pages()
		for {
			page, err := pages.ReadPage()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, errors.Join(err, pages.Close())
			}
			for reader := page.Values(); ; {
				n, err := reader.ReadValues(values)
				for _, value := range values[:n] {
					if names[string(value.ByteArray())] {
						rows = append(rows, row)
					}
					row++
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					return nil, errors.Join(err, pages.Close())
				}
			}
			parquet.Release(page)
		}
		if err := pages.Close(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
