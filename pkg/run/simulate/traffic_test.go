package simulate

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// What tasks read and write, by hand: a policy and a sum of gradients of 10 bytes, an
// optimizer's state of 20.
func TestTraffic(t *testing.T) {
	t.Parallel()
	r := recipe.Recipe{
		WarmStart: recipe.WarmStart{Steps: 300, Chunk: 100},
		Rollout:   recipe.Rollout{Prompts: 8, Shards: 2},
		Loss:      loss.Loss{Epochs: 1, MiniBatches: 2},
		Schedule:  recipe.Schedule{Iterations: 2, Oversample: 1, GradientUnits: 6, GradientShards: 4, GradientFanIn: 2},
	}
	whole := Sizes{Policy: 10, Trained: 10, Optimizer: 20, Gradient: 10}
	withKL := r
	withKL.Loss.KL.Coef = 0.1
	adapted := withKL
	adapted.Policy.LoRA = &recipe.LoRA{}
	for name, c := range map[string]struct {
		recipe recipe.Recipe
		sizes  Sizes
		node   graph.Node
		shard  int
		want   traffic
	}{
		"the first part of the warm start":     {r, whole, graph.Node{Stage: graph.StageWarm, Iteration: 1}, 0, traffic{0, 30, 0}},
		"a later part":                         {r, whole, graph.Node{Stage: graph.StageWarm, Iteration: 2}, 0, traffic{30, 30, 0}},
		"the last part":                        {r, whole, graph.Node{Stage: graph.StageWarm, Iteration: 3}, 0, traffic{30, 10, 0}},
		"a rollout":                            {r, whole, graph.Node{Stage: graph.StageRollout, Iteration: 2}, 1, traffic{10, 0, 0}},
		"a score":                              {r, whole, graph.Node{Stage: graph.StageScore, Iteration: 2}, 1, traffic{}},
		"a gradient of the first step":         {r, whole, graph.Node{Stage: graph.StageGradient, Iteration: 1}, 0, traffic{10, 10, 0}},
		"a gradient of the second, two sums":   {r, whole, graph.Node{Stage: graph.StageGradient, Iteration: 1, Step: 1}, 1, traffic{10, 20, 0}},
		"with a reference":                     {withKL, whole, graph.Node{Stage: graph.StageGradient, Iteration: 2}, 0, traffic{20, 10, 0}},
		"two gradients, of three sums":         {r, whole, graph.Node{Stage: graph.StageReduce, Iteration: 2}, 0, traffic{40, 20, 2}},
		"what applies them":                    {r, whole, graph.Node{Stage: graph.StageLearn, Iteration: 2}, 0, traffic{70, 30, 2}},
		"an adapter of 2 bytes, on a base":     {adapted, Sizes{12, 2, 4, 2}, graph.Node{Stage: graph.StageLearn, Iteration: 2}, 0, traffic{24, 6, 2}},
		"a critic as large, and its optimizer": {r, Sizes{10, 20, 40, 20}, graph.Node{Stage: graph.StageLearn, Iteration: 2}, 0, traffic{140, 60, 2}},
	} {
		g := graph.Graph{Dir: "/simulated", Recipe: c.recipe}
		if got := c.sizes.trafficOf(g, graph.Task{Node: c.node, Shard: c.shard}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// What was measured of tasks that differ from those of the run is said.
func TestNotes(t *testing.T) {
	t.Parallel()
	g := graph.Graph{Dir: "/simulated", Recipe: recipe.Recipe{
		Rollout:  recipe.Rollout{Prompts: 8, Shards: 2},
		Loss:     loss.Loss{Epochs: 1, MiniBatches: 1},
		Schedule: recipe.Schedule{Iterations: 1, Oversample: 1, GradientUnits: 8, GradientShards: 8, GradientFanIn: 16},
	}}
	sizes := Sizes{Policy: 10, Trained: 10, Optimizer: 20, Gradient: 10}
	samples := func(units, bytes float64) map[graph.Stage][]sample {
		all := map[graph.Stage][]sample{}
		for _, stage := range graph.Stages() {
			all[stage] = []sample{{1, 0, 1}}
		}
		all[graph.StageRollout] = []sample{{units, 0, 1}}
		all[graph.StageLearn] = []sample{{0, bytes, 1}}
		all[graph.StageScore] = []sample{{4, 0, 1}}
		return all
	}
	var told Cluster
	told.FileSystem.BytesPerSecond = 1
	for name, c := range map[string]struct {
		samples map[graph.Stage][]sample
		cluster Cluster
		sizes   Sizes
		want    []string // begin the notes
	}{
		"as measured":                       {samples(4, 120), Cluster{}, sizes, nil}, // 10 and 8 gradients read, 30 written
		"smaller":                           {samples(1, 120), Cluster{}, sizes, []string{"rollout: only tasks of 1 units"}},
		"fewer bytes":                       {samples(4, 60), Cluster{}, sizes, []string{"learn: only tasks that read and write 60 B were measured, and here it is 120 B"}},
		"fewer bytes, but the rate is told": {samples(4, 60), told, sizes, nil},
		"no policy":                         {samples(4, 120), Cluster{}, Sizes{}, []string{"bytes are not counted"}},
	} {
		got := Durations{samples: c.samples}.Given(c.cluster).notes(g, c.sizes)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i := range c.want {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", name, got[i], c.want[i])
			}
		}
	}
}
