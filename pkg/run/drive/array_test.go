package drive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// cores is a launcher of so many, which starts nothing.
type cores int

func (c cores) Cores() int { return int(c) }

func (cores) Spare() bool { return true }

func (cores) Launch(context.Context, executor.Array, func(executor.Result)) error { return nil }

func (cores) Close() error { return nil }

// TestArray: what a task is given, of what it asks for and of what there is.
func TestArray(t *testing.T) {
	t.Setenv(rundir.TrustVariable, "")
	d := graph.Dir(t.TempDir())
	var r recipe.Recipe
	r.Resources.Stages.Rollout = recipe.Request{CPUs: 6, MemoryGB: 3, GPUs: 1, Minutes: 20}
	r.Rollout.Prompts, r.Rollout.Shards, r.Schedule.Oversample, r.Schedule.Iterations = 8, 2, 1, 3
	run := &rundir.Run{Dir: d, Recipe: r, Graph: graph.Graph{Dir: d, Recipe: r}, Identity: rundir.Identity{RunID: "run-1"}}
	task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 3, Wave: 1}, Shard: 1}
	for attempt := range 2 { // two have left a log
		if err := errors.Join(os.MkdirAll(d.Logs(), 0o777), os.WriteFile(d.Log(task, attempt), nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	want := executor.Array{
		Run: "run-1", Stage: "rollout", Resources: "rollout", Iteration: 3, Wave: 1, Attempt: 2, Shards: []int{1}, Command: run.Graph.Command("/bin", task.Node),
		CPUs: 4, MemoryGB: 3, GPUs: 1, Minutes: 20, LogDir: d.Logs(),
	}
	for _, c := range []struct {
		monitor string
		cores   cores
		gpus    int
		threads int
		cpus    int
		env     map[string]string
	}{
		{"", 4, 1, 0, 4, map[string]string{"LATHE_THREADS": "4"}},
		{"", 16, 1, 0, 6, map[string]string{"LATHE_THREADS": "6"}},
		{"", 4, 1, 2, 4, map[string]string{"LATHE_THREADS": "2"}},
		{site.MonitorAll, 4, 0, 0, 4, map[string]string{"LATHE_THREADS": "4", "LATHE_MONITOR": "/bin/lathe-monitor", "LATHE_MONITOR_CORES": "4"}},
		{site.MonitorGPUs, 4, 0, 0, 4, map[string]string{"LATHE_THREADS": "4"}},
		{site.MonitorGPUs, 16, 1, 0, 6, map[string]string{"LATHE_THREADS": "6", "LATHE_MONITOR": "/bin/lathe-monitor", "LATHE_MONITOR_CORES": "6"}},
	} {
		run.Recipe.Resources.Threads = c.threads
		run.Graph.Recipe.Resources.Stages.Rollout.GPUs = c.gpus
		driver := &Driver{Run: run, Launcher: c.cores, Binaries: "/bin", Monitor: c.monitor}
		want.CPUs, want.GPUs, want.Env = c.cpus, c.gpus, c.env
		if diff := cmp.Diff(want, driver.array(task, driver.asked(task))); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
	}
	// A stage that asks for nothing takes a core, and the trust of this process.
	t.Setenv(rundir.TrustVariable, "1")
	run.Recipe.Resources.Threads = 0
	array := ArrayOf(run, graph.Node{Stage: graph.StageLearn, Iteration: 1}, []int{0}, 0, "", "")
	if diff := cmp.Diff(map[string]string{"LATHE_THREADS": "1", rundir.TrustVariable: "1"}, array.Env); diff != "" || array.CPUs != 1 {
		t.Errorf("%d cores; environment (-want +got):\n%s", array.CPUs, diff)
	}
}

// TestShare: idle cores go to tasks of the engine, in equal parts among those that are
// ready, with those that brief tasks are about to leave.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stage                        graph.Stage
		asks, threads                int
		cores, taken, brief, waiting int // brief is the part of taken that is of brief tasks
		want                         int
	}{
		{graph.StageLearn, 1, 0, 16, 0, 0, 1, 16},
		{graph.StageLearn, 1, 0, 16, 4, 0, 1, 12},
		{graph.StageLearn, 1, 0, 16, 4, 1, 1, 13},
		{graph.StageWarm, 1, 0, 2, 1, 1, 1, 2},
		{graph.StageRollout, 1, 0, 2, 2, 1, 1, 1},
		{graph.StageRollout, 1, 0, 16, 0, 0, 4, 4},
		{graph.StageRollout, 1, 0, 16, 12, 0, 1, 4}, // the last of them takes what is left
		{graph.StageGradient, 1, 0, 2, 0, 0, 3, 1},
		{graph.StageWarm, 4, 0, 16, 0, 0, 8, 4},
		{graph.StageWarm, 4, 0, 2, 0, 0, 1, 2},
		{graph.StageLearn, 1, 1, 16, 0, 0, 1, 1}, // a number of threads in the recipe is kept
		{graph.StageScore, 1, 0, 16, 0, 0, 1, 1}, // programs of policies need memory with each core
		{graph.StageBuffer, 1, 0, 16, 0, 0, 1, 1},
	} {
		var r recipe.Recipe
		r.Resources.Threads = c.threads
		asks := recipe.Request{CPUs: c.asks}
		r.Resources.Stages = recipe.StageRequest{Warm: asks, Rollout: asks, Score: asks, Buffer: asks, Learn: asks, Gradient: asks, Evaluate: asks}
		d := &Driver{Run: &rundir.Run{Recipe: r, Graph: graph.Graph{Recipe: r}}, Launcher: cores(c.cores), cores: c.taken, running: map[graph.Task]*launched{
			{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}}:  {array: executor.Array{CPUs: c.taken - c.brief}},
			{Node: graph.Node{Stage: graph.StageBuffer, Iteration: 1}}: {array: executor.Array{CPUs: c.brief}},
		}}
		if got := d.share(graph.Task{Node: graph.Node{Stage: c.stage, Iteration: 1}}, c.waiting); got != c.want {
			t.Errorf("%+v: %d cores", c, got)
		}
	}
}

