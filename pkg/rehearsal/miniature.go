package rehearsal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Miniature lists the settings that cut a recipe to a run of minutes: few iterations,
// prompts and problems, in at least two shards. A field that the user has set stays
// as it is.
func Miniature(r recipe.Recipe, settings []string) []string {
	var cuts []string
	cut := func(field string, is, to int) {
		own := slices.ContainsFunc(settings, func(s string) bool {
			name, _, _ := strings.Cut(s, "=")
			return name == field || strings.HasPrefix(field, name+".")
		})
		if is != to && !own {
			cuts = append(cuts, fmt.Sprintf("%s=%d", field, to))
		}
	}
	cut("schedule.iterations", r.Schedule.Iterations, min(r.Schedule.Iterations, 2))
	cut("rollout.prompts", r.Rollout.Prompts, min(r.Rollout.Prompts, 8))
	cut("rollout.shards", r.Rollout.Shards, min(max(r.Rollout.Shards, 2), 4))
	cut("warm_start.steps", r.WarmStart.Steps, min(r.WarmStart.Steps, 100))
	cut("warm_start.chunk", r.WarmStart.Chunk, min(r.WarmStart.Chunk, 50))
	cut("evaluation.problems", r.Evaluation.Problems, min(r.Evaluation.Problems, 8))
	cut("evaluation.samples", r.Evaluation.Samples, min(r.Evaluation.Samples, 2))
	cut("evaluation.shards", r.Evaluation.Shards, min(r.Evaluation.Shards, 2))
	return cuts
}
