package shard

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// batchSchema names the layout of batch.arrow.
var batchSchema = seal.Schema{Name: "batch", Major: 2}

// sequencesPerRecord is how many sequences a record batch of batch.arrow
// holds. It decides the bytes: a change is a new minor version of the schema.
const sequencesPerRecord = 512

// batchFields are the columns of batch.arrow, one row for each sequence.
var batchFields = []arrow.Field{
	{Name: "token_ids", Type: listOf(arrow.PrimitiveTypes.Int32)},
	{Name: "loss_mask", Type: listOf(arrow.FixedWidthTypes.Boolean)},
	{Name: "positions", Type: listOf(arrow.PrimitiveTypes.Int32)},
	{Name: "turns", Type: listOf(arrow.PrimitiveTypes.Int32)},
	{Name: "old_logprobs", Type: listOf(arrow.PrimitiveTypes.Float32)},
	{Name: "turn_segments", Type: listOf(arrow.PrimitiveTypes.Int32)},
	{Name: "turn_advantages", Type: listOf(arrow.PrimitiveTypes.Float32)},
	{Name: "turn_factors", Type: listOf(arrow.PrimitiveTypes.Float64)},
	{Name: "turn_rewards", Type: listOf(arrow.PrimitiveTypes.Float64)},
	{Name: "turn_weights", Type: listOf(arrow.PrimitiveTypes.Float64)},
	{Name: "group_id", Type: arrow.BinaryTypes.String},
	{Name: "instance_id", Type: arrow.BinaryTypes.String},
	{Name: "sample", Type: arrow.PrimitiveTypes.Int32},
	{Name: "iteration_sampled", Type: arrow.PrimitiveTypes.Int32},
	{Name: "optimizer_step", Type: arrow.PrimitiveTypes.Int32},
	{Name: "unit", Type: arrow.PrimitiveTypes.Int32},
	{Name: "policy_version", Type: arrow.PrimitiveTypes.Int32},
	{Name: "logprob_source", Type: arrow.BinaryTypes.String},
}

// listOf is a list whose items are never null.
func listOf(t arrow.DataType) arrow.DataType { return arrow.ListOfNonNullable(t) }

// check reports lists of different lengths, and turns that there are not.
func (s *Sequence) check() error {
	n, turns := len(s.TokenIDs), len(s.TurnWeights)
	for _, list := range []struct {
		name         string
		length, want int
	}{
		{"loss_mask", len(s.LossMask), n},
		{"positions", len(s.Positions), n},
		{"turns", len(s.Turns), n},
		{"old_logprobs", len(s.OldLogProbs), n},
		{"turn_segments", len(s.TurnSegments), turns},
		{"turn_advantages", len(s.TurnAdvantages), turns},
		{"turn_factors", len(s.TurnFactors), turns},
		{"turn_rewards", len(s.TurnRewards), turns},
	} {
		if list.length != list.want {
			return fmt.Errorf("sequence %q, sample %d: %d %s, want %d: it has %d token_ids and %d turn_weights",
				s.InstanceID, s.Sample, list.length, list.name, list.want, n, turns)
		}
	}
	for i, turn := range s.Turns {
		if s.LossMask[i] && (turn < 0 || int(turn) >= turns) {
			return fmt.Errorf("sequence %q, sample %d: token %d is of turn %d of %d", s.InstanceID, s.Sample, i, turn, turns)
		}
	}
	return nil
}

// WriteBatch seals sequences as an Arrow IPC file. meta is kept in the file
// and may be nil; its key "schema" is taken.
func WriteBatch(path string, sequences []Sequence, meta map[string]string, a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	for i := range sequences {
		if err := sequences[i].check(); err != nil {
			return seal.Manifest{}, exitcode.Bugf("encoding %q: %w", path, err)
		}
	}
	metadata, err := arrowMetadata(batchSchema, meta)
	if err != nil {
		return seal.Manifest{}, exitcode.Bugf("encoding %q: %w", path, err)
	}
	m.Schema, m.Rows = batchSchema, int64(len(sequences))
	schema := arrow.NewSchema(batchFields, metadata)
	return sealArrow(path, schema, a, m, putSequences(schema, sequences))
}

