package arrowfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// batchSchema names the layout of batch.arrow.
var batchSchema = seal.Schema{Name: "batch", Major: 3}

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
	{Name: "place", Type: arrow.PrimitiveTypes.Int32},
	{Name: "policy_version", Type: arrow.PrimitiveTypes.Int32},
	{Name: "logprob_source", Type: arrow.BinaryTypes.String},
}

// teacherPrompt is a column more, of schema minor version 1, in batches that have one.
var teacherPrompt = arrow.Field{Name: "teacher_prompt", Type: arrow.BinaryTypes.String}

// listOf is a list whose items are never null.
func listOf(t arrow.DataType) arrow.DataType { return arrow.ListOfNonNullable(t) }

// checkSequence reports lists of different lengths, and turns that there are not.
func checkSequence(s *shard.Sequence) error {
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

// BatchRecord says what a record batch of batch.arrow holds: sequences of one
// gradient unit, as they were sampled. The learner reads those of its units.
type BatchRecord struct {
	OptimizerStep int32 `json:"step"`
	Unit          int32 `json:"unit"`
	Rows          int   `json:"rows"`
	Tokens        int   `json:"tokens"`
	Longest       int   `json:"longest"` // tokens of its longest sequence
	// Versions are the policies that sampled sequences whose log-probabilities
	// are not our engine's.
	Versions []int32 `json:"versions,omitempty"`
	// TeacherPrompts says that the sequences have prompts for a teacher. Records agree.
	TeacherPrompts bool `json:"teacher_prompts,omitempty"`
}

// A record batch ends where the unit does, or with so many tokens or sequences.
// They decide the bytes, and how much memory a record takes.
const (
	tokensPerRecord    = 1 << 18
	sequencesPerRecord = 512
)

// BatchLayout cuts sequences into record batches.
type BatchLayout []BatchRecord

// Add puts the next sequence into the layout. Of s it reads what [shard.Sequence.Place]
// is for and where it was sampled; its tokens may not be there yet.
func (l *BatchLayout) Add(s *shard.Sequence, tokens int) {
	last := len(*l) - 1
	if last < 0 || (*l)[last].OptimizerStep != s.OptimizerStep || (*l)[last].Unit != s.Unit ||
		(*l)[last].Tokens+tokens > tokensPerRecord || (*l)[last].Rows == sequencesPerRecord {
		*l = append(*l, BatchRecord{OptimizerStep: s.OptimizerStep, Unit: s.Unit})
		last++
	}
	r := &(*l)[last]
	r.Rows++
	r.Tokens += tokens
	r.Longest = max(r.Longest, tokens)
	if s.LogProbSource != shard.LogProbsEngine && !slices.Contains(r.Versions, s.PolicyVersion) {
		r.Versions = append(r.Versions, s.PolicyVersion)
	}
}

// AddTeacherPrompts says that the sequences have prompts for a teacher.
func (l BatchLayout) AddTeacherPrompts() {
	for i := range l {
		l[i].TeacherPrompts = true
	}
}

// teacherPrompts reports whether the sequences have prompts for a teacher.
func (l BatchLayout) teacherPrompts() bool { return len(l) > 0 && l[0].TeacherPrompts }

// recordsKey is the metadata key under which a batch lists its record batches.
const recordsKey = "records"

// WriteBatch seals sequences as an Arrow IPC file.
func WriteBatch(path string, sequences []shard.Sequence, a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	return WriteBatchFrom(path, layoutOf(sequences), inOrder(sequences), a, m)
}

func layoutOf(sequences []shard.Sequence) BatchLayout {
	var layout BatchLayout
	for i := range sequences {
		layout.Add(&sequences[i], len(sequences[i].TokenIDs))
	}
	if slices.ContainsFunc(sequences, func(s shard.Sequence) bool { return s.TeacherPrompt != "" }) {
		layout.AddTeacherPrompts()
	}
	return layout
}

func inOrder(sequences []shard.Sequence) func(rows int) ([]shard.Sequence, error) {
	return func(rows int) (next []shard.Sequence, err error) {
		next, sequences = sequences[:rows], sequences[rows:]
		return next, nil
	}
}

// WriteBatchFrom seals the sequences of a layout, in its order: next gives those
// of the next record batch, which may be forgotten after the call that follows.
func WriteBatchFrom(path string, layout BatchLayout, next func(rows int) ([]shard.Sequence, error), a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	schema, err := batchArrowSchema(layout)
	if err != nil {
		return seal.Manifest{}, exitcode.Bugf("encoding %q: %w", path, err)
	}
	m.Schema, m.Rows = layout.schema(), 0
	for _, r := range layout {
		m.Rows += int64(r.Rows)
	}
	var failed error // of next: not of the encoding
	m, err = codec.Seal(path, true, a, m, func(w io.Writer) error {
		return encodeBatch(w, schema, layout, func(rows int) (sequences []shard.Sequence, err error) {
			sequences, failed = next(rows)
			return sequences, failed
		})
	})
	return m, cmp.Or(failed, err)
}

func batchArrowSchema(layout BatchLayout) (*arrow.Schema, error) {
	if layout == nil {
		layout = BatchLayout{}
	}
	records, err := json.Marshal(layout)
	if err != nil {
		return nil, err
	}
	metadata, err := arrowMetadata(layout.schema(), map[string]string{recordsKey: string(records)})
	if err != nil {
		return nil, err
	}
	fields := batchFields
	if layout.teacherPrompts() {
		fields = append(slices.Clip(fields), teacherPrompt)
	}
	return arrow.NewSchema(fields, metadata), nil
}

func (l BatchLayout) schema() seal.Schema {
	schema := batchSchema
	if l.teacherPrompts() {
		schema.Minor = 1
	}
	return schema
}

// encodeBatch writes the record batches of a layout.
func encodeBatch(w io.Writer, schema *arrow.Schema, layout BatchLayout, next func(rows int) ([]shard.Sequence, error)) error {
	return encodeArrow(w, schema, func(put func(arrow.Record) error) error {
		for i, r := range layout {
			sequences, err := next(r.Rows)
			if err != nil {
				return err
			}
			if err := r.check(sequences); err != nil {
				return exitcode.Bugf("record batch %d: %w", i, err)
			}
			record := sequencesRecord(schema, sequences)
			err = put(record)
			record.Release()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// check compares sequences with what the layout says of them.
func (r BatchRecord) check(sequences []shard.Sequence) error {
	found := BatchRecord{OptimizerStep: r.OptimizerStep, Unit: r.Unit, Rows: len(sequences)}
	for i := range sequences {
		s := &sequences[i]
		if err := checkSequence(s); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if s.OptimizerStep != r.OptimizerStep || s.Unit != r.Unit {
			return fmt.Errorf("row %d is of optimizer step %d, unit %d; its record batch is of step %d, unit %d", i, s.OptimizerStep, s.Unit, r.OptimizerStep, r.Unit)
		}
		found.Tokens += len(s.TokenIDs)
		found.Longest = max(found.Longest, len(s.TokenIDs))
	}
	if found.Rows != r.Rows || found.Tokens != r.Tokens || found.Longest != r.Longest {
		return fmt.Errorf("it holds %d rows of %d tokens, of at most %d; the layout says %d rows of %d tokens, of at most %d",
			found.Rows, found.Tokens, found.Longest, r.Rows, r.Tokens, r.Longest)
	}
	return nil
}

func sequencesRecord(schema *arrow.Schema, sequences []shard.Sequence) arrow.Record {
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
		for j, v := range []int32{s.Sample, s.IterationSampled, s.OptimizerStep, s.Unit, s.Place, s.PolicyVersion} {
			b.Field(12 + j).(*array.Int32Builder).Append(v)
		}
		b.Field(18).(*array.StringBuilder).Append(string(s.LogProbSource))
		if len(schema.Fields()) > len(batchFields) {
			b.Field(19).(*array.StringBuilder).Append(s.TeacherPrompt)
		}
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
