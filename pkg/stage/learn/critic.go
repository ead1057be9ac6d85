package learn

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// estimateAdvantages computes, under advantage.name gae, the values of the policy
// that the iteration starts from, and what follows from them: advantages and
// returns, over all contexts of a trace: its values and advantages go on from one
// to the next. The reward of a segment comes with its last token. Whitening is over
// all tokens of the batch and needs every sequence's; else only those of wanted
// units are computed.
//
// What it computes stays in memory: some 25 bytes for each token.
func (l *learner) estimateAdvantages(ctx context.Context, engine *policy.Engine, wanted func(unit) bool) error {
	spec := l.Advantage
	var places []int32 // in the batch's order
	for _, u := range l.unitsOf(func(u unit) bool { return spec.Whitening || wanted(u) }) {
		read, err := l.rows(u)
		if err != nil {
			return err
		}
		sequences := make([]trainer.Sequence, len(read))
		for i, s := range read {
			sequences[i].Sequence = s
			places = append(places, s.Place)
		}
		for _, micro := range l.microBatches(engine, sequences) {
			if err := ctx.Err(); err != nil {
				return err
			}
			batch := trainer.Pack(micro)
			if spec.Masked == "value" {
				batch.WantMasked()
			}
			if err := l.estimateValues(engine, batch); err != nil {
				return err
			}
		}
		if err := l.estimateTraces(sequences); err != nil {
			return err
		}
	}
	if spec.Whitening {
		if err := l.whiten(places); err != nil {
			return err
		}
	}
	for _, place := range places {
		l.before[place].ApplyFactors()
	}
	return nil
}

// estimateValues sets the values of the sequences of one forward pass, and keeps
// what else of them advantages are made of.
func (l *learner) estimateValues(engine policy.Scorer, batch trainer.Packed) error {
	n := len(batch.TokenIDs)
	values := make([]float32, n)
	if err := engine.Forward(batch.Batch, l.Sampling, make([]float32, n), make([]float32, n)); err != nil {
		return err
	}
	if err := engine.Values(values); err != nil {
		return err
	}
	for i, sequence := range batch.Sequences {
		s := l.computed(sequence.Place)
		s.LossMask, s.Turns, s.TurnFactors, s.TurnRewards = sequence.LossMask, sequence.Turns, sequence.TurnFactors, sequence.TurnRewards
		s.Values = widen(batch.Of(i, values))
	}
	return nil
}

// estimateTraces sets the advantages and returns of the traces of a unit, whose
// contexts stand next to each other.
func (l *learner) estimateTraces(sequences []trainer.Sequence) error {
	for first := 0; first < len(sequences); {
		var contexts []*trainer.Sequence
		of := sequences[first]
		for ; first < len(sequences) && sequences[first].InstanceID == of.InstanceID && sequences[first].Sample == of.Sample; first++ {
			contexts = append(contexts, l.before[sequences[first].Place])
		}
		if err := estimate(contexts, l.Advantage.AdvantageSettings); err != nil {
			return fmt.Errorf("instance %q sample %d: %w", of.InstanceID, of.Sample, err)
		}
	}
	return nil
}

// estimate sets advantages and returns of the tokens of a trace that are learned,
// whose values are known. What a context begins with, before its first learned
// token, is in no recursion.
func estimate(contexts []*trainer.Sequence, spec credit.AdvantageSettings) error {
	var mask []bool
	var rewards, values []float64
	for _, s := range contexts {
		first, end := credit.LearnedSpan(s.LossMask)
		own := make([]float64, end)
		next := int32(-1) // turn of the learned token that follows
		for t := end - 1; t >= first; t-- {
			if s.LossMask[t] && s.Turns[t] != next { // the turn's last token
				next = s.Turns[t]
				own[t] = s.TurnRewards[next]
			}
		}
		mask, rewards, values = append(mask, s.LossMask[first:end]...), append(rewards, own[first:]...), append(values, s.Values[first:end]...)
	}
	advantages, returns, err := credit.TokenGAE(spec, mask, rewards, values)
	if err != nil {
		return err
	}
	for _, s := range contexts {
		first, end := credit.LearnedSpan(s.LossMask)
		s.Advantages, s.Returns = make([]float32, len(s.LossMask)), make([]float64, len(s.LossMask))
		copy(s.Returns[first:end], returns)
		for t, advantage := range advantages[:end-first] {
			s.Advantages[first+t] = float32(advantage)
		}
		advantages, returns = advantages[end-first:], returns[end-first:]
	}
	return nil
}

// whiten centres and scales the advantages of all learned tokens of the batch.
func (l *learner) whiten(places []int32) error {
	var advantages []float64
	var ones []int
	l.learned(places, func(a *float32) {
		advantages, ones = append(advantages, float64(*a)), append(ones, 1)
	})
	whitened, err := credit.Whiten(advantages, ones, l.Advantage.WhiteningDDof)
	if err != nil {
		return fmt.Errorf("whitening the batch: %w", err)
	}
	next := 0
	l.learned(places, func(a *float32) {
		*a = float32(whitened[next])
		next++
	})
	return nil
}

// learned calls f for the advantage of every learned token of sequences.
func (l *learner) learned(places []int32, f func(advantage *float32)) {
	for _, place := range places {
		s := l.before[place]
		for t, learned := range s.LossMask {
			if learned {
				f(&s.Advantages[t])
			}
		}
	}
}

// valueCoefficients computes the value loss of the batch of the last forward
// pass and its derivatives; nil without a critic.
func (l *learner) valueCoefficients(batch trainer.Packed, stats *stepStats) ([]float32, error) {
	if !l.Advantage.Critic() {
		return nil, nil
	}
	values, coefficients := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
	if err := l.trained.Values(values); err != nil {
		return nil, err
	}
	spec := l.Loss.Value
	for i, s := range batch.Sequences {
		from := batch.Places[i].From - batch.Places[i].Shared
		for t, learned := range s.LossMask {
			if !learned {
				continue
			}
			value := float64(values[from+t])
			weight := s.TurnWeights[s.Turns[t]]
			own, slope := loss.ValueLoss(spec, value, s.Values[t], s.Returns[t])
			coefficients[from+t] = float32(weight * spec.Coef * slope)
			stats.Value.Record(value, s.Returns[t], weight*spec.Coef*own, slope)
		}
	}
	return coefficients, nil
}
