package buffer

import (
	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// batch lays the responses to train on out into optimizer steps and gradient
// units. The layout depends on the responses and the recipe alone. A mini-batch
// is whole groups, in a random order: a response's advantage is beside those
// that it was compared with, and their gradients cancel in what they share.
func (f *fold) batch() ([]shard.Sequence, error) {
	var sequences []shard.Sequence
	starts := []int{0} // of the groups that are trained on, and their end
	for _, g := range f.groups {
		for _, r := range g.responses {
			if r.reason == "" {
				sequences = append(sequences, sequence(g, r))
			}
		}
		if len(sequences) > starts[len(starts)-1] {
			starts = append(starts, len(sequences))
		}
	}
	groups := len(starts) - 1
	if f.Recipe.Advantage.Whitening && f.Recipe.Advantage.Kind != "gae" { // the learner does, once it has values
		if err := f.whiten(sequences); err != nil {
			return nil, err
		}
	}
	miniBatches := f.Recipe.Loss.MiniBatches
	order := make([]int, groups)
	for i := range order {
		order[i] = i
	}
	if miniBatches > 1 {
		order = rng.New(f.Recipe.Seed, rng.PurposeShuffle, f.in.Iteration, "", 0).Permutation(0, groups)
	}
	laid := make([]shard.Sequence, 0, len(sequences))
	for step := range miniBatches {
		first := len(laid)
		for _, g := range order[groups*step/miniBatches : groups*(step+1)/miniBatches] {
			laid = append(laid, sequences[starts[g]:starts[g+1]]...)
		}
		if err := f.layOut(laid[first:], step); err != nil {
			return nil, err
		}
	}
	sequences = laid
	var tokens, trained float64
	for _, s := range sequences {
		tokens += float64(len(s.TokenIDs))
		trained += float64(maskedIn(s.LossMask))
	}
	f.metrics["sequences"], f.metrics["tokens"], f.metrics["trained_tokens"] = float64(len(sequences)), tokens, trained
	return sequences, nil
}

// sequence is one trajectory with its advantage at every token of the
// policy's own.
func sequence(g group, r response) shard.Sequence {
	n := len(r.TokenIDs)
	s := shard.Sequence{
		TokenIDs: r.TokenIDs, LossMask: r.LossMask, OldLogProbs: r.LogProbs,
		LogProbSource: shard.LogProbSource(r.LogProbSource), PolicyVersion: r.PolicyVersion,
		Positions: make([]int32, n), Advantages: make([]float32, n),
		GroupID: r.GroupID, InstanceID: r.InstanceID, Sample: r.Sample, IterationSampled: int32(g.iteration),
	}
	for t := range n {
		s.Positions[t] = int32(t)
		if r.LossMask[t] {
			s.Advantages[t] = float32(r.advantage)
		}
	}
	return s
}

// layOut gives the sequences of one optimizer step their aggregation weights
// and cuts them into units of about equal numbers of tokens.
func (f *fold) layOut(sequences []shard.Sequence, step int) error {
	lengths := make([]int, len(sequences))
	total := 0
	for i, s := range sequences {
		lengths[i] = maskedIn(s.LossMask)
		total += len(s.TokenIDs)
	}
	norm := objective.NormTokens(f.Recipe.Loss, lengths, f.Recipe.Rollout.MaxNewTokens)
	weights, err := objective.Weights(f.Recipe.Loss.Aggregation, lengths, norm)
	if err != nil || weights == nil {
		return err // nil: nothing in the step can be learned from
	}
	units := f.Recipe.Schedule.GradientUnits
	before := 0
	for i := range sequences {
		sequences[i].Weight = weights[i]
		sequences[i].OptimizerStep = int32(step)
		sequences[i].Unit = int32(before * units / max(1, total))
		before += len(sequences[i].TokenIDs)
	}
	return nil
}

// whiten centres and scales the advantages over all tokens of the batch.
func (f *fold) whiten(sequences []shard.Sequence) error {
	var advantages []float64
	var tokens []int
	for _, s := range sequences {
		for t, a := range s.Advantages {
			advantages = append(advantages, float64(a))
			tokens = append(tokens, 0)
			if s.LossMask[t] {
				tokens[len(tokens)-1] = 1
			}
		}
	}
	whitened, err := objective.Whiten(advantages, tokens, f.Recipe.Advantage.WhiteningDDof)
	if err != nil {
		return err
	}
	for _, s := range sequences {
		for t := range s.Advantages {
			s.Advantages[t] = float32(whitened[t])
		}
		whitened = whitened[len(s.Advantages):]
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