// allocation is a launcher whose cores lie on several nodes.
type allocation struct{ cores }

func (allocation) Spare() bool { return false }

// TestShareOfAllocation: a step that asked for the cores of two nodes would not start.
func TestShareOfAllocation(t *testing.T) {
	t.Parallel()
	d := &Driver{Run: &rundir.Run{}, Launcher: allocation{8}}
	if got := d.share(graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1}}, 1); got != 1 {
		t.Errorf("%d cores", got)
	}
}

// TestRecordKill: who was killed, or could not be started, is recorded by the driver; who
// left a record of its own keeps it.
func TestRecordKill(t *testing.T) {
	t.Parallel()
	d := &Driver{Run: &rundir.Run{Dir: graph.Dir(t.TempDir())}, Attempt: seal.Attempt{Host: "n1"}}
	for i, c := range []struct {
		result  executor.Result
		records bool
	}{
		{executor.Result{Exit: -1, Signal: "SIGKILL", Cause: executor.CauseOutOfMemory, Evidence: "killed"}, true},
		{executor.Result{Exit: -1, Cause: executor.CauseLaunchFailed, Evidence: "no such program"}, true},
		{executor.Result{Exit: 1, Cause: executor.CauseFailed, Evidence: "exit code 1"}, false},
	} {
		task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}, Shard: i}
		d.recordKill(task, 2, c.result)
		record, there := rundir.ReadExitRecord(d.Run.Dir, task, 2, 0)
		if there != c.records || there && (record.Message != c.result.Evidence || record.Code != exitcode.Failed || record.Host != "n1" || record.Attempt != 2 || record.Task != task.String()) {
			t.Errorf("%+v leaves %+v, %v", c.result, record, there)
		}
		if _, err := os.Stat(d.Run.Dir.ExitRecord(task, 2, 0)); (err == nil) != c.records {
			t.Errorf("%+v: record of the first start: %v", c.result, err)
		}
	}
}

