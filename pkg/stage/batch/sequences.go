package batch

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// learned is a sequence of the batch, without its tokens, and where it is from.
type learned struct {
	shard.Sequence
	group, trace, context int
	firstTurn             int   // of the trace, in its context
	turns                 []int // of the context, that are learned from
	lengths               []int // tokens of each of them
	tokens                int   // of the context
}

// layOut lays what is trained on out into optimizer steps and gradient units,
// and gives the turns their weights. The layout depends on the traces and the
// recipe alone. A mini-batch is whole groups, in a random order: a response's
// advantage is beside those that it was compared with, and their gradients
// cancel in what they share. The sequences come in plan order, as they are
// written; their places say in which order they are learned from.
func (r *reduction) layOut(critic bool) ([]learned, error) {
	var sequences []learned
	var counting []int // groups that the loss counts
	starts := []int{0} // of their sequences, and the end of the last
	for g, group := range r.batch {
		for i := range group.Traces {
			sequences = append(sequences, r.sequencesOf(g, i)...)
		}
		if !slices.ContainsFunc(group.segments, func(s credit.Segment) bool { return s.Dropped == "" }) {
			continue
		}
		counting, starts = append(counting, g), append(starts, len(sequences))
	}
	groups := len(counting)
	if r.Advantage.Whitening && !critic { // else the learner does, once it has values
		if err := r.whiten(sequences); err != nil {
			return nil, err
		}
	}
	miniBatches := r.Loss.MiniBatches
	order := make([]int, groups)
	for i := range order {
		order[i] = i
	}
	if miniBatches > 1 {
		order = rng.New(r.Seed, rng.PurposeShuffle, r.in.Iteration, "", 0).Permutation(0, groups)
	}
	place := int32(0)
	for step := range miniBatches {
		var laid []*learned
		var of []int // groups
		for _, g := range order[groups*step/miniBatches : groups*(step+1)/miniBatches] {
			of = append(of, counting[g])
			for i := starts[g]; i < starts[g+1]; i++ {
				sequences[i].Place = place
				laid, place = append(laid, &sequences[i]), place+1
			}
		}
		if err := r.layOutStep(laid, of, step, critic); err != nil {
			return nil, err
		}
	}
	return sequences, nil
}

// segmentsOf are the segments of one trace.
func (g group) segmentsOf(trace int) []credit.Segment {
	var own []credit.Segment
	for _, s := range g.segments {
		if s.Trace == trace {
			own = append(own, s)
		}
	}
	return own
}

// sequencesOf are the contexts of a trace of which something is learned: the
// turns of segments that are neither dropped nor masked.
func (r *reduction) sequencesOf(group, trace int) []learned {
	g := r.batch[group]
	segments := g.segmentsOf(trace)
	var sequences []learned
	before := 0 // turns of earlier contexts
	for i, c := range g.Traces[trace].Contexts {
		row := g.contexts[trace][i]
		s := learned{group: group, trace: trace, context: i, firstTurn: before, tokens: c.Tokens, Sequence: shard.Sequence{
			LogProbSource: shard.LogProbSource(row.LogProbSource), PolicyVersion: row.PolicyVersion,
			GroupID: row.GroupID, InstanceID: row.InstanceID, Sample: row.Sample, IterationSampled: int32(g.iteration),
		}}
		for turn, tokens := range c.TurnTokens {
			at, segment, found := find(segments, before+turn)
			if tokens == 0 || !found || !segment.HasGradient(before+turn) {
				continue
			}
			s.turns, s.lengths = append(s.turns, turn), append(s.lengths, tokens)
			s.TurnSegments = append(s.TurnSegments, int32(at))
			s.TurnAdvantages = append(s.TurnAdvantages, float32(segment.Advantage))
			s.TurnFactors = append(s.TurnFactors, segment.FactorOf(before+turn))
			reward := 0.0
			if before+turn == lastLearned(segment, g.Traces[trace].Tokens()) {
				reward = segment.Reward
			}
			s.TurnRewards = append(s.TurnRewards, reward)
		}
		if len(s.turns) > 0 {
			s.TurnWeights = make([]float64, len(s.turns))
			sequences = append(sequences, s)
		}
		before += len(c.TurnTokens)
	}
	return sequences
}

// lastLearned is the last turn of a segment that is learned from, with which its reward
// comes; -1 for none. tokens are those of the turns of its trace.
func lastLearned(s credit.Segment, tokens []int) int {
	for turn := s.Last; turn >= s.First; turn-- {
		if tokens[turn] > 0 && s.HasGradient(turn) {
			return turn
		}
	}
	return -1
}

// find looks a turn's segment up.
func find(segments []credit.Segment, turn int) (at int, segment credit.Segment, found bool) {
	for i, s := range segments {
		if s.First <= turn && turn <= s.Last {
			return i, s, true
		}
	}
	return 0, credit.Segment{}, false
}

// layOutStep gives the sequences of one optimizer step, which are those of whole
// groups, the weights of their turns, and cuts them into units of about equal
// numbers of tokens. With a critic the contexts of a trace are in one unit: the
// learner makes their advantages together.
func (r *reduction) layOutStep(sequences []*learned, groups []int, step int, critic bool) error {
	if err := r.weigh(sequences, groups); err != nil {
		return err
	}
	total := 0
	for _, s := range sequences {
		total += s.tokens
	}
	units := r.GradientUnits
	before := 0
	for i, s := range sequences {
		s.OptimizerStep = int32(step)
		s.Unit = int32(before * units / max(1, total))
		if critic && i > 0 && s.group == sequences[i-1].group && s.trace == sequences[i-1].trace {
			s.Unit = sequences[i-1].Unit
		}
		before += s.tokens
	}
	return nil
}

