package arrowfile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

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

// sequencesOf copies the sequences out of a record.
func sequencesOf(r arrow.Record) ([]shard.Sequence, error) {
	sequences := make([]shard.Sequence, r.NumRows())
	err := firstError(
		eachList(r, "token_ids", func(i int, v *array.Int32, lo, hi int) {
			sequences[i].TokenIDs = append([]int32{}, v.Int32Values()[lo:hi]...)
		}),
		eachList(r, "loss_mask", func(i int, v *array.Boolean, lo, hi int) {
			mask := make([]bool, hi-lo)
			for j := range mask {
				mask[j] = v.Value(lo + j)
			}
			sequences[i].LossMask = mask
		}),
		eachList(r, "positions", func(i int, v *array.Int32, lo, hi int) {
			sequences[i].Positions = append([]int32{}, v.Int32Values()[lo:hi]...)
		}),
		eachList(r, "turns", func(i int, v *array.Int32, lo, hi int) {
			sequences[i].Turns = append([]int32{}, v.Int32Values()[lo:hi]...)
		}),
		eachList(r, "old_logprobs", func(i int, v *array.Float32, lo, hi int) {
			sequences[i].OldLogProbs = append([]float32{}, v.Float32Values()[lo:hi]...)
		}),
		eachList(r, "turn_segments", func(i int, v *array.Int32, lo, hi int) {
			sequences[i].TurnSegments = append([]int32{}, v.Int32Values()[lo:hi]...)
		}),
		eachList(r, "turn_advantages", func(i int, v *array.Float32, lo, hi int) {
			sequences[i].TurnAdvantages = append([]float32{}, v.Float32Values()[lo:hi]...)
		}),
		eachList(r, "turn_factors", func(i int, v *array.Float64, lo, hi int) {
			sequences[i].TurnFactors = append([]float64{}, v.Float64Values()[lo:hi]...)
		}),
		eachList(r, "turn_rewards", func(i int, v *array.Float64, lo, hi int) {
			sequences[i].TurnRewards = append([]float64{}, v.Float64Values()[lo:hi]...)
		}),
		eachList(r, "turn_weights", func(i int, v *array.Float64, lo, hi int) {
			sequences[i].TurnWeights = append([]float64{}, v.Float64Values()[lo:hi]...)
		}),
		// The strings of an array share its buffer: clone, so that it can go.
		each(r, "group_id", func(i int, v *array.String) { sequences[i].GroupID = clone(v.Value(i)) }),
		each(r, "instance_id", func(i int, v *array.String) { sequences[i].InstanceID = clone(v.Value(i)) }),
		each(r, "sample", func(i int, v *array.Int32) { sequences[i].Sample = v.Value(i) }),
		each(r, "iteration_sampled", func(i int, v *array.Int32) { sequences[i].IterationSampled = v.Value(i) }),
		each(r, "optimizer_step", func(i int, v *array.Int32) { sequences[i].OptimizerStep = v.Value(i) }),
		each(r, "unit", func(i int, v *array.Int32) { sequences[i].Unit = v.Value(i) }),
		each(r, "place", func(i int, v *array.Int32) { sequences[i].Place = v.Value(i) }),
		each(r, "policy_version", func(i int, v *array.Int32) { sequences[i].PolicyVersion = v.Value(i) }),
		each(r, "logprob_source", func(i int, v *array.String) { sequences[i].LogProbSource = shard.LogProbSource(clone(v.Value(i))) }),
	)
	if err == nil && r.Schema().HasField(teacherPrompt.Name) {
		err = each(r, teacherPrompt.Name, func(i int, v *array.String) { sequences[i].TeacherPrompt = clone(v.Value(i)) })
	}
	return sequences, err
}

func clone(s string) string { return string([]byte(s)) }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f for every row of a column.
func each[A arrow.Array](r arrow.Record, name string, f func(row int, column A)) error {
	column, err := columnOf[A](r, name)
	if err != nil {
		return err
	}
	for i := range int(r.NumRows()) {
		f(i, column)
	}
	return nil
}

// eachList calls f for every row of a column of lists: the list of a row is
// items lo to hi of the values.
func eachList[A arrow.Array](r arrow.Record, name string, f func(row int, values A, lo, hi int)) error {
	column, err := columnOf[*array.List](r, name)
	if err != nil {
		return err
	}
	values, ok := column.ListValues().(A)
	if !ok {
		return fmt.Errorf("column %s: unexpected items of type %s", name, column.ListValues().DataType())
	}
	if values.NullN() != 0 {
		return fmt.Errorf("column %s: holds NULL", name)
	}
	for i := range int(r.NumRows()) {
		lo, hi := column.ValueOffsets(i)
		if lo < 0 || hi < lo || hi > int64(values.Len()) {
			return fmt.Errorf("row %d, column %s: list from %d to %d of %d items", i, name, lo, hi, values.Len())
		}
		f(i, values, int(lo), int(hi))
	}
	return nil
}
