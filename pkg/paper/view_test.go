package paper

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	rows "github.com/lathe-rl/lathe/pkg/supervised"
)

// A run without iterations is after training where supervision was its training.
func TestMoments(t *testing.T) {
	t.Parallel()
	start, end := moment{"base", 0}, moment{afterTraining, 3}
	for name, c := range map[string]struct {
		iterations int
		warm       recipe.WarmStart
		want       []moment
	}{
		"iterations":              {3, recipe.WarmStart{}, []moment{start, end}},
		"iterations after a pool": {3, recipe.WarmStart{Steps: 1, Pool: "pool"}, []moment{start, end}},
		"nothing":                 {0, recipe.WarmStart{}, []moment{start}},
		"demonstrations":          {0, recipe.WarmStart{Steps: 1}, []moment{start}},
		"a pool":                  {0, recipe.WarmStart{Steps: 1, Pool: "pool"}, []moment{{afterTraining, 0}}},
		"data":                    {0, recipe.WarmStart{Steps: 1, Data: &rows.Settings{}}, []moment{{afterTraining, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := recipe.Recipe{WarmStart: c.warm}
			r.Schedule.Iterations = c.iterations
			if got := (&source{Rows: &measure.Rows{Run: &rundir.Run{Recipe: r}}}).moments("base"); !slices.Equal(got, c.want) {
				t.Errorf("moments are %v, want %v", got, c.want)
			}
		})
	}
}
