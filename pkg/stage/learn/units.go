package learn

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// units adds the gradients of a tree's units of one optimizer step to it.
func (l *learner) units(ctx context.Context, step int, t *tree, stats *stepStats) error {
	byUnit := make([][]sequence, l.Recipe.Schedule.GradientUnits)
	miniBatch := int32(step % l.Recipe.Loss.MiniBatches)
	for _, s := range l.batch {
		if s.OptimizerStep == miniBatch {
			byUnit[s.Unit] = append(byUnit[s.Unit], s)
		}
	}
	for unit := t.first; unit < t.last; unit++ {
		for _, micro := range l.microBatches(l.engine, byUnit[unit]) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := l.accumulate(micro, stats); err != nil {
				return fmt.Errorf("optimizer step %d, unit %d: %w", step, unit, err)
			}
		}
		if err := t.add(unit, 0); err != nil {
			return fmt.Errorf("optimizer step %d, unit %d: %w", step, unit, err)
		}
	}
	return nil
}

// microBatches cuts sequences for an engine's passes under the recipe.
func (l *learner) microBatches(engine policy.Engine, sequences []sequence) [][]sequence {
	return microBatches(sequences, l.Recipe.Schedule.MicroBatchTokens, engine.Room)
}

// microBatches cuts sequences, in order, into runs as long as an engine has room
// for, and of at most limit tokens if that is not 0; a longer sequence is a run
// of its own. Where the cuts are changes no bit of any result.
func microBatches(sequences []sequence, limit int, room func(lengths []int) int) [][]sequence {
	lengths := make([]int, len(sequences))
	for i, s := range sequences {
		lengths[i] = len(s.TokenIDs)
	}
	var runs [][]sequence
	for len(sequences) > 0 {
		n, tokens := 0, 0
		for n < len(lengths) && (n == 0 || limit == 0 || tokens+lengths[n] <= limit) {
			tokens += lengths[n]
			n++
		}
		n = room(lengths[:n])
		runs = append(runs, sequences[:n])
		sequences, lengths = sequences[n:], lengths[n:]
	}
	return runs
}

// accumulate runs one micro-batch forward and backward.
func (l *learner) accumulate(sequences []sequence, stats *stepStats) error {
	batch := pack(sequences)
	n := len(batch.TokenIDs)
	logProbs, entropy := make([]float32, n), make([]float32, n)
	sampling := l.sampling()
	var reference []float32
	if l.reference != nil {
		reference = make([]float32, n)
		l.reference.SetAdapter(false)
		if err := l.reference.Forward(batch, sampling, reference, make([]float32, n)); err != nil {
			return fmt.Errorf("reference policy: %w", err)
		}
		l.reference.SetAdapter(true)
	}
	if err := l.engine.Forward(batch, sampling, logProbs, entropy); err != nil {
		return err
	}
	coefficients := make([]float32, n)
	var entropyCoefficients []float32
	if l.Recipe.Loss.EntropyCoef != 0 {
		entropyCoefficients = make([]float32, n)
	}
	for i, s := range sequences {
		from, to := batch.Offsets[i], batch.Offsets[i+1]
		tokens := objective.TokenInputs{
			New: widen(logProbs[from:to]), Old: widen(s.OldLogProbs), Advantage: widen(s.Advantages), Mask: s.LossMask,
			Entropy: widen(entropy[from:to]), Weight: s.Weight, SamplerUnknown: s.LogProbSource == shard.LogProbsNone,
		}
		if s.sampler != nil {
			tokens.Sampler = widen(s.sampler)
		}
		if reference != nil {
			tokens.Reference = widen(reference[from:to])
		}
		gradient, err := objective.Coefficients(l.Recipe.Loss, tokens)
		if err != nil {
			return fmt.Errorf("instance %q sample %d: %w", s.InstanceID, s.Sample, err)
		}
		narrow(coefficients[from:to], gradient.LogProb)
		if entropyCoefficients != nil {
			narrow(entropyCoefficients[from:to], gradient.Entropy)
		}
		stats.merge(stepStats{
			Objective: gradient.Stats, Sequences: 1, Tokens: len(s.TokenIDs), AgeSum: l.in.Iteration - int(s.IterationSampled),
		})
	}
	valueCoefficients, err := l.valueCoefficients(sequences, batch, stats)
	if err != nil {
		return err
	}
	return l.engine.Backward(policy.Coefficients{LogProb: coefficients, Entropy: entropyCoefficients, Value: valueCoefficients})
}

// sampling is the distribution that rollouts are drawn from.
func (l *learner) sampling() policy.Sampling {
	return policy.Sampling{
		Temperature: float32(l.Recipe.Rollout.Temperature), TopK: l.Recipe.Rollout.TopK, TopP: float32(l.Recipe.Rollout.TopP),
	}
}

func widen(x []float32) []float64 {
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return wide
}

func narrow(dst []float32, x []float64) {
	for i, v := range x {
		dst[i] = float32(v)
	}
}

// pack lays sequences one after the other.
func pack(sequences []sequence) policy.Batch {
	batch := policy.Batch{Offsets: []int32{0}}
	for _, s := range sequences {
		batch.TokenIDs = append(batch.TokenIDs, s.TokenIDs...)
		batch.Targets = append(batch.Targets, s.LossMask...)
		batch.Offsets = append(batch.Offsets, int32(len(batch.TokenIDs)))
	}
	return batch
}
