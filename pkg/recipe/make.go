package recipe

import (
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
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
	m, err := env.Lookup(r.Env.Name)
	if err != nil {
		return env.Traits{}, err
	}
	return m.Traits(r.Env.Settings), nil
}

// NewCurriculum makes the recipe's curriculum.
func (r *Recipe) NewCurriculum() (curriculum.Curriculum, error) {
	return curriculum.New(r.Curriculum.Name, r.Curriculum.Settings(), r.Seed)
}

// CreditSpec names the choices of credit: those that the settings of the
// environment and of the curriculum ask for beside the recipe's own.
func (r *Recipe) CreditSpec() (credit.Spec, error) {
	spec := credit.Spec{Segments: "trajectory", Reward: "verdict", Filters: r.Filters, Advantage: r.Advantage}
	m, err := env.Lookup(r.Env.Name)
	if err != nil {
		return spec, err
	}
	if m.Reward != nil {
		if asked := m.Reward(r.Env.Settings); asked != "" {
			spec.Reward = asked
		}
	}
	chosen, err := curriculum.Lookup(r.Curriculum.Name)
	if err != nil {
		return spec, err
	}
	if chosen.Factors != nil {
		spec.Factors = append(spec.Factors, chosen.Factors(r.Curriculum.Settings())...)
	}
	return spec, nil
}