// TestStuckSays: why a run ends short of its end, from what its last task left.
func TestStuckSays(t *testing.T) {
	t.Parallel()
	n := graph.Node{Stage: graph.StageScore, Iteration: 1}
	scored, sampled := graph.Task{Node: n, Shard: 3}, graph.Task{Node: n.Sampling(), Shard: 3}
	for _, c := range []struct {
		what   string
		last   map[graph.Task]executor.Result
		record *rundir.ExitRecord
		code   int
		hints  int
		want   []string // in the error and its hints
	}{
		{"a record", map[graph.Task]executor.Result{scored: {Exit: 65, Log: "/run/logs/a.log"}}, &rundir.ExitRecord{Code: exitcode.Data, Message: "score 7 is damaged", Hint: "make it again"}, exitcode.Data, 2, []string{"score-000001-00003 failed: score 7 is damaged", "make it again", "a.log"}},
		{"a full disk", map[graph.Task]executor.Result{scored: {Exit: 74}}, &rundir.ExitRecord{Code: exitcode.IO, Message: "write x: no space left on device"}, exitcode.IO, 2, []string{"no space left", "lathe prune"}},
		{"no record", map[graph.Task]executor.Result{sampled: {Exit: 1, Cause: executor.CauseTimeout, Evidence: "too long"}}, nil, executor.CauseTimeout.ExitCode(), 1, []string{"rollout-000001-00003 failed: too long"}},
		{"no record of a disk", map[graph.Task]executor.Result{scored: {Cause: executor.CauseIO, Evidence: "no log"}}, nil, exitcode.IO, 2, []string{"no log; the file system of", "bytes and", "lathe prune"}},
		{"nothing was tried", nil, nil, exitcode.Failed, 1, []string{"score-000001 cannot be done: too few", "lathe status"}},
	} {
		d := &Driver{Run: &rundir.Run{Dir: graph.Dir(t.TempDir())}, last: map[graph.Task]ended{}}
		for task, result := range c.last {
			d.last[task] = ended{1, result}
			if c.record != nil {
				rundir.WriteExitRecord(d.Run.Dir, task, 1, 0, *c.record)
			}
		}
		err := d.stuck(survey.Result{Stuck: []survey.Stuck{{Node: n, Shards: []int{3}, Reason: "too few"}}})
		text := err.Error() + "\n" + strings.Join(exitcode.Hints(err), "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) || exitcode.Code(err) != c.code || len(exitcode.Hints(err)) != c.hints {
				t.Errorf("%s: exit code %d: %s; want %d and %q", c.what, exitcode.Code(err), text, c.code, want)
			}
		}
	}
	d := &Driver{Run: &rundir.Run{Dir: graph.Dir(filepath.Join(t.TempDir(), "run"))}}
	if err := d.stuck(survey.Result{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("nothing is ready and nothing is stuck: %v", err)
	}
}

// devices are GPUs that a test has.
type devices int

func (n devices) GPUs() int { return int(n) }

func (n devices) CheckGPUs(stage string, asked int) error {
	if asked > int(n) {
		return exitcode.Unavailablef("a task of %s wants %d", stage, asked)
	}
	return nil
}

// TestGPUsAreChecked: once, and for the stages that are still to do, of which one GPU is
// enough to ask.
func TestGPUsAreChecked(t *testing.T) {
	t.Parallel()
	dir := graph.Dir(t.TempDir())
	var r recipe.Recipe
	r.Resources.Stages.Score = recipe.Request{GPUs: 1}
	r.Rollout.Prompts, r.Rollout.Shards, r.Schedule.Oversample, r.Schedule.Iterations = 1, 1, 1, 1
	g := graph.Graph{Dir: dir, Recipe: r}
	for counted, refused := range map[devices]bool{0: true, 1: false} {
		d := &Driver{Run: &rundir.Run{Dir: dir, Recipe: r, Graph: g}, GPUs: counted, surveyor: survey.New(g)}
		if err := d.checkGPUs(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "a task of score wants 1") {
			t.Errorf("%d GPUs: %v", counted, err)
		}
		if err := d.checkGPUs(); err != nil {
			t.Errorf("%d GPUs, when tasks run: %v", counted, err)
		}
	}
	score := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}}
	for _, path := range g.Outputs(score) {
		if _, err := seal.WriteBytes(path, nil, seal.AttemptFromEnv(), g.Expected(score)); err != nil {
			t.Fatal(err)
		}
	}
	d := &Driver{Run: &rundir.Run{Dir: dir, Recipe: r, Graph: g}, GPUs: devices(0), surveyor: survey.New(g)}
	if _, err := d.surveyor.Made(t.Context(), score); err != nil {
		t.Fatal(err)
	}
	if err := d.checkGPUs(); err != nil {
		t.Errorf("of what is done: %v", err)
	}
}

