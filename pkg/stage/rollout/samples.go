package rollout

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/scaffold"
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

// sampling reads the recipe: what is trained on, or what is measured.
func sampling(r recipe.Recipe, evaluation bool) (samples, error) {
	if !evaluation {
		attempts, err := r.NewScaffold()
		if err != nil {
			return samples{}, err
		}
		s := samples{
			scaffold: attempts, maxNewTokens: r.Rollout.NewTokens(),
			sampled: policy.Sampling{Temperature: float32(r.Rollout.Temperature), TopK: r.Rollout.TopK, TopP: float32(r.Rollout.TopP)},
		}
		for number := range r.Rollout.Group {
			s.numbers = append(s.numbers, number)
		}
		return s, nil
	}
	attempts, err := r.NewEvaluationScaffold()
	if err != nil {
		return samples{}, err
	}
	s := samples{
		scaffold: attempts, maxNewTokens: r.Rollout.NewTokens(),
		sampled: policy.Sampling{Temperature: float32(r.Evaluation.Temperature)},
	}
	if r.Evaluation.MaxNewTokens > 0 {
		s.maxNewTokens = []int{r.Evaluation.MaxNewTokens}
	}
	if r.Evaluation.Greedy {
		s.numbers = append(s.numbers, GreedySample)
	}
	for number := range r.Evaluation.Samples {
		s.numbers = append(s.numbers, number)
	}
	return s, nil
}
