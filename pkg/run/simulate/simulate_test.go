package simulate_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/simulate"
	"github.com/lathe-rl/lathe/pkg/site"
)

// known is a cluster on which every task of a stage takes as long.
func known() simulate.Cluster {
	return simulate.Cluster{
		Gate: simulate.Times{Seconds: 2},
		Stages: simulate.Stages{
			Warm: simulate.TaskTimes{Seconds: 10}, Buffer: simulate.TaskTimes{Seconds: 5}, Rollout: simulate.TaskTimes{Seconds: 20},
			Score: simulate.TaskTimes{Seconds: 3}, Learn: simulate.TaskTimes{Seconds: 7},
		},
	}
}

// options simulate a run of a recipe without evaluations, whose tasks take one core.
func options(t *testing.T, c simulate.Cluster, settings ...string) simulate.Options {
	t.Helper()
	g := graph.Graph{Dir: "/simulated", Recipe: runtest.Load(t, append([]string{"warm_start.chunk=300"}, settings...)...).Recipe}
	if !strings.Contains(strings.Join(settings, " "), "evaluation.") {
		g.Recipe.Evaluation.Problems = 0
	}
	q := &g.Recipe.Resources.Stages
	q.Warm.CPUs, q.Rollout.CPUs, q.Score.CPUs, q.Buffer.CPUs, q.Learn.CPUs = 1, 1, 1, 1, 1
	return simulate.Options{
		Graph: g, Site: site.Default(), Limits: slurm.Limits{MaxArraySize: 1001, MaxJobCount: 10000},
		Cluster: c, Durations: simulate.Durations{}.Given(c), Seed: 1,
	}
}

