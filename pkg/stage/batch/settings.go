package batch

import (
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Settings are what this package reads of a recipe.
type Settings struct {
	Seed                         uint64
	Credit                       credit.Spec
	Advantage                    credit.AdvantageSettings // for its whitening and its teacher
	Weight                       credit.Choice
	Loss                         loss.Loss
	Group                        int // responses of an instance
	MaxNewTokens                 int // of a response
	GradientUnits, BatchSegments int
	Environments                 bool // there are several: count by environment too
}

// SettingsOf are those of a recipe.
func SettingsOf(r recipe.Recipe) Settings {
	return Settings{
		Seed: r.Seed, Credit: r.CreditSpec(), Advantage: r.Advantage.AdvantageSettings, Weight: r.Weight.Choice(), Loss: r.Loss,
		Group: r.Rollout.Group, MaxNewTokens: r.Rollout.MaxNewTokens,
		GradientUnits: r.Schedule.GradientUnits, BatchSegments: r.BatchSegments(), Environments: r.Env.Mix() != nil,
	}
}