// span is the segment of a trace, and the turns of it that are learned from.
type span struct {
	group, trace, segment int
}

// weigh asks the recipe's aggregation for the weights of the turns of a step.
// Segments that are masked count with their tokens.
func (r *reduction) weigh(sequences []*learned, groups []int) error {
	var segments []credit.Segment
	var spans [][]int
	var lengths []int
	at := map[span]int{} // index into all three
	for _, group := range groups {
		g := r.batch[group]
		for trace := range g.Traces {
			tokens := g.Traces[trace].Tokens()
			for i, segment := range g.segmentsOf(trace) {
				if segment.Dropped != "" {
					continue
				}
				at[span{group, trace, i}] = len(segments)
				turns, length := tokens[segment.First:segment.Last+1], 0
				for _, n := range turns {
					length += n
				}
				segments, spans, lengths = append(segments, segment), append(spans, turns), append(lengths, length)
			}
		}
	}
	norm := loss.NormTokens(r.Loss, lengths, r.MaxNewTokens)
	aggregation, err := credit.WeightAxis.Make(r.Weight.Name, r.Weight.Settings)
	if err != nil {
		return err
	}
	weights, err := aggregation.Weights(spans, norm)
	if err != nil || weights == nil {
		return err // nil: nothing in the step can be learned from
	}
	for _, s := range sequences {
		for i, turn := range s.turns {
			n := at[span{s.group, s.trace, int(s.TurnSegments[i])}]
			inTrace := s.firstTurn + turn
			s.TurnWeights[i] = weights[n][inTrace-segments[n].First] * segments[n].WeightOf(inTrace)
		}
	}
	return nil
}

// whiten centres and scales the advantages over all tokens of the batch. Those of
// a turn have one advantage.
func (r *reduction) whiten(sequences []learned) error {
	var advantages []float64
	var tokens []int
	for _, s := range sequences {
		tokens = append(tokens, s.lengths...)
		for _, a := range s.TurnAdvantages {
			advantages = append(advantages, float64(a))
		}
	}
	whitened, err := credit.Whiten(advantages, tokens, r.Advantage.WhiteningDDof)
	if err != nil {
		return err
	}
	for _, s := range sequences {
		for i := range s.TurnAdvantages {
			s.TurnAdvantages[i] = float32(whitened[i])
		}
		whitened = whitened[len(s.TurnAdvantages):]
	}
	return nil
}

// writeBatch seals the sequences with their tokens, which are read shard by
// shard.
func (r *reduction) writeBatch(sequences []learned) error {
	var layout arrowfile.BatchLayout
	var read, trained float64 // tokens
	for i := range sequences {
		s := &sequences[i]
		layout.Add(&s.Sequence, s.tokens)
		read += float64(s.tokens)
		for _, n := range s.lengths {
			trained += float64(n)
		}
	}
	r.metrics["sequences"], r.metrics["tokens"], r.metrics["trained_tokens"] = float64(len(sequences)), read, trained
	if r.in.TeacherPrompt != nil {
		layout.AddTeacherPrompts()
	}
	m := r.manifest()
	m.Metrics = r.metrics
	if err := stage.NoteSamplers(&m, r.samplers); err != nil {
		return err
	}
	held := &tokens{shard: -1}
	_, err := arrowfile.WriteBatchFrom(r.in.BatchOutput, layout, func(rows int) ([]shard.Sequence, error) {
		record := make([]shard.Sequence, rows)
		for i, s := range sequences[:rows] {
			g := r.batch[s.group]
			contexts, err := r.tokensOf(held, g, s.trace)
			if err != nil {
				return nil, err
			}
			if record[i], err = s.with(contexts[s.context]); err != nil {
				return nil, err
			}
			if record[i].TeacherPrompt, err = r.teacherPrompt(held, g, s.trace); err != nil {
				return nil, fmt.Errorf("teacher's prompt, instance %q sample %d: %w", s.InstanceID, s.Sample, err)
			}
		}
		sequences = sequences[rows:]
		return record, nil
	}, r.attempt, m)
	return err
}

// with is the sequence with its tokens.
func (s learned) with(row tokensRow) (shard.Sequence, error) {
	n := len(row.TokenIDs)
	full := s.Sequence
	full.TokenIDs, full.OldLogProbs = row.TokenIDs, row.LogProbs
	full.LossMask, full.Positions, full.Turns = make([]bool, n), make([]int32, n), make([]int32, n)
	if n != s.tokens || len(row.LossMask) != n || len(row.LogProbs) != n || int(row.Turns) <= s.turns[len(s.turns)-1] {
		return full, exitcode.Dataf("instance %q sample %d: %d token_ids, %d of a loss_mask and %d logprobs in %d turns; there were %d when they were counted",
			s.InstanceID, s.Sample, n, len(row.LossMask), len(row.LogProbs), row.Turns, s.tokens)
	}
	number := make([]int, row.Turns) // of the context's turn among those of the sequence
	for i := range number {
		number[i] = -1
	}
	for i, turn := range s.turns {
		number[turn] = i
	}
	for i, turn := range credit.TokenTurns(row.LossMask, int(row.Turns)) {
		full.Positions[i] = int32(i)
		if turn >= 0 && number[turn] >= 0 {
			full.LossMask[i], full.Turns[i] = true, int32(number[turn])
		}
	}
	return full, nil
}
