package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// Tasks of several sizes tell what each takes by itself; of one size, all is of the
// units.
func TestFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		samples     []sample
		fixed, unit float64
		alone       int
	}{
		"two sizes":            {[]sample{{10, 15}, {20, 25}}, 5, 1, 0},
		"with noise":           {[]sample{{10, 14}, {10, 16}, {20, 24}, {20, 26}}, 5, 1, 0},
		"one size":             {[]sample{{4, 6}, {4, 10}}, 0, 2, 4},
		"about one size":       {[]sample{{4, 8}, {5, 10}}, 0, 2, 5},
		"larger is no slower":  {[]sample{{10, 20}, {20, 10}}, 15, 0, 0},
		"nothing but the size": {[]sample{{1, 1}, {10, 11}}, 0, 6 / 5.5, 0}, // the line begins below 0: it is held to 0, through the middle
	} {
		w := fit(c.samples)
		if math.Abs(w.fixed-c.fixed) > 1e-9 || math.Abs(w.unit-c.unit) > 1e-9 || w.alone != c.alone || len(w.Seen) != len(c.samples) {
			t.Errorf("%s: %v and %v for each unit, alone %d, want %v, %v, %d", name, w.fixed, w.unit, w.alone, c.fixed, c.unit, c.alone)
		}
	}
}

// What is drawn has the median and the spread that are asked for.
func TestDraws(t *testing.T) {
	t.Parallel()
	const n = 20_000
	stream := rng.New(1, rng.PurposeTest, 0, "draws", 0)
	d := Times{Seconds: 10, Spread: 0.5}.wait()
	var logs, squares float64
	for i := range uint64(n) {
		l := math.Log(d.at(stream, i) / 10)
		logs, squares = logs+l, squares+l*l
	}
	if mean, sigma := logs/n, math.Sqrt(squares/n); math.Abs(mean) > 0.02 || math.Abs(sigma-0.5) > 0.02 {
		t.Errorf("mean of the logarithm %v, its deviation %v", mean, sigma)
	}
	s := seen([]float64{1, 3})
	ones := 0
	for i := range uint64(n) {
		switch s.at(stream, i) {
		case 1:
			ones++
		case 3:
		default:
			t.Fatal("what was never seen is drawn")
		}
	}
	if math.Abs(float64(ones)/n-0.5) > 0.02 {
		t.Errorf("%d of %d draws are the first", ones, n)
	}
}

// A driver's seconds are those from when what a task reads was sealed and a core was
// free.
func TestPausesOfADriver(t *testing.T) {
	t.Parallel()
	g := graph.Graph{Recipe: recipe.Recipe{
		Rollout:  recipe.Rollout{Prompts: 2, Shards: 2},
		Schedule: recipe.Schedule{Iterations: 1, Oversample: 1, GradientShards: 1},
	}}
	task := func(stage graph.Stage, k, shard int, from, to float64) finished {
		at := func(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }
		return finished{graph.Task{Node: graph.Node{Stage: stage, Iteration: k}, Shard: shard}, at(from), at(to)}
	}
	tasks := []finished{
		task(graph.StageBuffer, 0, 0, 1, 5), task(graph.StageWarm, 1, 0, 1, 10), // nothing came before
		task(graph.StageRollout, 1, 0, 10.5, 20), task(graph.StageRollout, 1, 1, 11, 30), // after the warm start
		task(graph.StageScore, 1, 0, 20.25, 21),      // after its own rollout
		task(graph.StageScore, 1, 1, 32, 33),         // the same, on the core that was free last
		task(graph.StageBuffer, 1, 0, 33.5, 40),      // after the last score
		task(graph.StageLearn, 1, 0, 40.125, 50),     // after the batch
		task(graph.StageLearn, 2, 0, 20_000, 20_001), // the run had been stopped
	}
	want := pauses{starts: []float64{0.5, 1, 0.25, 2, 0.5, 0.125}}
	if diff := cmp.Diff(want, paused(g, tasks, nil), cmp.AllowUnexported(pauses{})); diff != "" {
		t.Errorf("by a driver (-want +got):\n%s", diff)
	}
}

// Of a run that went through Slurm, a gate's seconds end when it has submitted, and a
// queue's when the first task began.
func TestPausesOfSlurm(t *testing.T) {
	t.Parallel()
	rollouts, scores := graph.Node{Stage: graph.StageRollout, Iteration: 1}, graph.Node{Stage: graph.StageScore, Iteration: 1}
	g := graph.Graph{Recipe: recipe.Recipe{Rollout: recipe.Rollout{Prompts: 3, Shards: 3}, Schedule: recipe.Schedule{Iterations: 1, Oversample: 1}}}
	at := func(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }
	got := paused(g, []finished{
		{graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: 1}}, at(1), at(10)},
		{graph.Task{Node: rollouts, Shard: 0}, at(15), at(20)},
		{graph.Task{Node: rollouts, Shard: 1}, at(15), at(30)},
		{graph.Task{Node: rollouts, Shard: 2}, at(21), at(29)}, // on the core that was free at 20
		{graph.Task{Node: scores, Shard: 0}, at(36), at(37)},
	}, map[graph.Node]time.Time{{Stage: graph.StageWarm, Iteration: 1}: at(0.5), rollouts: at(12), scores: at(33)})
	want := pauses{gates: []float64{2, 3}, queues: []float64{0.5, 3, 3}, starts: []float64{1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(pauses{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ starts, queues, wantStarts, wantQueues []float64 }{
		"a driver":                  {[]float64{1}, nil, []float64{1}, nil},
		"starts were seen":          {[]float64{1, 3}, []float64{1, 5}, []float64{1, 3}, []float64{0, 3}},
		"the shortest is the start": {nil, []float64{9, 1, 2}, []float64{1}, []float64{8, 0, 1}},
	} {
		starts, queues := apart(c.starts, c.queues)
		if !slices.Equal(starts, c.wantStarts) || !slices.Equal(queues, c.wantQueues) {
			t.Errorf("%s: starts %v, queues %v", name, starts, queues)
		}
	}
}
