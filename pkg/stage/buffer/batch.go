package buffer

import (
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// learned is a sequence of the batch with where its turns are in its group.
type learned struct {
	shard.Sequence
	group int
	trace int
	turns []int // of the trace, that the messages of the sequence are
}

// batch lays what is trained on out into optimizer steps and gradient units.
// The layout depends on the traces and the recipe alone. A mini-batch is whole
// groups, in a random order: a response's advantage is beside those that it was
// compared with, and their gradients cancel in what they share.
func (r *reduction) batch(critic bool) ([]shard.Sequence, error) {
	var sequences []learned
	starts := []int{0} // of the groups that are trained on, and their end
	for g, group := range r.groups {
		for i, t := range group.Traces {
			for _, s := range sequencesOf(t, group.segmentsOf(i)) {
				s.group, s.trace, s.IterationSampled = g, i, int32(group.iteration)
				sequences = append(sequences, s)
			}
		}
		if len(sequences) > starts[len(starts)-1] {
			starts = append(starts, len(sequences))
		}
	}
	groups := len(starts) - 1
	if r.recipe.Advantage.Whitening && !critic { // else the learner does, once it has values
		if err := r.whiten(sequences); err != nil {
			return nil, err
		}
	}
	miniBatches := r.recipe.Loss.MiniBatches
	order := make([]int, groups)
	for i := range order {
		order[i] = i
	}
	if miniBatches > 1 {
		order = rng.New(r.recipe.Seed, rng.PurposeShuffle, r.in.Iteration, "", 0).Permutation(0, groups)
	}
	laid := make([]learned, 0, len(sequences))
	for step := range miniBatches {
		first := len(laid)
		for _, g := range order[groups*step/miniBatches : groups*(step+1)/miniBatches] {
			laid = append(laid, sequences[starts[g]:starts[g+1]]...)
		}
		if err := r.layOut(laid[first:], step); err != nil {
			return nil, err
		}
	}
	var tokens, trained float64
	batch := make([]shard.Sequence, len(laid))
	for i, s := range laid {
		batch[i] = s.Sequence
		tokens += float64(len(s.TokenIDs))
		trained += float64(maskedIn(s.LossMask))
	}
	r.metrics["sequences"], r.metrics["tokens"], r.metrics["trained_tokens"] = float64(len(batch)), tokens, trained
	return batch, nil
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
func sequencesOf(t credit.Trace, segments []credit.Segment) []learned {
	var sequences []learned
	before := 0 // turns of earlier contexts
	for _, row := range t.Rows {
		s := learned{Sequence: shard.Sequence{
			TokenIDs: row.TokenIDs, LossMask: make([]bool, len(row.TokenIDs)), OldLogProbs: row.LogProbs, Turns: make([]int32, len(row.TokenIDs)),
			LogProbSource: shard.LogProbSource(row.LogProbSource), PolicyVersion: row.PolicyVersion,
			Positions: make([]int32, len(row.TokenIDs)), GroupID: row.GroupID, InstanceID: row.InstanceID, Sample: row.Sample,
		}}
		number := map[int]int{} // turn of the context -> of the sequence
		for i, turn := range credit.TokenTurns(row) {
			s.Positions[i] = int32(i)
			if turn < 0 {
				continue
			}
			at, segment, found := find(segments, before+turn)
			if !found || segment.Dropped != "" || segment.Masked {
				continue
			}
			n, seen := number[turn]
			if !seen {
				n = len(s.turns)
				number[turn] = n
				s.turns = append(s.turns, before+turn)
				s.TurnSegments = append(s.TurnSegments, int32(at))
				s.TurnAdvantages = append(s.TurnAdvantages, float32(segment.Advantage))
				s.TurnFactors = append(s.TurnFactors, segment.Factor)
				reward := 0.0
				if before+turn == segment.Last { // it comes with the segment's last token
					reward = segment.Reward
				}
				s.TurnRewards = append(s.TurnRewards, reward)
			}
			s.LossMask[i], s.Turns[i] = true, int32(n)
		}
		if len(s.turns) > 0 {
			s.TurnWeights = make([]float64, len(s.turns))
			sequences = append(sequences, s)
		}
		before += int(row.Turns)
	}
	return sequences
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

// layOut gives the sequences of one optimizer step the weights of their turns
// and cuts them into units of about equal numbers of tokens.
func (r *reduction) layOut(sequences []learned, step int) error {
	if err := r.weigh(sequences); err != nil {
		return err
	}
	total := 0
	for _, s := range sequences {
		total += len(s.TokenIDs)
	}
	units := r.recipe.Schedule.GradientUnits
	before := 0
	for i := range sequences {
		sequences[i].OptimizerStep = int32(step)
		sequences[i].Unit = int32(before * units / max(1, total))
		before += len(sequences[i].TokenIDs)
	}
	return nil
}

// span is the segment of a trace, and the turns of it that are learned from.
type span struct {
	group, trace, segment int
}

// weigh asks the recipe's aggregation for the weights of the turns of a step.
// Segments that are masked count with their tokens.
func (r *reduction) weigh(sequences []learned) error {
	var segments []credit.Segment
	var spans [][]int
	var lengths []int
	at := map[span]int{} // index into all three
	known := map[[2]int]bool{}
	for _, s := range sequences {
		if trace := [2]int{s.group, s.trace}; !known[trace] {
			known[trace] = true
			g := r.groups[s.group]
			tokens := g.Traces[s.trace].Tokens()
			for i, segment := range g.segmentsOf(s.trace) {
				if segment.Dropped != "" {
					continue
				}
				at[span{s.group, s.trace, i}] = len(segments)
				turns, length := tokens[segment.First:segment.Last+1], 0
				for _, n := range turns {
					length += n
				}
				segments, spans, lengths = append(segments, segment), append(spans, turns), append(lengths, length)
			}
		}
	}
	norm := objective.NormTokens(r.recipe.Loss.Loss, lengths, r.recipe.Rollout.MaxNewTokens)
	aggregation, err := r.recipe.Weight()
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
			s.TurnWeights[i] = weights[n][turn-segments[n].First] * segments[n].Weight
		}
	}
	return nil
}

// whiten centres and scales the advantages over all tokens of the batch.
func (r *reduction) whiten(sequences []learned) error {
	var advantages []float64
	var tokens []int
	for _, s := range sequences {
		for i, masked := range s.LossMask {
			value, count := 0.0, 0
			if masked {
				value, count = float64(s.TurnAdvantages[s.Turns[i]]), 1
			}
			advantages, tokens = append(advantages, value), append(tokens, count)
		}
	}
	whitened, err := objective.Whiten(advantages, tokens, r.recipe.Advantage.WhiteningDDof)
	if err != nil {
		return err
	}
	for _, s := range sequences {
		for i, masked := range s.LossMask {
			if masked { // the tokens of a turn have one advantage
				s.TurnAdvantages[s.Turns[i]] = float32(whitened[i])
			}
		}
		whitened = whitened[len(s.LossMask):]
	}
	return nil
}

func maskedIn(mask []bool) int {
	n := 0
	for _, m := range mask {
		if m {
			n++
		}
	}
	return n
}
