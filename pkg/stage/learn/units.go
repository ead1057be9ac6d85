package learn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// unit names a gradient unit of an optimizer step of the batch.
type unit struct{ step, number int }

// unitsOf lists the units of the batch that have sequences and are wanted.
func (l *learner) unitsOf(wanted func(unit) bool) []unit {
	var units []unit
	for _, r := range l.batch.Layout {
		if u := (unit{int(r.OptimizerStep), int(r.Unit)}); wanted(u) {
			units = append(units, u)
		}
	}
	slices.SortFunc(units, func(a, b unit) int { return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.number, b.number)) })
	return slices.Compact(units) // one may have several record batches
}

// rows reads the rows of a unit. What another engine sampled is as if a server had.
func (l *learner) rows(u unit) ([]shard.Sequence, error) {
	read, err := l.batch.Unit(u.step, u.number)
	if l.elsewhere {
		for i := range read {
			if read[i].LogProbSource == shard.LogProbsEngine {
				read[i].LogProbSource = shard.LogProbsServer
			}
		}
	}
	return read, err
}

// sequences reads those of a unit, with what was computed of them.
func (l *learner) sequences(u unit) ([]trainer.Sequence, error) {
	read, err := l.rows(u)
	if err != nil {
		return nil, err
	}
	sequences := make([]trainer.Sequence, len(read))
	for i := range read {
		s := &sequences[i]
		s.Sequence = read[i]
		before := cmp.Or(l.before[s.Place], &trainer.Sequence{})
		s.Reference = before.Reference
		if before.OldLogProbs != nil {
			s.ReplaceOld(before.OldLogProbs)
		}
		if before.Advantages != nil {
			s.Values, s.Returns, s.Advantages = before.Values, before.Returns, before.Advantages
		} else {
			s.SpreadAdvantages()
			s.ApplyFactors()
		}
		if before.Teacher != nil {
			s.Teacher = before.Teacher
			s.Advantages = l.Advantage.Teacher.Add(s.Advantages, s.Teacher, s.OldLogProbs, s.LossMask)
		}
	}
	return sequences, nil
}

// computed is what is known of a sequence before the first optimizer step.
func (l *learner) computed(place int32) *trainer.Sequence {
	s := l.before[place]
	if s == nil {
		s = &trainer.Sequence{}
		l.before[place] = s
	}
	return s
}

// units adds the gradients of a tree's units of one optimizer step to it.
func (l *learner) units(ctx context.Context, step int, t *tree, stats *stepStats) error {
	for number := t.first; number < t.last; number++ {
		sequences, err := l.sequences(unit{step % l.Loss.MiniBatches, number})
		if err != nil {
			return err
		}
		if l.Loss.Tokens.Name != loss.TokensAll {
			if err := l.chooseTokens(ctx, step, number, sequences); err != nil {
				return fmt.Errorf("optimizer step %d, unit %d: %w", step, number, err)
			}
		}
		for _, micro := range l.microBatches(l.trained, sequences) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := l.accumulate(micro, stats); err != nil {
				return fmt.Errorf("optimizer step %d, unit %d: %w", step, number, err)
			}
		}
		if err := t.add(number, 0); err != nil {
			return fmt.Errorf("optimizer step %d, unit %d: %w", step, number, err)
		}
	}
	return nil
}

// chooseTokens marks the tokens of a gradient unit that loss.tokens treats apart: under the
// policy as it is before the optimizer step, which takes one more forward pass.
func (l *learner) chooseTokens(ctx context.Context, step, number int, sequences []trainer.Sequence) error {
	at := map[int32]int{} // of sequences, by place
	for i, s := range sequences {
		at[s.Place] = i
	}
	unit := make([]loss.TokenInputs, len(sequences))
	for _, micro := range l.microBatches(l.trained, sequences) {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := trainer.Pack(micro)
		logProbs, entropy := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
		if err := l.trained.Forward(batch.Batch, l.Sampling, logProbs, entropy); err != nil {
			return err
		}
		for i, s := range batch.Sequences {
			unit[at[s.Place]] = loss.TokenInputs{
				New: widen(batch.Of(i, logProbs)), Old: widen(s.OldLogProbs), Advantage: widen(s.Advantages), Entropy: widen(batch.Of(i, entropy)), Mask: s.LossMask,
			}
		}
	}
	stream := rng.New(l.Seed, rng.PurposeTokens, l.in.StepsSoFar+step, "unit", number)
	for i, apart := range loss.Choose(l.Loss, unit, stream) {
		sequences[i].Apart = apart
	}
	return nil
}

// microBatches cuts sequences for an engine's passes under the recipe.
func (l *learner) microBatches(engine interface{ Room(groups [][]int) int }, sequences []trainer.Sequence) [][]trainer.Bundle {
	return trainer.MicroBatches(trainer.Bundles(sequences, l.SharedPromptTokens), l.MicroBatchTokens, engine.Room)
}

// accumulate runs one micro-batch forward and backward.
func (l *learner) accumulate(micro []trainer.Bundle, stats *stepStats) error {
	batch := trainer.Pack(micro)
	n := len(batch.TokenIDs)
	logProbs, entropy := make([]float32, n), make([]float32, n)
	if err := l.trained.Forward(batch.Batch, l.Sampling, logProbs, entropy); err != nil {
		return err
	}
	coefficients := make([]float32, n)
	var entropyCoefficients []float32
	if l.Loss.EntropyCoef != 0 {
		entropyCoefficients = make([]float32, n)
	}
	for i, s := range batch.Sequences {
		tokens := loss.TokenInputs{
			New: widen(batch.Of(i, logProbs)), Old: widen(s.OldLogProbs), Advantage: widen(s.Advantages), Mask: s.LossMask,
			Entropy: widen(batch.Of(i, entropy)), Weights: s.Weights(), SamplerUnknown: s.LogProbSource == shard.LogProbsNone,
			Apart: s.Apart,
		}
		if s.Sampler != nil {
			tokens.Sampler = widen(s.Sampler)
		}
		if s.Reference != nil {
			tokens.Reference = widen(s.Reference)
		}
		gradient, err := loss.Coefficients(l.Loss, tokens)
		if err != nil {
			return fmt.Errorf("instance %q sample %d: %w", s.InstanceID, s.Sample, err)
		}
		batch.Set(i, coefficients, gradient.LogProb)
		if entropyCoefficients != nil {
			batch.Set(i, entropyCoefficients, gradient.Entropy)
		}
		stats.Teacher.add(l.Advantage.Teacher, s)
		stats.merge(stepStats{
			Objective: gradient.Stats, Sequences: 1, Tokens: len(s.TokenIDs), AgeSum: l.in.Iteration - 1 - int(s.PolicyVersion),
		})
	}
	valueCoefficients, err := l.valueCoefficients(batch, stats)
	if err != nil {
		return err
	}
	return l.trained.Backward(policy.Coefficients{LogProb: coefficients, Entropy: entropyCoefficients, Value: valueCoefficients})
}

// widen copies a vector.
func widen(x []float32) []float64 {
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return wide
}
