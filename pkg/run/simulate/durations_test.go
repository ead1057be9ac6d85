package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// Tasks of several sizes tell what each takes by itself; of one size, all is of the
// units, or of the task where it has none. Bytes take 10 a second.
func TestFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		samples     []sample
		fixed, unit float64
		alone       *sample
	}{
		"two sizes":            {[]sample{{10, 0, 15}, {20, 0, 25}}, 5, 1, nil},
		"with noise":           {[]sample{{10, 0, 14}, {10, 0, 16}, {20, 0, 24}, {20, 0, 26}}, 5, 1, nil},
		"one size":             {[]sample{{4, 0, 6}, {4, 0, 10}}, 0, 2, &sample{4, 0, 8}},
		"about one size":       {[]sample{{4, 0, 8}, {5, 0, 10}}, 0, 2, &sample{5, 0, 9}},
		"larger is no slower":  {[]sample{{10, 0, 20}, {20, 0, 10}}, 15, 0, nil},
		"nothing but the size": {[]sample{{1, 0, 1}, {10, 0, 11}}, 0, 6 / 5.5, nil}, // the line begins below 0: it is held to 0, through the middle
		"no units":             {[]sample{{0, 0, 4}, {0, 0, 6}}, 5, 0, &sample{0, 0, 5}},
		"bytes":                {[]sample{{10, 20, 17}, {20, 40, 29}}, 5, 1, nil},
		"nothing but bytes":    {[]sample{{0, 40, 3}, {0, 80, 9}}, 0.5, 0, &sample{0, 60, 0.5}}, // 0 and 1 s beside those of the bytes
	} {
		w := fit(c.samples, 10)
		if math.Abs(w.fixed-c.fixed) > 1e-9 || math.Abs(w.unit-c.unit) > 1e-9 || !cmp.Equal(w.alone, c.alone, cmp.AllowUnexported(sample{})) || len(w.Seen) != len(c.samples) {
			t.Errorf("%s: %v and %v for each unit, alone %v, want %v, %v, %v", name, w.fixed, w.unit, w.alone, c.fixed, c.unit, c.alone)
		}
	}
}

// Tasks that add up more or fewer gradients tell how fast bytes are read and written.
func TestRate(t *testing.T) {
	t.Parallel()
	learns := func(bytes ...float64) []sample { // 4 s and one for 10 bytes
		var all []sample
		for _, n := range bytes {
			all = append(all, sample{0, n, 4 + n/10})
		}
		return all
	}
	for name, c := range map[string]struct {
		samples map[graph.Stage][]sample
		want    float64
	}{
		"nothing":            {nil, 0},
		"of one size":        {map[graph.Stage][]sample{graph.StageLearn: learns(100, 100, 110)}, 0},
		"of two":             {map[graph.Stage][]sample{graph.StageLearn: learns(100, 400)}, 10},
		"of two stages":      {map[graph.Stage][]sample{graph.StageLearn: learns(100, 400), graph.StageReduce: {{0, 100, 20}, {0, 200, 30}}}, 10},
		"one task learns":    {map[graph.Stage][]sample{graph.StageLearn: append(learns(100, 400), sample{8, 50, 100})}, 10},
		"more is no slower":  {map[graph.Stage][]sample{graph.StageLearn: {{0, 100, 5}, {0, 200, 4}}}, 0},
		"gradients are more": {map[graph.Stage][]sample{graph.StageGradient: {{1, 100, 5}, {1, 200, 10}}}, 0},
	} {
		if got := rateOf(c.samples); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v bytes a second, want %v", name, got, c.want)
		}
	}
}