func run(t testing.TB, o simulate.Options) simulate.Outcome {
	t.Helper()
	outcome, err := simulate.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func stage(t *testing.T, o simulate.Outcome, s graph.Stage) simulate.Stage {
	t.Helper()
	for _, found := range o.Stages {
		if found.Stage == s {
			return found
		}
	}
	t.Fatalf("no task of %s in %+v", s, o.Stages)
	return simulate.Stage{}
}

// One iteration of two shards, by hand.
func TestByHand(t *testing.T) {
	t.Parallel()
	const iteration = "schedule.iterations=1"
	for name, c := range map[string]struct {
		settings []string
		change   func(*simulate.Options)
		want     float64 // seconds
	}{
		// warm 0-10 and buffer 0-5; gate 12; rollouts 12-32; gate 34; scores 34-37;
		// gate 39; buffer 39-44; gate 46; learn 46-53; gate 55.
		"Slurm": {nil, nil, 55},
		// buffer 0-5, warm 5-15 on the one core; gate 17; rollouts 17-37-57; gate 59;
		// scores 59-62-65; gate 67; buffer -72; gate 74; learn -81; gate 83.
		"Slurm, one core": {nil, func(o *simulate.Options) { o.Cluster.Nodes, o.Cluster.NodeCPUs = 1, 1 }, 83},
		// The same by a site profile.
		"Slurm, one core by the site": {nil, func(o *simulate.Options) { o.Site.Nodes, o.Site.NodeCPUs = 1, 1 }, 83},
		// One task on a node of which no more is known.
		"Slurm, one node": {nil, func(o *simulate.Options) { o.Site.Nodes = 1 }, 83},
		// As the first, but each array waits 100 s: six arrays stand behind each other.
		"a queue": {nil, func(o *simulate.Options) {
			o.Cluster.Queue.Seconds = 100
			o.Durations = o.Durations.Given(o.Cluster)
		}, 555},
		// One task of an array at a time: rollouts 12-52; gate 54; scores -60; gate 62;
		// buffer -67; gate 69; learn -76; gate 78.
		"throttled": {nil, func(o *simulate.Options) { o.Site.Throttle = 1 }, 78},
		// A place is free a second after its task: buffer 0-5, warm 6-16; gate 18; rollouts
		// 18-38, 39-59; gate 61; scores 61-64, 65-68; gate 70; buffer -75; gate 77; learn
		// -84; gate 86.
		"turnover, one core": {nil, func(o *simulate.Options) {
			o.Cluster.Nodes, o.Cluster.NodeCPUs, o.Cluster.Turnover.Seconds = 1, 1, 1
			o.Durations = o.Durations.Given(o.Cluster)
		}, 86},
		// So is the turn of an array: rollouts 12-32, 33-53; gate 55; scores -58, 59-62;
		// gate 64; buffer -69; gate 71; learn -78; gate 80.
		"turnover, throttled": {nil, func(o *simulate.Options) {
			o.Site.Throttle, o.Cluster.Turnover.Seconds = 1, 1
			o.Durations = o.Durations.Given(o.Cluster)
		}, 80},
		// Where places were free nothing waits for one, as in the first.
		"turnover": {nil, func(o *simulate.Options) {
			o.Cluster.Turnover.Seconds = 1
			o.Durations = o.Durations.Given(o.Cluster)
		}, 55},
		// warm and buffer side by side, rollouts 10-30, scores -33, buffer -38, learn -45.
		"local, two cores": {nil, func(o *simulate.Options) { o.Cores = 2 }, 45},
		"local, one core":  {nil, func(o *simulate.Options) { o.Cores = 1 }, 5 + 10 + 2*20 + 2*3 + 5 + 7},
		// A second for each process: warm, rollout, score, buffer and learn stand behind each other.
		"local, processes": {nil, func(o *simulate.Options) {
			o.Cores, o.Cluster.Start.Seconds = 2, 1
			o.Durations = o.Durations.Given(o.Cluster)
		}, 45 + 5},
		// A rollout takes 20 s and 2 s for each of its 4 prompts.
		"units": {nil, func(o *simulate.Options) {
			o.Cores, o.Cluster.Stages.Rollout.UnitSeconds = 2, 2
			o.Durations = o.Durations.Given(o.Cluster)
		}, 45 + 8},
		// A limit of a minute: a rollout of 100 s is stopped at 60, and given two.
		// rollouts 12-72; gate 74; rollouts 74-174; and so on, as 32-55 above.
		"a time limit": {nil, func(o *simulate.Options) {
			o.Graph.Recipe.Resources.Stages.Rollout.Minutes, o.Cluster.Stages.Rollout.Seconds = 1, 100
			o.Durations = o.Durations.Given(o.Cluster)
		}, 174 + 23},
		// Two iterations with staleness 1: both plans are there from the beginning. On two
		// cores: rollouts of 1 10-30, scores -33, then buffer 1 and, from 33, a rollout of
		// 2, which goes after the buffer. buffer 33-38; learn 38-45; rollout 33-53; rollout
		// 45-65; score 53-56, 65-68; buffer 68-73; learn 73-80.
		"stale": {[]string{"schedule.iterations=2", "schedule.staleness=1"}, func(o *simulate.Options) { o.Cores = 2 }, 80},
	} {
		o := options(t, known(), append([]string{iteration}, c.settings...)...)
		if c.change != nil {
			c.change(&o)
		}
		got := run(t, o)
		if !near(got.WallSeconds, c.want) || got.Stuck != "" {
			t.Errorf("%s: %v s (%s), want %v", name, got.WallSeconds, got.Stuck, c.want)
		}
		// warm and the first buffer, and of each iteration two rollouts, two scores, a
		// buffer and a learner.
		if tasks := 2 + 6*got.Iterations; got.TasksSimulated != tasks {
			t.Errorf("%s: %d tasks, want %d", name, got.TasksSimulated, tasks)
		}
	}
}

// What is counted of the first run above: 5+10+2·20+2·3+5+7 core-seconds; it was
// looked at by the driver and by six gates.
func TestCounts(t *testing.T) {
	t.Parallel()
	o := options(t, known(), "schedule.iterations=1")
	o.Cluster.Nodes, o.Cluster.NodeCPUs = 1, 4
	got := run(t, o)
	if !near(got.CoreHours*3600, 73) || got.IdleCores == nil || !near(*got.IdleCores, 1-73/(4*55.0)) || got.IdleGPUs != nil {
		t.Errorf("%v core-seconds, idle %v", got.CoreHours*3600, got.IdleCores)
	}
	if got.JobArrays != 6 || got.Gates != 6 || got.Surveys != 7 || got.Prompts != 8 || got.MostRunning != 2 {
		t.Errorf("%+v", got)
	}
	if want := 10.0 / 55; !near(got.NothingRuns, want) { // five gates of 2 s; during the first a warm start runs
		t.Errorf("nothing runs in %v, want %v", got.NothingRuns, want)
	}
}

// Two rollouts that ask for the one GPU come one after the other, 12-32-52, and take
// none of the nodes without.
func TestGPUs(t *testing.T) {
	t.Parallel()
	o := options(t, known(), "schedule.iterations=1", "resources.stages.rollout.gpus=1")
	o.Site.Nodes, o.Site.NodeCPUs, o.Site.GPUs = 1, 2, 1
	got := run(t, o)
	if !near(got.WallSeconds, 75) || !near(got.GPUHours*3600, 40) || got.IdleGPUs == nil || !near(*got.IdleGPUs, 1-40/75.0) || !near(*got.IdleCores, 1-33/(2*75.0)) {
		t.Errorf("%v s, %v GPU-seconds, idle GPUs %v, cores %v", got.WallSeconds, got.GPUHours*3600, *got.IdleGPUs, *got.IdleCores)
	}
	if slowest := stage(t, got, graph.StageRollout).SlowestSeconds; !near(slowest, 0) { // one ran after the other
		t.Errorf("the array waits %v s for its slowest task", slowest)
	}
}

// One preemption: the task begins again at once where the site requeues it, and else
// when its array has ended.
func TestOnePreemption(t *testing.T) {
	t.Parallel()
	c := known()
	c.PreemptionsPerHour = 20
	tried := 0
	for seed := uint64(1); tried < 3; seed++ {
		o := options(t, c, "schedule.iterations=1")
		o.Seed = seed
		got := run(t, o)
		rollouts := stage(t, got, graph.StageRollout)
		all := 0
		for _, s := range got.Stages {
			all += s.Preempted
		}
		if rollouts.Preempted != 1 || all != 1 {
			continue
		}
		tried++
		lost := got.LostCoreHours * 3600
		if lost <= 0 || lost >= 20 || !near(got.WallSeconds, 55+lost) {
			t.Errorf("requeued: %v s, lost %v", got.WallSeconds, lost)
		}
		o.Site.Requeue = false // again at 34, until 54: 22 s later
		if got := run(t, o); !near(got.WallSeconds, 55+22) {
			t.Errorf("not requeued: %v s", got.WallSeconds)
		}
	}
}

// A task that always fails ends the run, unless the quorum does without it.
func TestFailures(t *testing.T) {
	t.Parallel()
	c := known()
	c.FailureShare = 1
	got := run(t, options(t, c, "schedule.iterations=1", "schedule.max_attempts=2"))
	if !strings.Contains(got.Stuck, "attempts are used up") || got.LostCoreHours == 0 {
		t.Errorf("every attempt fails: %+v", got)
	}
	c.FailureShare, c.PreemptionsPerHour = 0, 1e9
	if got := run(t, options(t, c, "schedule.iterations=1")); !strings.Contains(got.Stuck, "attempts are used up") {
		t.Errorf("every attempt is preempted: %+v", got)
	}
	c.FailureShare, c.PreemptionsPerHour = 0.3, 0
	left := 0
	for seed := range uint64(30) {
		o := options(t, c, "schedule.iterations=1", "schedule.max_attempts=2", "schedule.quorum=0.5")
		o.Seed = seed
		if got := run(t, o); got.Stuck == "" {
			left += got.LeftOutShards
			if got.Prompts != 8-4*got.LeftOutShards {
				t.Errorf("%d shards left out, and %d prompts learned from", got.LeftOutShards, got.Prompts)
			}
		}
	}
	if left == 0 {
		t.Error("no shard was left out")
	}
}

// An iteration is closed without what is late, which is carried, or dropped.
func TestLate(t *testing.T) {
	t.Parallel()
	c := known()
	c.Stages.Rollout.Spread = 1
	whole := run(t, options(t, c, "schedule.iterations=4", "rollout.shards=8"))
	for _, late := range []string{"carry", "drop"} {
		got := run(t, options(t, c, "schedule.iterations=4", "rollout.shards=8", "schedule.close_after_seconds=30", "schedule.late="+late))
		rollouts := stage(t, got, graph.StageRollout)
		if got.LateShards == 0 || got.WallSeconds >= whole.WallSeconds || got.Iterations != 4 {
			t.Errorf("%s: %+v", late, got)
		}
		if carries := late == "carry"; carries != (got.CarriedShards > 0) || carries == (rollouts.Cancelled > 0) {
			t.Errorf("%s: %d carried, %d cancelled", late, got.CarriedShards, rollouts.Cancelled)
		}
	}
}

// An alarm whose time is no round number of seconds rings once and not for ever: of
// seeds of this run, the third had one that rang a nanosecond too soon.
func TestAlarmRings(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for seed := range uint64(20) {
		o := options(t, disturbed(), "schedule.iterations=6", "rollout.shards=8", "schedule.close_after_seconds=40", "schedule.quorum=0.5")
		o.Seed = seed
		if got, err := simulate.Run(ctx, o); err != nil || got.Iterations != 6 {
			t.Errorf("seed %d: %d iterations, %v", seed, got.Iterations, err)
		}
	}
}

// A shard that is dropped is scored no more, also where an earlier array had it too:
// each was scored, late or left out.
func TestDroppedIsNotDone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		o := options(t, disturbed(), "schedule.iterations=6", "rollout.shards=8", "schedule.close_after_seconds=40", "schedule.late=drop", "schedule.quorum=0.5")
		o.Seed = seed
		got := run(t, o)
		if scores := stage(t, got, graph.StageScore).Tasks; scores+got.LateShards+got.LeftOutShards != 6*8 || got.Stuck != "" {
			t.Errorf("seed %d: %d shards judged, %d late, %d left out of 48 (%s)", seed, scores, got.LateShards, got.LeftOutShards, got.Stuck)
		}
	}
}

