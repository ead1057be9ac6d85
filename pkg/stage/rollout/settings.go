package rollout

import "github.com/lathe-rl/lathe/pkg/recipe"

// Settings are what rollouts read of a recipe.
type Settings struct {
	Seed       uint64
	Policy     recipe.Policy
	Scaffold   recipe.Scaffold
	Rollout    recipe.Rollout
	Env        recipe.Env
	Evaluation recipe.Evaluation // where a rollout measures
	Embed      bool              // keep the policy's own embedding of what it said
}

// SettingsOf are those of a recipe.
func SettingsOf(r recipe.Recipe) Settings {
	return Settings{r.Seed, r.Policy, r.Scaffold, r.Rollout, r.Env, r.Evaluation, r.Score.Embedding == recipe.EmbeddingPolicy}
}
