package arrowfile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// Batch reads parts of a sealed batch. Nothing is decoded whose digest does not
// match. A Batch is for one goroutine.
type Batch struct {
	Layout BatchLayout

	path   string
	file   *arrowFile
	units  map[unit][]int // record batches, by what they hold
	sealed *seal.ReaderAt // nil in tests of the decoder
}

// unit is a gradient unit of an optimizer step.
type unit struct{ step, number int32 }

// OpenBatch opens a sealed batch and reads its layout.
func OpenBatch(ctx context.Context, path string, o seal.Options) (*Batch, seal.Manifest, error) {
	r, m, err := seal.OpenAt(ctx, path, o)
	if err != nil {
		return nil, seal.Manifest{}, err
	}
	b, err := newBatch(r, r.Size())
	if err == nil && b.rows() != m.Rows {
		err = fmt.Errorf("it holds %d rows, its manifest says %d", b.rows(), m.Rows)
	}
	if err != nil {
		r.Close()
		return nil, seal.Manifest{}, codec.Failed(path, r, err)
	}
	b.path, b.sealed = path, r
	return b, m, nil
}

func newBatch(r io.ReaderAt, size int64) (*Batch, error) {
	file, err := openArrow(r, size, batchSchema, batchFields)
	if err != nil {
		return nil, err
	}
	b := &Batch{file: file, units: map[unit][]int{}}
	records, ok := file.meta[recordsKey]
	if !ok {
		return nil, fmt.Errorf("metadata key %q is missing", recordsKey)
	}
	if err := json.Unmarshal([]byte(records), &b.Layout); err != nil {
		return nil, fmt.Errorf("metadata key %q: %w", recordsKey, err)
	}
	if n := file.reader.NumRecords(); n != len(b.Layout) {
		return nil, fmt.Errorf("it lists %d record batches and holds %d", len(b.Layout), n)
	}
	for i, r := range b.Layout {
		u := unit{r.OptimizerStep, r.Unit}
		b.units[u] = append(b.units[u], i)
	}
	return b, nil
}

func (b *Batch) rows() int64 {
	var rows int64
	for _, r := range b.Layout {
		rows += int64(r.Rows)
	}
	return rows
}

// Longest is the number of tokens of the batch's longest sequence, at least 1.
func (b *Batch) Longest() int {
	longest := 1
	for _, r := range b.Layout {
		longest = max(longest, r.Longest)
	}
	return longest
}

// BytesRead is how much of the file was read so far.
func (b *Batch) BytesRead() int64 { return b.sealed.BytesRead() }

// Close ends the reading.
func (b *Batch) Close() error { return b.sealed.Close() }

// Unit reads the sequences of a gradient unit of an optimizer step, by their
// places.
func (b *Batch) Unit(step, number int) ([]shard.Sequence, error) {
	return b.read(b.units[unit{int32(step), int32(number)}])
}

// all reads every sequence, by its place.
func (b *Batch) all() ([]shard.Sequence, error) {
	records := make([]int, len(b.Layout))
	for i := range records {
		records[i] = i
	}
	return b.read(records)
}

// read reads the sequences of record batches, by their places.
func (b *Batch) read(records []int) ([]shard.Sequence, error) {
	var sequences []shard.Sequence
	for _, i := range records {
		more, err := b.record(i)
		if err != nil {
			return nil, codec.Failed(b.path, b.sealed, fmt.Errorf("record batch %d: %w", i, err))
		}
		sequences = append(sequences, more...)
	}
	slices.SortStableFunc(sequences, func(a, b shard.Sequence) int { return cmp.Compare(a.Place, b.Place) })
	return sequences, nil
}

// record reads one record batch.
func (b *Batch) record(i int) ([]shard.Sequence, error) {
	var sequences []shard.Sequence
	err := b.file.record(i, func(r arrow.Record) (err error) {
		sequences, err = sequencesOf(r)
		return err
	})
	if err == nil {
		err = b.Layout[i].check(sequences)
	}
	return sequences, err
}

// ReadBatch reads all sequences of a sealed batch, by their places.
func ReadBatch(ctx context.Context, path string, o seal.Options) ([]shard.Sequence, seal.Manifest, error) {
	b, m, err := OpenBatch(ctx, path, o)
	if err != nil {
		return nil, seal.Manifest{}, err
	}
	defer b.Close()
	sequences, err := b.all()
	return sequences, m, err
}