// Traces go on in later waves, as often as is said.
func TestWaves(t *testing.T) {
	t.Parallel()
	resolved, err := recipe.Load(filepath.Join(filepath.Dir(runtest.Smoke()), "mle-smoke.yaml"), []string{"evaluation.samples=8", "evaluation.shards=4", "evaluation.problems=4"})
	if err != nil {
		t.Fatal(err)
	}
	for _, goesOn := range []float64{0, 1} {
		c := known()
		c.Stages.EvalScore = simulate.TaskTimes{Seconds: 1, GoesOn: goesOn}
		o := options(t, c)
		o.Graph.Recipe = resolved.Recipe
		waves := 1
		if goesOn > 0 {
			waves = o.Graph.Waves(graph.StageEvalRollout)
		}
		shards := o.Graph.Shards(graph.Node{Stage: graph.StageEvalRollout})
		got := run(t, o)
		if n := stage(t, got, graph.StageEvalRollout).Tasks; n != 2*waves*shards || got.Stuck != "" { // of two versions
			t.Errorf("%v of the shards go on: %d tasks in %d waves of %d shards", goesOn, n, waves, shards)
		}
	}
}

// The queue takes only so many jobs of a user.
func TestMaxSubmit(t *testing.T) {
	t.Parallel()
	o := options(t, known(), "schedule.iterations=2", "rollout.prompts=40", "rollout.shards=40")
	o.Limits.MaxSubmit = 12
	got := run(t, o)
	if got.MostQueued > 10 || got.MostQueued < 8 || got.TasksSimulated != 2+2*80+2*2 {
		t.Errorf("%d queued at once, %d tasks done", got.MostQueued, got.TasksSimulated)
	}
}

