package policy_test

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Recipes, which stand below policies, have the bound of the engines: what one
// takes the other does not refuse.
func TestTemperaturesOfRecipes(t *testing.T) {
	t.Parallel()
	for _, temperature := range []float64{policy.MinTemperature, policy.MinTemperature * 0.99} {
		r := recipe.Defaults()
		r.Rollout.Temperature = temperature
		taken := policy.Sampling{Temperature: float32(temperature)}.Validate() == nil
		if err := r.Validate(); err != nil && strings.Contains(err.Error(), "rollout.temperature") == taken || err == nil && !taken {
			t.Errorf("temperature %g: the engine takes it: %v; the recipe: %v", temperature, taken, err)
		}
	}
}