// What runs tell of their file system is taken out of their tasks' times, and that of
// the cluster added.
func TestGivenRate(t *testing.T) {
	t.Parallel()
	measured := Durations{samples: map[graph.Stage][]sample{graph.StageLearn: {{0, 100, 14}, {0, 400, 44}}}} // 4 s, and 10 bytes a second
	var c Cluster
	for _, given := range []float64{0, 20} {
		c.FileSystem.BytesPerSecond = given
		d := measured.Given(c)
		if w, _ := d.of(graph.StageReduce); math.Abs(w.fixed-4) > 1e-9 || d.rate != max(10, given) || d.secondsOf(traffic{read: 30, written: 10}) != 40/max(10, given) {
			t.Errorf("given %v: %v s, %v bytes a second", given, w.fixed, d.rate)
		}
	}
	one := Durations{samples: map[graph.Stage][]sample{graph.StageLearn: {{0, 100, 14}}}} // of one size: the rate is not told
	if w, _ := one.Given(c).of(graph.StageLearn); w.fixed != 9 {
		t.Errorf("of 14 s in which 100 bytes are read and written at 20 a second, %v are left", w.fixed)
	}
}

// The blocks of a range of gradient units are those of a binary tree.
func TestSums(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		units, shards, fanIn int
		gradients, reduced   []int64
	}{
		{8, 4, 2, []int64{1, 1, 1, 1}, []int64{1, 1}},
		{8, 1, 2, []int64{1}, nil},
		{6, 4, 2, []int64{1, 2, 1, 1}, []int64{2, 2}}, // units 0; 1, 2; 3; 4-5: of 0-2 the blocks 0-1 and 2, of 3-5 3 and 4-5
		{7, 2, 16, []int64{2, 3}, nil},                // 0-1, 2; 3, 4-5, 6
		{16, 5, 4, []int64{2, 2, 2, 2, 1}, nil},
	} {
		g := graph.Graph{Recipe: recipe.Recipe{Schedule: recipe.Schedule{GradientUnits: c.units, GradientShards: c.shards, GradientFanIn: c.fanIn}}}
		for stage, want := range map[graph.Stage][]int64{graph.StageGradient: c.gradients, graph.StageReduce: c.reduced} {
			var got []int64
			for shard := range g.Shards(graph.Node{Stage: stage}) {
				got = append(got, sums(g, graph.Task{Node: graph.Node{Stage: stage, Iteration: 1}, Shard: shard}))
			}
			if want != nil && !slices.Equal(got, want) {
				t.Errorf("%d units in %d shards, %s: %d sums, want %d", c.units, c.shards, stage, got, want)
			}
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

// A shard of an evaluation is gathered when its own scores are there, and no search
// through those of all others is made for each: that would take hours for so many.
//
// Alone: its processor time is bounded.
func TestPausesOfManyShards(t *testing.T) {
	const shards = 200_000
	g := graph.Graph{Recipe: recipe.Recipe{
		Evaluation: recipe.Evaluation{Problems: shards, Samples: 1, Shards: shards},
		Schedule:   recipe.Schedule{Iterations: 1, Oversample: 1},
	}}
	var tasks []finished
	for shard := range shards { // one after the other on one core, half a second between them
		for i, stage := range []graph.Stage{graph.StageEvalRollout, graph.StageEvalScore, graph.StageEvaluate} {
			from := epoch.Add(time.Duration(3*shard+i+1) * time.Second)
			tasks = append(tasks, finished{graph.Task{Node: graph.Node{Stage: stage}, Shard: shard}, from, from.Add(time.Second / 2)})
		}
	}
	before := cputime.Spent(t, false)
	got := paused(g, tasks, nil)
	if took := cputime.Spent(t, false) - before; took > time.Minute {
		t.Errorf("%v", took)
	}
	for _, s := range got.starts {
		if s != 0.5 {
			t.Fatalf("a start of %v s", s)
		}
	}
	if len(got.starts) != len(tasks)-1 { // nothing came before the first
		t.Errorf("%d starts of %d tasks", len(got.starts), len(tasks))
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
	want := pauses{gates: []float64{2, 3}, queues: []float64{0.5, 3, 3}, turnovers: []float64{1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(pauses{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