// A task that no node has room for is refused, and so are stages without a time.
func TestRefused(t *testing.T) {
	t.Parallel()
	o := options(t, known(), "schedule.iterations=1")
	o.Graph.Recipe.Resources.Stages.Learn.CPUs = 5
	o.Cluster.Nodes, o.Cluster.NodeCPUs = 10, 4
	if _, err := simulate.Run(t.Context(), o); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "a task of learn asks for 5 cores") {
		t.Errorf("no room: %v", err)
	}
	c := known()
	c.Stages.Learn, c.Stages.Warm = simulate.TaskTimes{}, simulate.TaskTimes{}
	if _, err := simulate.Run(t.Context(), options(t, c)); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "tasks of warm, learn take is not known") {
		t.Errorf("no times: %v", err)
	}
}

// disturbed is a cluster on which everything differs and fails.
func disturbed() simulate.Cluster {
	c := known()
	c.Nodes, c.NodeCPUs = 3, 2
	c.Queue, c.Gate, c.Start = simulate.Times{Seconds: 10, Spread: 1}, simulate.Times{Seconds: 2, Spread: 1}, simulate.Times{Seconds: 1, Spread: 0.5}
	c.FailureShare, c.PreemptionsPerHour = 0.05, 10
	c.Stages.Rollout.Spread, c.Stages.Score.Spread = 0.5, 0.5
	return c
}

// The same seed predicts the same, and another seed something else.
func TestSameSeedSameOutcome(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"plain":      {"schedule.iterations=6", "rollout.shards=8"},
		"oversample": {"schedule.iterations=6", "rollout.shards=8", "schedule.oversample=1.5", "schedule.staleness=1", "schedule.quorum=0.5"},
		"drop":       {"schedule.iterations=6", "rollout.shards=8", "schedule.close_after_seconds=40", "schedule.late=drop", "schedule.quorum=0.5"},
		"evaluated":  {"schedule.iterations=4", "evaluation.every=1", "evaluation.shards=4"},
	} {
		for _, cores := range []int{0, 3} {
			o := options(t, disturbed(), settings...)
			o.Cores = cores
			first, again := run(t, o), run(t, o)
			if diff := cmp.Diff(first, again, cmp.AllowUnexported(simulate.FileSystem{})); diff != "" {
				t.Errorf("%s on %d cores:\n%s", name, cores, diff)
			}
			o.Seed = 2
			if other := run(t, o); other.WallSeconds == first.WallSeconds {
				t.Errorf("%s: another seed foretells the same", name)
			}
		}
	}
}

