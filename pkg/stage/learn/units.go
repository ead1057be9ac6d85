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
func (l *learner) microBatches(engine policy.Engine, sequences []sequence) [][]bundle {
	return microBatches(bundles(sequences, l.Recipe.Schedule.SharedPromptTokens), l.Recipe.Schedule.MicroBatchTokens, engine.Room)
}

// accumulate runs one micro-batch forward and backward.
func (l *learner) accumulate(micro []bundle, stats *stepStats) error {
	batch := pack(micro)
	n := len(batch.TokenIDs)
	logProbs, entropy := make([]float32, n), make([]float32, n)
	sampling := l.sampling()
	var reference []float32
	if l.reference != nil {
		reference = make([]float32, n)
		l.reference.SetAdapter(false)
		if err := l.reference.Forward(batch.Batch, sampling, reference, make([]float32, n)); err != nil {
			return fmt.Errorf("reference policy: %w", err)
		}
		l.reference.SetAdapter(true)
	}
	if err := l.engine.Forward(batch.Batch, sampling, logProbs, entropy); err != nil {
		return err
	}
	coefficients := make([]float32, n)
	var entropyCoefficients []float32
	if l.Recipe.Loss.EntropyCoef != 0 {
		entropyCoefficients = make([]float32, n)
	}
	for i, s := range batch.sequences {
		tokens := objective.TokenInputs{
			New: widen(batch.of(i, logProbs)), Old: widen(s.OldLogProbs), Advantage: widen(s.advantages), Mask: s.LossMask,
			Entropy: widen(batch.of(i, entropy)), Weights: s.weights(), SamplerUnknown: s.LogProbSource == shard.LogProbsNone,
		}
		if s.sampler != nil {
			tokens.Sampler = widen(s.sampler)
		}
		if reference != nil {
			tokens.Reference = widen(batch.of(i, reference))
		}
		gradient, err := objective.Coefficients(l.Recipe.Loss, tokens)
		if err != nil {
			return fmt.Errorf("instance %q sample %d: %w", s.InstanceID, s.Sample, err)
		}
		batch.set(i, coefficients, gradient.LogProb)
		if entropyCoefficients != nil {
			batch.set(i, entropyCoefficients, gradient.Entropy)
		}
		stats.merge(stepStats{
			Objective: gradient.Stats, Sequences: 1, Tokens: len(s.TokenIDs), AgeSum: l.in.Iteration - int(s.IterationSampled),
		})
	}
	valueCoefficients, err := l.valueCoefficients(batch, stats)
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