// putSequences gives out the record batches of the sequences.
func putSequences(schema *arrow.Schema, sequences []Sequence) func(put func(arrow.Record) error) error {
	return func(put func(arrow.Record) error) error {
		for chunk := range slices.Chunk(sequences, sequencesPerRecord) {
			record := sequencesRecord(schema, chunk)
			err := put(record)
			record.Release()
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func sequencesRecord(schema *arrow.Schema, sequences []Sequence) arrow.Record {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	defer b.Release()
	for i := range sequences {
		s := &sequences[i]
		int32s(b.Field(0), s.TokenIDs)
		masks := b.Field(1).(*array.ListBuilder)
		masks.Append(true)
		masks.ValueBuilder().(*array.BooleanBuilder).AppendValues(s.LossMask, nil)
		int32s(b.Field(2), s.Positions)
		int32s(b.Field(3), s.Turns)
		float32s(b.Field(4), s.OldLogProbs)
		int32s(b.Field(5), s.TurnSegments)
		float32s(b.Field(6), s.TurnAdvantages)
		float64s(b.Field(7), s.TurnFactors)
		float64s(b.Field(8), s.TurnRewards)
		float64s(b.Field(9), s.TurnWeights)
		b.Field(10).(*array.StringBuilder).Append(s.GroupID)
		b.Field(11).(*array.StringBuilder).Append(s.InstanceID)
		for j, v := range []int32{s.Sample, s.IterationSampled, s.OptimizerStep, s.Unit, s.PolicyVersion} {
			b.Field(12 + j).(*array.Int32Builder).Append(v)
		}
		b.Field(17).(*array.StringBuilder).Append(string(s.LogProbSource))
	}
	return b.NewRecord()
}

func int32s(b array.Builder, values []int32) {
	list := b.(*array.ListBuilder)
	list.Append(true)
	list.ValueBuilder().(*array.Int32Builder).AppendValues(values, nil)
}

func float32s(b array.Builder, values []float32) {
	list := b.(*array.ListBuilder)
	list.Append(true)
	list.ValueBuilder().(*array.Float32Builder).AppendValues(values, nil)
}

func float64s(b array.Builder, values []float64) {
	list := b.(*array.ListBuilder)
	list.Append(true)
	list.ValueBuilder().(*array.Float64Builder).AppendValues(values, nil)
}

// ReadBatch returns the sequences of a sealed batch and its metadata.
func ReadBatch(ctx context.Context, path string, o seal.Options) ([]Sequence, map[string]string, seal.Manifest, error) {
	data, m, err := seal.Open(ctx, path, o)
	if err != nil {
		return nil, nil, seal.Manifest{}, err
	}
	sequences, meta, err := decodeBatch(data)
	if err == nil && int64(len(sequences)) != m.Rows {
		err = fmt.Errorf("it holds %d rows, its manifest says %d", len(sequences), m.Rows)
	}
	if err != nil {
		return nil, nil, seal.Manifest{}, unreadable(path, err)
	}
	return sequences, meta, m, nil
}

func decodeBatch(data []byte) ([]Sequence, map[string]string, error) {
	var sequences []Sequence
	meta, err := decodeArrow(data, batchSchema, batchFields, func(_ int, _ map[string]string, r arrow.Record) error {
		more, err := sequencesOf(r)
		sequences = append(sequences, more...)
		return err
	})
	return sequences, meta, err
}

// sequencesOf copies the sequences out of a record.
func sequencesOf(r arrow.Record) ([]Sequence, error) {
	sequences := make([]Sequence, r.NumRows())
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
		each(r, "policy_version", func(i int, v *array.Int32) { sequences[i].PolicyVersion = v.Value(i) }),
		each(r, "logprob_source", func(i int, v *array.String) { sequences[i].LogProbSource = LogProbSource(clone(v.Value(i))) }),
	)
	if err != nil {
		return nil, err
	}
	for i := range sequences {
		if err := sequences[i].check(); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return sequences, nil
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