// What a seed predicts stays so, from one version to the next: seconds and tasks.
func TestSeedKeepsItsOutcome(t *testing.T) {
	t.Parallel()
	eight := []string{"schedule.iterations=6", "rollout.shards=8"}
	for name, c := range map[string]struct {
		settings []string
		cores    int
		wall     float64
		tasks    int
	}{
		"plain":           {eight, 0, 1195.991547, 110},
		"plain, local":    {eight, 3, 655.029219, 110},
		"stale":           {append(eight, "schedule.oversample=1.5", "schedule.staleness=1", "schedule.quorum=0.5"), 0, 543.451305, 110},
		"carry":           {append(eight, "schedule.close_after_seconds=40", "schedule.quorum=0.5"), 0, 727.988410, 109},
		"drop":            {append(eight, "schedule.close_after_seconds=40", "schedule.late=drop", "schedule.quorum=0.5"), 0, 638.888940, 75},
		"with evaluation": {[]string{"schedule.iterations=4", "evaluation.every=1", "evaluation.shards=4"}, 0, 946.628643, 87},
	} {
		o := options(t, disturbed(), c.settings...)
		o.Cores, o.Seed = c.cores, 0
		if got := run(t, o); !near(got.WallSeconds, c.wall) || got.TasksSimulated != c.tasks {
			t.Errorf("%s: %.6f s and %d tasks, want %v and %d", name, got.WallSeconds, got.TasksSimulated, c.wall, c.tasks)
		}
	}
}

// Without failures and overlap more nodes are never slower, and a quorum changes
// nothing.
func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		c := known()
		c.Stages.Rollout.Spread = rapid.Float64Range(0, 1).Draw(r, "spread")
		c.Stages.Score.Spread = rapid.Float64Range(0, 1).Draw(r, "spread of scores")
		c.Nodes, c.NodeCPUs = rapid.IntRange(1, 6).Draw(r, "nodes"), rapid.IntRange(1, 4).Draw(r, "cores")
		shards := fmt.Sprintf("rollout.shards=%d", rapid.IntRange(1, 24).Draw(r, "shards"))
		o := options(t, c, "schedule.iterations=2", "rollout.prompts=24", shards)
		o.Seed = rapid.Uint64().Draw(r, "seed")
		fewer := run(t, o)
		o.Cluster.Nodes++
		if more := run(t, o); more.WallSeconds > fewer.WallSeconds+1e-6 {
			r.Errorf("%d nodes take %v s, one more %v s", c.Nodes, fewer.WallSeconds, more.WallSeconds)
		}
		o.Cluster.Nodes--
		o.Graph.Recipe.Schedule.Quorum = rapid.Float64Range(0.01, 1).Draw(r, "quorum")
		if diff := cmp.Diff(fewer, run(t, o), cmp.AllowUnexported(simulate.FileSystem{})); diff != "" {
			r.Errorf("quorum %v:\n%s", o.Graph.Recipe.Schedule.Quorum, diff)
		}
		if fewer.CoreHours*3600 > fewer.WallSeconds*float64(c.Nodes*c.NodeCPUs)+1e-6 {
			r.Errorf("%v core-seconds on %d cores in %v s", fewer.CoreHours*3600, c.Nodes*c.NodeCPUs, fewer.WallSeconds)
		}
	})
}

// Time grows with the number of tasks, and a large run takes seconds.
//
// Alone: its processor time is bounded.
func TestTakesItsTime(t *testing.T) {
	for _, shards := range []int{100, 1000} {
		n := fmt.Sprint(shards)
		o := options(t, disturbed(), "schedule.iterations=50", "rollout.prompts="+n, "rollout.shards="+n)
		o.Cluster.Nodes = 100
		o.Cluster.FailureShare = 0.001
		before := cputime.Spent(t, false)
		got := run(t, o)
		took := cputime.Spent(t, false) - before
		t.Logf("%d shards: %v, %v a task", shards, took, took/time.Duration(got.TasksSimulated))
		if got.Stuck != "" || took > time.Minute {
			t.Errorf("%d shards: %v (%s)", shards, took, got.Stuck)
		}
	}
}
