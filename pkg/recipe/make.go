package recipe

import (
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// NewEnv makes the recipe's environment. Relative names of data files start at
// folder.
func (r *Recipe) NewEnv(folder string) (env.Env, error) {
	return env.New(r.Env.Name, r.Env.Settings, r.Data.Settings, r.Seed, folder)
}

// EnvFromRows makes the recipe's environment from the rows of its tasks.
// Relative names of programs start at folder.
func (r *Recipe) EnvFromRows(folder string, rows []shard.TaskRow) (env.Env, error) {
	return env.FromRows(r.Env.Name, r.Env.Settings, folder, rows)
}

// Traits are those of the recipe's environment.
func (r *Recipe) Traits() (env.Traits, error) {
	setup, err := env.Axis.Make(r.Env.Name, r.Env.Settings)
	return setup.Traits, err
}

// SolutionSteps counts the steps of a training task's ground truth by its answer; nil where
// the environment's answers have none.
func (r *Recipe) SolutionSteps() (func(answer string) int, error) {
	setup, err := env.Axis.Make(r.Env.Name, r.Env.Settings)
	return setup.SolutionSteps, err
}

// CheckHost is an error where the recipe's environment cannot score on this machine; notes
// are what its programs do without there.
func (r *Recipe) CheckHost() (notes []string, err error) {
	setup, err := env.Axis.Make(r.Env.Name, r.Env.Settings)
	if err != nil || setup.Host == nil {
		return nil, err
	}
	return setup.Host()
}

// NewCurriculum makes the recipe's curriculum.
func (r *Recipe) NewCurriculum() (curriculum.Curriculum, error) {
	if mix := r.Env.Mix(); mix != nil {
		return r.mixture(mix)
	}
	return r.Curriculum.New(r.Seed)
}

// CreditSpec names the choices of credit.
func (r *Recipe) CreditSpec() credit.Spec {
	spec := credit.Spec{
		Segments:  r.Segments.Choice(),
		Reward:    credit.Choice{Name: r.Reward.Name, Settings: r.Reward.Variants.Of(r.Reward.Name)},
		Select:    r.Select,
		Advantage: credit.Choice{Name: r.Advantage.Name, Settings: r.Advantage.Variants.Of(r.Advantage.Name)},
		Factors:   r.Factors.On(credit.MultipliesAdvantage),
		Weights:   r.Factors.On(credit.MultipliesWeight),
		Clip:      r.Advantage.Clip,
	}
	if mix := r.Env.Mix(); mix != nil {
		spec.SelectOf = mix.selects()
	}
	if r.Reward.Overlong != nil {
		resolved := r.Reward.Overlong.Resolved(r.Rollout.MaxNewTokens)
		spec.Overlong = &resolved
	}
	if spec.Advantage.Settings == nil {
		spec.Advantage.Settings = &r.Advantage.AdvantageSettings
	}
	return spec
}

// Training makes the scaffold of the traces that are learned from.
func (s Scaffold) Training() (scaffold.Scaffold, error) { return s.named(s.Name, s.Steps, s.Seconds) }

// Measuring makes the scaffold of the traces of an evaluation with so many attempts
// after the first.
func (s Scaffold) Measuring(e Evaluation, steps int) (scaffold.Scaffold, error) {
	return s.named(e.Scaffold, steps, e.Seconds)
}

func (s Scaffold) named(name string, steps int, seconds float64) (scaffold.Scaffold, error) {
	maker, err := scaffold.Axis.Make(name, s.Variants.Of(name))
	if err != nil {
		return nil, err
	}
	if seconds > 0 {
		return scaffold.Budget{Scaffold: maker(scaffold.Bound(steps, seconds)), Seconds: seconds}, nil
	}
	return maker(steps), nil
}

// Seconds is the budget of a trace, one of those that are learned from or of an
// evaluation; 0 for none.
func (r *Recipe) Seconds(evaluation bool) float64 {
	if evaluation {
		return r.Evaluation.Seconds
	}
	return r.Scaffold.Seconds
}

// Waves bounds the waves that a trace takes: one of those that are learned from,
// or of an evaluation.
func (r *Recipe) Waves(evaluation bool) (int, error) {
	traits, err := r.Traits()
	if err != nil {
		return 0, err
	}
	name, steps, seconds := r.Scaffold.Name, r.Scaffold.Steps, r.Scaffold.Seconds
	if evaluation {
		name, steps, seconds = r.Evaluation.Scaffold, 0, r.Evaluation.Seconds
		for _, m := range r.Evaluation.Measured() {
			steps = max(steps, m.Steps)
		}
	}
	s, err := r.Scaffold.named(name, steps, seconds)
	if err != nil {
		return 0, err
	}
	return scaffold.Waves(s, 1+scaffold.Bound(steps, seconds), traits), nil
}
