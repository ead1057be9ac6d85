package rollout

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// samples says how often and how each instance is sampled.
type samples struct {
	numbers      []int // of the samples; GreedySample for the greedy one
	scaffold     scaffold.Scaffold
	sampled      policy.Sampling
	maxNewTokens []int
}

// settings are those of one sample.
func (s samples) settings(number int) policy.Sampling {
	if number == GreedySample {
		return policy.Sampling{}
	}
	return s.sampled
}

// training is how a recipe samples what is trained on in an environment.
func (r Settings) training(environment string) (samples, error) {
	if mix := r.Env.Mix(); mix != nil {
		part, _ := mix.Find(environment)
		if part.Steps != nil {
			r.Scaffold.Steps = *part.Steps
		}
		if part.MaxNewTokens != nil {
			r.Rollout.MaxNewTokens, r.Rollout.MaxNewTokensByTurn = *part.MaxNewTokens, nil
		}
	}
	attempts, err := r.Scaffold.Training()
	if err != nil {
		return samples{}, err
	}
	s := samples{
		scaffold: attempts, maxNewTokens: r.Rollout.NewTokens(),
		sampled: stage.Sampling(r.Rollout),
	}
	for number := range r.Rollout.Group {
		s.numbers = append(s.numbers, number)
	}
	return s, nil
}

// measuring is how it samples a set of held-out problems.
func (r Settings) measuring(set string) (samples, error) {
	m, err := r.Evaluation.Of(set)
	if err != nil {
		return samples{}, err
	}
	attempts, err := r.Scaffold.Measuring(r.Evaluation, m.Steps)
	if err != nil {
		return samples{}, err
	}
	s := samples{
		scaffold: attempts, maxNewTokens: m.NewTokens(r.Rollout),
		sampled: policy.Sampling{Temperature: float32(m.Temperature), TopK: m.TopK, TopP: float32(m.TopP)},
	}
	if m.Greedy {
		s.numbers = append(s.numbers, GreedySample)
	}
	for number := range m.Samples {
		s.numbers = append(s.numbers, number)
	}
	return s, nil
}

// sampling makes what says how each instance is sampled.
func (r Settings) sampling(evaluation bool) func(shard.Instance) (samples, error) {
	known := map[[2]string]samples{} // by set and environment
	return func(instance shard.Instance) (samples, error) {
		of := [2]string{instance.Set, instance.Env}
		s, ok := known[of]
		if ok {
			return s, nil
		}
		var err error
		if evaluation {
			s, err = r.measuring(instance.Set)
		} else {
			s, err = r.training(instance.Env)
		}
		known[of] = s
		return s, err
	}
}
