package command

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// What a sequence is taken to have, by hand: the bound of the recipe or of the policy, or a
// prompt as long as all responses; and a gradient unit of 32 responses in 4 units.
func TestPlannedTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change          func(r *recipe.Recipe)
		longest, ofUnit int
	}{
		"one turn of 6":          {func(*recipe.Recipe) {}, 12, 8 * 12},
		"turns of 6 and 10":      {func(r *recipe.Recipe) { r.Rollout.MaxNewTokensByTurn = []int{6, 10} }, 32, 8 * 32},
		"more than policy takes": {func(r *recipe.Recipe) { r.Rollout.MaxNewTokens = 600 }, 1000, 8000},
		"a bound":                {func(r *recipe.Recipe) { r.Rollout.MaxContextTokens = 50 }, 50, 400},
		"no bound":               {func(r *recipe.Recipe) { r.Rollout.MaxNewTokens = 0 }, 1000, 8000},
		"traces of several":      {func(r *recipe.Recipe) { r.Scaffold.Steps = 2 }, 12, 0},
		"waiting segments":       {func(r *recipe.Recipe) { r.Schedule.BatchSegments = 10 }, 12, 3 * 12},
	} {
		r := recipe.Defaults()
		r.Rollout.Prompts, r.Rollout.Group, r.Rollout.MaxNewTokens, r.Rollout.MaxContextTokens = 8, 4, 6, 0
		r.Schedule.GradientUnits, r.Loss.MiniBatches, r.Scaffold.Steps, r.Schedule.BatchSegments = 4, 1, 0, 0
		c.change(&r)
		longest := contextTokens(r, policy.Config{MaxPositionEmbeddings: 1000})
		if ofUnit := unitTokens(r, longest); longest != c.longest || ofUnit != c.ofUnit {
			t.Errorf("%s: sequences of %d and units of %d tokens, want %d and %d", name, longest, ofUnit, c.longest, c.ofUnit)
		}
	}
}

// A critic is held beside the policy, a reference before it; an update in parts has no task
// that learns with an engine.
func TestHeldOnCPU(t *testing.T) {
	t.Parallel()
	plans := &cpuPlans{}
	for _, one := range []struct {
		work  string
		bytes int64
	}{{"warm", 7}, {"gradient", 10}, {"learn", 20}, {"critic", 5}, {"reference", 17}} {
		plans.Plans = append(plans.Plans, cpuPlan{one.work, learn.CPUPlan{TotalBytes: one.bytes}})
	}
	if got, want := fmt.Sprint(plans.held(false)), fmt.Sprint(map[graph.Stage]int64{"warm": 7, "gradient": 17, "learn": 25}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	plans.Plans = append(plans.Plans[:2], plans.Plans[3:]...)
	if got, want := fmt.Sprint(plans.held(true)), fmt.Sprint(map[graph.Stage]int64{"warm": 7, "gradient": 17}); got != want {
		t.Errorf("in parts: %s, want %s", got, want)
	}
}
