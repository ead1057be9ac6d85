// Package trainer is what the stages that update a policy have in common: a
// policy opened for training, sequences packed for its passes, an optimizer
// step, and the sealed folders that come of it.
package trainer

import (
	"errors"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// Sequence is a record of the batch as it is learned from. Its lists have an
// entry for each token.
type Sequence struct {
	shard.Sequence
	// Sampler is what a server said of its own log-probabilities, once
	// OldLogProbs are the learner's; nil where the two are one.
	Sampler []float32
	// Reference are the log-probabilities under the reference policy; nil without a KL
	// term.
	Reference []float32
	// Teacher is the teacher's log-probability of each learned token; nil without a teacher,
	// or where its prompt leaves no room.
	Teacher []float32
	// Values are the critic's before the first optimizer step, and Returns what
	// it should have predicted, where the mask is true; nil without a critic.
	Values, Returns []float64
	// Advantages are whitened and have their factors; 0 where the mask is false.
	Advantages []float32
	// Apart are the tokens that loss.tokens treats apart; nil for none.
	Apart []bool
}

// SpreadAdvantages gives each token the advantage of its turn.
func (s *Sequence) SpreadAdvantages() {
	s.Advantages = make([]float32, len(s.TokenIDs))
	for t, learned := range s.LossMask {
		if learned {
			s.Advantages[t] = s.TurnAdvantages[s.Turns[t]]
		}
	}
}

// ApplyFactors multiplies the advantages by the factors that come after
// whitening.
func (s *Sequence) ApplyFactors() {
	for t, learned := range s.LossMask {
		if learned {
			s.Advantages[t] = float32(float64(s.Advantages[t]) * s.TurnFactors[s.Turns[t]])
		}
	}
}

// Weights are those of each token's turn; 0 where the mask is false.
func (s *Sequence) Weights() []float64 {
	weights := make([]float64, len(s.TokenIDs))
	for t, learned := range s.LossMask {
		if learned {
			weights[t] = s.TurnWeights[s.Turns[t]]
		}
	}
	return weights
}

// ReplaceOld puts the learner's log-probabilities in the place of the
// sampler's, which are kept where they are known.
func (s *Sequence) ReplaceOld(logProbs []float32) {
	if s.LogProbSource == shard.LogProbsServer {
		s.Sampler = s.OldLogProbs
	}
	s.OldLogProbs = logProbs
}

// EngineOptions are those of a recipe for an engine with one of its optimizers.
func EngineOptions(p recipe.Policy, process stage.Process, o loss.Optimizer, train bool, workload policy.Workload) backend.Options {
	return backend.Options{
		Backend: p.Backend, Threads: process.Threads, Train: train, DType: p.DType, State: o.State, Compute: p.Compute,
		ValueHead: p.ValueHead(), Workload: workload, Log: process.Log,
	}
}

// Passes are the bounds of schedule on forward and backward passes, in tokens.
type Passes struct{ SharedPromptTokens, MicroBatchTokens int }

// PassesOf are those of a recipe's schedule.
func PassesOf(s recipe.Schedule) Passes { return Passes{s.SharedPromptTokens, s.MicroBatchTokens} }

// Workload is that of a policy which is not trained, with sequences of at most
// longest tokens; 0 for as many as the policy takes.
func (p Passes) Workload(longest int) policy.Workload {
	return policy.Workload{Longest: longest, Shared: p.SharedPromptTokens, PassTokens: p.MicroBatchTokens}
}

// LoadOptimizer gives an engine the moments that were sealed in a folder.
func LoadOptimizer(engine policy.Trainer, folder string) error {
	state, err := checkpoint.OpenState(folder, nil)
	if err != nil {
		return err
	}
	return errors.Join(engine.LoadOptimizerState(state, state.Steps), state.Close())
}

// SaveOptimizer seals an engine's moments.
func SaveOptimizer(engine policy.Trainer, to string, attempt seal.Attempt, m seal.Manifest) error {
	state, steps := engine.OptimizerState()
	if err := engine.Err(); err != nil {
		return fmt.Errorf("reading the optimizer's state: %w", err)
	}
	_, err := sealed(to, attempt, m, func(w *seal.FolderWriter) error { return checkpoint.SaveOptimizer(w.Path(), state, steps) })
	return err
}

// StepOf is optimizer step number step, counted from 1, of total. A value head may
// have a learning rate, on the same schedule, and a bound of its own. The stream
// rounds what is rounded randomly.
func StepOf(o loss.Optimizer, value loss.Value, step, total int, rounding rng.Stream) (policy.AdamW, error) {
	rate, err := loss.LearningRate(o, step, total)
	if err != nil {
		return policy.AdamW{}, err
	}
	head := policy.HeadAdamW{MaxGradNorm: value.MaxGradNorm}
	if value.LearningRate > 0 {
		o.LearningRate = value.LearningRate
		if head.LearningRate, err = loss.LearningRate(o, step, total); err != nil {
			return policy.AdamW{}, err
		}
	}
	return policy.AdamW{
		LearningRate: rate, Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, WeightDecay: o.WeightDecay, MaxGradNorm: o.MaxGradNorm,
		ValueHead: head, Rounding: rounding,
	}, nil
}

// TakeStep applies the engine's gradients with [StepOf].
func TakeStep(engine policy.Trainer, o loss.Optimizer, value loss.Value, step, total int, rounding rng.Stream) (policy.StepStats, error) {
	settings, err := StepOf(o, value, step, total, rounding)
	if err != nil {
		return policy.StepStats{}, err
	}
	return engine.Step(settings)
}
