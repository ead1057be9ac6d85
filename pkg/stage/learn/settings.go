package learn

import (
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// Settings are what a learner reads of a recipe.
type Settings struct {
	Seed      uint64
	Policy    recipe.Policy
	Advantage recipe.Advantage
	Loss      loss.Loss
	Optimizer loss.Optimizer
	Sampling  policy.Sampling // the distribution that responses are drawn from
	Served    bool            // a server drew them
	Pinned    bool            // from a model that the recipe names, whatever version it is
	trainer.Passes
	GradientUnits, GradientShards int

	// For the manifest.
	Preset   string
	Select   credit.Selection
	SelectOf map[string]credit.Selection // by environment
}

// SettingsOf are those of a recipe.
func SettingsOf(r recipe.Recipe) Settings {
	spec := r.CreditSpec()
	return Settings{
		Seed: r.Seed, Policy: r.Policy, Advantage: r.Advantage, Loss: r.Loss, Optimizer: r.Optimizer,
		Sampling: stage.Sampling(r.Rollout), Served: r.Rollout.Remote != nil, Pinned: r.Rollout.Remote != nil && r.Rollout.Remote.Model != "", Passes: trainer.PassesOf(r.Schedule),
		GradientUnits: r.Schedule.GradientUnits, GradientShards: r.Schedule.GradientShards,
		Preset: r.Preset, Select: spec.Select, SelectOf: spec.SelectOf,
	}
}
