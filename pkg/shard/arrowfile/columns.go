package arrowfile

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// batchColumn is a column of batch.arrow: what it holds of a sequence, which is its row.
type batchColumn struct {
	arrow.Field
	put  func(b array.Builder, s *shard.Sequence)
	take func(r arrow.Record, sequences []shard.Sequence) error
}

var batchColumns = []batchColumn{
	int32s("token_ids", func(s *shard.Sequence) *[]int32 { return &s.TokenIDs }),
	lists[*array.BooleanBuilder]("loss_mask", arrow.FixedWidthTypes.Boolean, func(s *shard.Sequence) *[]bool { return &s.LossMask }, func(v *array.Boolean, lo, hi int) []bool {
		mask := make([]bool, hi-lo)
		for j := range mask {
			mask[j] = v.Value(lo + j)
		}
		return mask
	}),
	int32s("positions", func(s *shard.Sequence) *[]int32 { return &s.Positions }),
	int32s("turns", func(s *shard.Sequence) *[]int32 { return &s.Turns }),
	float32s("old_logprobs", func(s *shard.Sequence) *[]float32 { return &s.OldLogProbs }),
	int32s("turn_segments", func(s *shard.Sequence) *[]int32 { return &s.TurnSegments }),
	float32s("turn_advantages", func(s *shard.Sequence) *[]float32 { return &s.TurnAdvantages }),
	float64s("turn_factors", func(s *shard.Sequence) *[]float64 { return &s.TurnFactors }),
	float64s("turn_rewards", func(s *shard.Sequence) *[]float64 { return &s.TurnRewards }),
	float64s("turn_weights", func(s *shard.Sequence) *[]float64 { return &s.TurnWeights }),
	text("group_id", func(s *shard.Sequence) *string { return &s.GroupID }),
	text("instance_id", func(s *shard.Sequence) *string { return &s.InstanceID }),
	number("sample", func(s *shard.Sequence) *int32 { return &s.Sample }),
	number("iteration_sampled", func(s *shard.Sequence) *int32 { return &s.IterationSampled }),
	number("optimizer_step", func(s *shard.Sequence) *int32 { return &s.OptimizerStep }),
	number("unit", func(s *shard.Sequence) *int32 { return &s.Unit }),
	number("place", func(s *shard.Sequence) *int32 { return &s.Place }),
	number("policy_version", func(s *shard.Sequence) *int32 { return &s.PolicyVersion }),
	text("logprob_source", func(s *shard.Sequence) *shard.LogProbSource { return &s.LogProbSource }),
}

// batchFields are the fields of these columns.
var batchFields = func() (fields []arrow.Field) {
	for _, c := range batchColumns {
		fields = append(fields, c.Field)
	}
	return fields
}()

// lists is a column of lists whose items are never null; values are the items lo to hi of a
// column, as a copy.
func lists[B interface{ AppendValues([]E, []bool) }, E any, A arrow.Array](name string, t arrow.DataType, of func(*shard.Sequence) *[]E, values func(v A, lo, hi int) []E) batchColumn {
	return batchColumn{
		Field: arrow.Field{Name: name, Type: arrow.ListOfNonNullable(t)},
		put: func(b array.Builder, s *shard.Sequence) {
			list := b.(*array.ListBuilder)
			list.Append(true)
			list.ValueBuilder().(B).AppendValues(*of(s), nil)
		},
		take: func(r arrow.Record, sequences []shard.Sequence) error {
			return eachList(r, name, func(i int, v A, lo, hi int) { *of(&sequences[i]) = values(v, lo, hi) })
		},
	}
}

func int32s(name string, of func(*shard.Sequence) *[]int32) batchColumn {
	return lists[*array.Int32Builder](name, arrow.PrimitiveTypes.Int32, of, func(v *array.Int32, lo, hi int) []int32 { return append([]int32{}, v.Int32Values()[lo:hi]...) })
}

func float32s(name string, of func(*shard.Sequence) *[]float32) batchColumn {
	return lists[*array.Float32Builder](name, arrow.PrimitiveTypes.Float32, of, func(v *array.Float32, lo, hi int) []float32 { return append([]float32{}, v.Float32Values()[lo:hi]...) })
}

func float64s(name string, of func(*shard.Sequence) *[]float64) batchColumn {
	return lists[*array.Float64Builder](name, arrow.PrimitiveTypes.Float64, of, func(v *array.Float64, lo, hi int) []float64 { return append([]float64{}, v.Float64Values()[lo:hi]...) })
}

func number(name string, of func(*shard.Sequence) *int32) batchColumn {
	return batchColumn{
		Field: arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int32},
		put:   func(b array.Builder, s *shard.Sequence) { b.(*array.Int32Builder).Append(*of(s)) },
		take: func(r arrow.Record, sequences []shard.Sequence) error {
			return each(r, name, func(i int, v *array.Int32) { *of(&sequences[i]) = v.Value(i) })
		},
	}
}

func text[S ~string](name string, of func(*shard.Sequence) *S) batchColumn {
	return batchColumn{
		Field: arrow.Field{Name: name, Type: arrow.BinaryTypes.String},
		put:   func(b array.Builder, s *shard.Sequence) { b.(*array.StringBuilder).Append(string(*of(s))) },
		take: func(r arrow.Record, sequences []shard.Sequence) error {
			// The strings of an array share its buffer: clone, so that it can go.
			return each(r, name, func(i int, v *array.String) { *of(&sequences[i]) = S(strings.Clone(v.Value(i))) })
		},
	}
}

// sequencesOf copies the sequences out of a record.
func sequencesOf(r arrow.Record) ([]shard.Sequence, error) {
	sequences := make([]shard.Sequence, r.NumRows())
	for _, c := range batchColumns {
		if err := c.take(r, sequences); err != nil {
			return sequences, err
		}
	}
	return sequences, nil
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