// TestStopPaused: a pause stops what it names, and nothing else.
func TestStopPaused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pause rundir.Pause
		want  []graph.Stage
	}{
		{rundir.Pause{Stage: graph.StageScore}, nil},
		{rundir.Pause{Stop: true, Stage: graph.StageScore}, []graph.Stage{graph.StageScore}},
		{rundir.Pause{Stop: true}, []graph.Stage{graph.StageLearn, graph.StageScore}},
	} {
		d := &Driver{running: map[graph.Task]*launched{}}
		var stopped []graph.Stage
		for _, stage := range []graph.Stage{graph.StageLearn, graph.StageScore} {
			d.running[graph.Task{Node: graph.Node{Stage: stage, Iteration: 1}}] = &launched{stop: func() { stopped = append(stopped, stage) }}
		}
		d.stopPaused(c.pause)
		if slices.Sort(stopped); !slices.Equal(stopped, c.want) {
			t.Errorf("%+v stops %v, want %v", c.pause, stopped, c.want)
		}
	}
}

// TestWake: what is due is waited for, and nothing where nothing is.
func TestWake(t *testing.T) {
	t.Parallel()
	if wake(time.Time{}) != nil {
		t.Error("nothing is due, and comes")
	}
	<-wake(time.Unix(1, 0))
	select {
	case <-wake(time.Now().Add(time.Hour)):
		t.Error("what is due in an hour has come")
	default:
	}
}

// TestGPUsBoundLaunches: tasks that wait for a GPU are not started, and those that need none
// pass them; a run of which a task can never start is refused before any does.
func TestGPUsBoundLaunches(t *testing.T) {
	t.Parallel()
	dir := graph.Dir(t.TempDir())
	var r recipe.Recipe
	r.Resources.Stages.Rollout, r.Resources.Stages.Evaluate = recipe.Request{CPUs: 1, GPUs: 2}, recipe.Request{CPUs: 1, GPUs: 1}
	r.Rollout.Prompts, r.Rollout.Shards, r.Schedule.Oversample, r.Schedule.Iterations = 8, 3, 1, 1
	g := graph.Graph{Dir: dir, Recipe: r}
	task := func(stage graph.Stage, shard int) graph.Task {
		return graph.Task{Node: graph.Node{Stage: stage, Iteration: 1}, Shard: shard}
	}
	ready := survey.Result{Ready: []graph.Task{task(graph.StageRollout, 0), task(graph.StageRollout, 1), task(graph.StageRollout, 2), task(graph.StageEvalRollout, 0), task(graph.StageScore, 0)}}
	for _, c := range []struct {
		counted GPUCounter
		want    []int // shards of rollout that start
		gpus    int   // in use then: an evaluation that asks for one passes no rollout that asks for two
	}{{devices(2), []int{0}, 2}, {devices(3), []int{0}, 2}, {devices(5), []int{0, 1}, 4}, {devices(7), []int{0, 1, 2}, 7}, {nil, []int{0, 1, 2}, 7}, {devices(1), nil, 0}} {
		d := &Driver{Run: &rundir.Run{Dir: dir, Recipe: r, Graph: g}, Launcher: cores(16), GPUs: c.counted, running: map[graph.Task]*launched{}, surveyor: survey.New(g)}
		if err := d.launch(t.Context(), ready, nil); (exitcode.Code(err) == exitcode.Unavailable) != (c.want == nil) {
			t.Errorf("%v GPUs: %v", c.counted, err)
		}
		var rollouts []int
		for shard := range 3 {
			if d.running[task(graph.StageRollout, shard)] != nil {
				rollouts = append(rollouts, shard)
			}
		}
		if scored := d.running[task(graph.StageScore, 0)] != nil; !cmp.Equal(rollouts, c.want) || scored != (c.want != nil) || d.gpus != c.gpus {
			t.Errorf("%v GPUs: rollouts %v started, want %v; the score too: %v; %d GPUs are in use, want %d", c.counted, rollouts, c.want, scored, d.gpus, c.gpus)
		}
	}
}
