package drive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// bounded drives a run that would otherwise wait for ever if it were driven wrongly.
func bounded(t *testing.T, d *drive.Driver) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d.Attempt, d.Version = seal.AttemptFromEnv(), "test"
	return d.Drive(ctx)
}

// through drives the run of a launcher to its end.
func through(t *testing.T, m *runtest.Launcher, watch func(drive.Progress)) error {
	return bounded(t, &drive.Driver{Run: m.Run, Launcher: m, Watch: watch})
}

// A killed task's temporary file goes when the next driver starts, and tasks that are
// lost are made again.
func TestDriverSweeps(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Stage(t, "schedule.iterations=1")
	m.SealByName()
	writer, err := seal.Create(opened.Dir.Rollout(1, 0), seal.Attempt{JobID: seal.AttemptFromEnv().JobID, PID: 1 << 29})
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(opened.Dir.Rollout(1, 0)), ".*.tmp"))
	if err != nil || len(left) != 1 {
		t.Fatalf("%q, %v", left, err)
	}
	if err := seal.Remove(opened.Dir.Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := through(t, m, nil); err != nil {
		t.Fatal(err)
	}
	runtest.Digest(t, opened.Dir.Tasks())
	if _, err := os.Stat(left[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", left[0])
	}
	_ = writer.Abort() // its file is gone
}

func TestTaskThatFailsOnceIsTriedAgain(t *testing.T) {
	t.Parallel()
	_, m := runtest.Sealing(t, "schedule.iterations=1")
	m.Fail = func(task graph.Task, attempt int) executor.Cause {
		switch {
		case task.Stage == graph.StageRollout && task.Shard == 1 && attempt < 2:
			return executor.CauseFailed
		case task.Stage == graph.StageLearn && attempt < 20:
			return executor.CausePreempted // never counts
		}
		return ""
	}
	events := map[string]int{}
	if err := through(t, m, func(p drive.Progress) { events[p.Event]++ }); err != nil {
		t.Fatal(err)
	}
	if events["retry"] != 22 || events["failed"] != 0 {
		t.Errorf("events %v, want 22 retries", events)
	}
}

func TestTaskThatFailsThriceFailsTheRun(t *testing.T) {
	t.Parallel()
	_, m := runtest.Sealing(t, "schedule.iterations=1")
	tries := 0
	m.Fail = func(task graph.Task, _ int) executor.Cause {
		if task.Stage == graph.StageScore && task.Shard == 0 {
			if tries++; tries < 9 { // a driver that did not count would try for ever
				return executor.CauseFailed
			}
		}
		return ""
	}
	err := through(t, m, nil)
	if tries != 3 {
		t.Errorf("%d attempts, want 3", tries)
	}
	if exitcode.Code(err) != exitcode.Failed || !strings.Contains(err.Error(), "score-000001-00000 failed: for the test: failed") {
		t.Errorf("exit %d, %v", exitcode.Code(err), err)
	}
	if hints := strings.Join(exitcode.Hints(err), "\n"); !strings.Contains(hints, "logs/score-000001-00000.2.log") {
		t.Errorf("the hints %q do not name the log of the last attempt", hints)
	}
	// A new process tries again: failures are not held against a task for ever.
	m.Fail = nil
	if err := through(t, m, nil); err != nil {
		t.Errorf("after the cause was fixed: %v", err)
	}
}

// TestHopelessTaskIsNotRepeated: damaged input fails the same way each time,
// and the run ends with the task's own exit code and message.
func TestHopelessTaskIsNotRepeated(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Sealing(t, "schedule.iterations=1")
	tries := 0
	m.Fail = func(task graph.Task, attempt int) executor.Cause {
		if task.Stage != graph.StageBuffer || task.Iteration == 0 {
			return ""
		}
		tries++
		record := opened.Dir.ExitRecord(task, attempt, 0)
		text := `{"code": 65, "message": "score 7 is damaged", "hint": "make it again"}`
		if err := errors.Join(os.MkdirAll(filepath.Dir(record), 0o777), os.WriteFile(record, []byte(text), 0o666)); err != nil {
			t.Error(err)
		}
		return executor.CauseData
	}
	err := through(t, m, nil)
	if tries != 1 || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "buffer-000001-00000 failed: score 7 is damaged") {
		t.Errorf("%d attempts, exit %d: %v", tries, exitcode.Code(err), err)
	}
	if hints := exitcode.Hints(err); len(hints) != 2 || hints[1] != "make it again" {
		t.Errorf("hints %q", hints)
	}
}

// TestDriveStops: a cancelled driver waits for its tasks and leaves; the next one goes on.
func TestDriveStops(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Sealing(t, "warm_start.chunk=150")
	for _, event := range []graph.Node{runtest.Node(graph.StageWarm, 2), runtest.Node(graph.StageScore, 1), runtest.Node(graph.StageLearn, 1)} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		running := map[graph.Task]bool{}
		driver := &drive.Driver{Run: opened, Launcher: m, Attempt: seal.AttemptFromEnv(), Version: "test", Watch: func(p drive.Progress) {
			running[p.Task] = p.Event == "launched"
			if p.Task.Node == event && p.Event == "launched" {
				cancel()
			}
		}}
		if err := driver.Drive(ctx); exitcode.Code(err) != exitcode.Stopped {
			t.Fatalf("stopped at %s: %v", event, err)
		}
	}
	var last drive.Progress
	if err := through(t, m, func(p drive.Progress) { last = p }); err != nil || last.Event != "finished" || !last.Survey.Done {
		t.Fatalf("ended with %+v: %v", last, err)
	}
	for _, n := range opened.Graph.Nodes() {
		for shard := range opened.Graph.Shards(n) {
			for _, path := range opened.Graph.Outputs(graph.Task{Node: n, Shard: shard}) {
				runtest.Digest(t, path)
			}
		}
	}
}

// TestPause: a paused run starts nothing; what a pause stops is stopped, and the rest
// ends by itself.
func TestPause(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Sealing(t, "schedule.iterations=1", "rollout.shards=4")
	m.Slots = 4
	pause := func(p rundir.Pause) {
		p.By, p.Since = "me", time.Unix(0, 0).UTC()
		if err := p.Write(opened.Dir, seal.AttemptFromEnv()); err != nil {
			t.Error(err)
		}
	}
	events := map[string]int{}
	pause(rundir.Pause{})
	err := through(t, m, func(p drive.Progress) { events[p.Event]++ })
	if exitcode.Code(err) != exitcode.Stopped || len(events) != 0 || !strings.Contains(err.Error(), "was paused by me at 1970-01-01T00:00:00Z") {
		t.Errorf("a paused run: %v, events %v", err, events)
	}
	if err := rundir.Resume(opened.Dir); err != nil {
		t.Fatal(err)
	}
	held := graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 1}
	m.Hold = func(task graph.Task) <-chan struct{} {
		if task == held {
			return make(chan struct{}) // until it is stopped
		}
		return nil
	}
	var stopped []string
	err = through(t, m, func(p drive.Progress) {
		switch {
		case p.Event == "done" && p.Task == (graph.Task{Node: held.Node, Shard: 2}):
			pause(rundir.Pause{Stop: true, Stage: graph.StageRollout})
		case p.Event == "retry":
			stopped = append(stopped, p.Task.String())
		}
	})
	if exitcode.Code(err) != exitcode.Stopped || !strings.Contains(err.Error(), "was cancelled by me") || !slices.Equal(stopped, []string{held.String()}) {
		t.Errorf("stopped %v: %v", stopped, err)
	}
	m.Hold = nil
	if err := errors.Join(rundir.Resume(opened.Dir), through(t, m, nil)); err != nil {
		t.Error(err)
	}
}

// TestLateIsStopped: what an iteration was closed without is stopped, and is no failure.
func TestLateIsStopped(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Sealing(t, "schedule.iterations=1", "rollout.shards=4", "schedule.oversample=2", "schedule.late=drop")
	m.Slots = 4
	held := graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 3}
	m.Hold = func(task graph.Task) <-chan struct{} {
		if task == held {
			return make(chan struct{})
		}
		return nil
	}
	events := map[string][]string{}
	if err := through(t, m, func(p drive.Progress) { events[p.Event] = append(events[p.Event], p.Task.String()) }); err != nil {
		t.Fatal(err)
	}
	// The run may be done before it hears of what was stopped.
	if late := events["late"]; len(late) > 0 && !slices.Equal(late, []string{held.String()}) || len(events["retry"]) > 0 {
		t.Errorf("late are %v, tried again %v", events["late"], events["retry"])
	}
	closed, err := closing.Read(t.Context(), opened.Dir, 1, seal.Options{})
	if err != nil || !closed.IsLate(3) {
		t.Errorf("closed with %+v, %v", closed, err)
	}
}

// TestNoRoom: a node that writes more than there is room for is not started.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Sealing(t, "schedule.iterations=1")
	driver := &drive.Driver{Run: opened, Launcher: m, Needs: func(n graph.Node) int64 {
		return map[graph.Stage]int64{graph.StageRollout: 1 << 61, graph.StageWarm: 2}[n.Stage]
	}}
	// Of two shards each writes a half.
	if err := bounded(t, driver); exitcode.Code(err) != exitcode.IO || !strings.Contains(err.Error(), "rollout-000001 writes about 1.15e+12 MB") {
		t.Errorf("without room: %v", err)
	}
}

// TestOneCorePerTask: tasks never take more cores than there are.
func TestOneCorePerTask(t *testing.T) {
	t.Parallel()
	_, m := runtest.Sealing(t, "schedule.iterations=1", "rollout.shards=8", "warm_start.steps=10")
	m.Slots = 3
	most := 0
	if err := through(t, m, func(p drive.Progress) { most = max(most, p.Running) }); err != nil {
		t.Fatal(err)
	}
	if most != 3 {
		t.Errorf("up to %d tasks ran at once on 3 cores", most)
	}
}

// spare is a launcher whose tasks may be given idle cores, which it notes.
type spare struct {
	*runtest.Launcher
	given map[graph.Stage][]int
}

func (spare) Spare() bool { return true }

func (s spare) Launch(ctx context.Context, a executor.Array, done func(executor.Result)) error {
	s.given[graph.Stage(a.Stage)] = append(s.given[graph.Stage(a.Stage)], a.CPUs)
	return s.Launcher.Launch(ctx, a, done)
}

// TestEngineWaitsForBriefTasks: the warm start gets both cores, although the first plan is
// being made when it could begin.
func TestEngineWaitsForBriefTasks(t *testing.T) {
	t.Parallel()
	r, m := runtest.Sealing(t, "schedule.iterations=1", "rollout.shards=1")
	r.Recipe.Evaluation.Problems, r.Graph.Recipe.Evaluation.Problems = 0, 0 // tasks beside the learner
	given := map[graph.Stage][]int{}
	driver := &drive.Driver{Run: r, Launcher: spare{m, given}}
	if err := bounded(t, driver); err != nil {
		t.Fatal(err)
	}
	want := map[graph.Stage][]int{
		graph.StageBuffer: {1, 1}, graph.StageWarm: {2}, graph.StageRollout: {2}, graph.StageScore: {1}, graph.StageLearn: {2},
	}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Errorf("cores of the tasks of each stage (-want +got):\n%s", diff)
	}
}

// TestOneCoreEvaluatesInTime: on a single core a version is measured before the second
// iteration after it begins.
func TestOneCoreEvaluatesInTime(t *testing.T) {
	t.Parallel()
	const iterations = 4
	settings := []string{fmt.Sprintf("schedule.iterations=%d", iterations), "evaluation.every=1", "evaluation.problems=4", "warm_start.steps=2"}
	_, m := runtest.Sealing(t, settings...)
	m.Slots = 1
	var order []graph.Node
	if err := through(t, m, func(p drive.Progress) {
		if p.Event == "launched" {
			order = append(order, p.Task.Node)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for version := range iterations - 1 {
		measured := slices.Index(order, runtest.Node(graph.StageEvaluate, version))
		if later := slices.Index(order, runtest.Node(graph.StageRollout, version+2)); measured < 0 || later >= 0 && measured > later {
			t.Errorf("v%06d is measured by task %d, and iteration %d begins with task %d: %v", version, measured, version+2, later, order)
		}
		if next := slices.Index(order, runtest.Node(graph.StageLearn, version+1)); measured < next {
			t.Errorf("v%06d is measured by task %d, before iteration %d learns by task %d", version, measured, version+1, next)
		}
	}
}

func TestQuorumLeavesOut(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Sealing(t, "schedule.iterations=1", "rollout.shards=4", "schedule.quorum=0.5")
	m.Fail = func(task graph.Task, _ int) executor.Cause {
		if task.Stage == graph.StageRollout && task.Shard == 2 {
			return executor.CauseTimeout
		}
		return ""
	}
	err := through(t, m, nil)
	if exitcode.Code(err) != exitcode.LeftOut || !strings.Contains(err.Error(), "without 1 shard that") {
		t.Errorf("exit %d: %v", exitcode.Code(err), err)
	}
	if closed, err := closing.Read(t.Context(), opened.Dir, 1, seal.Options{}); err != nil || !closed.Lost(2) || len(closed.Included) != 3 {
		t.Errorf("closed with %+v, %v", closed, err)
	}
	// It is done: asking again says the same.
	if err := through(t, m, nil); exitcode.Code(err) != exitcode.LeftOut {
		t.Errorf("again: %v", err)
	}
}

// TestCloseAll: what can be closed is, and then nothing more.
func TestCloseAll(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=2")
	for _, n := range []graph.Node{runtest.Node(graph.StageBuffer, 0), runtest.Node(graph.StageWarm, 1), runtest.Node(graph.StageRollout, 1), runtest.Node(graph.StageScore, 1)} {
		b.Seal(n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		found, err := drive.CloseAll(ctx, b.Run(), b.Surveyor, seal.AttemptFromEnv(), "test")
		if err != nil || len(found.Closable) > 0 || len(found.Ready) != 1 || found.Ready[0].String() != "buffer-000001-00000" {
			t.Errorf("ready are %v: %v", found.Ready, err)
		}
	}
	if _, err := closing.Read(ctx, b.Dir, 1, seal.Options{}); err != nil {
		t.Error(err)
	}
	over, stop := context.WithCancel(ctx)
	stop()
	if _, err := drive.CloseAll(over, b.Run(), b.Surveyor, seal.AttemptFromEnv(), "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for it: %v", err)
	}
}

// TestClosesAfter: with the clock of the caller an iteration is closed once its seconds are
// over, which the driver waits for.
func TestClosesAfter(t *testing.T) {
	t.Parallel()
	r, m := runtest.Sealing(t, "schedule.iterations=1", "rollout.shards=4", "schedule.oversample=2", "schedule.late=drop", "schedule.close_after_seconds=500")
	m.Slots = 4
	began := time.Unix(1e6, 0)
	now := began
	var begun sync.WaitGroup // what has not begun is not stopped
	begun.Add(3)
	m.Hold = func(task graph.Task) <-chan struct{} {
		if task.Stage == graph.StageRollout && task.Shard > 0 {
			begun.Done()
			return make(chan struct{})
		}
		return nil
	}
	err := bounded(t, &drive.Driver{
		Run: r, Launcher: m, Clock: survey.Clock{Now: func() time.Time { return now }, Began: func(context.Context, int) (time.Time, error) { return began, nil }},
		Wake: func(due time.Time) <-chan time.Time {
			if due.IsZero() {
				return nil
			}
			now = due
			came := make(chan time.Time)
			go func() { begun.Wait(); close(came) }()
			return came
		},
	})
	closed, closedErr := closing.Read(t.Context(), r.Dir, 1, seal.Options{})
	if err := errors.Join(err, closedErr); err != nil || closed.IsLate(0) || !closed.IsLate(1) || !closed.IsLate(2) || !closed.IsLate(3) || now != began.Add(500*time.Second) {
		t.Errorf("closed with %+v at %v: %v", closed, now, err)
	}
}

// TestPrunesAsScheduled: versions that schedule.keep_every does not keep go while the run
// is driven.
func TestPrunesAsScheduled(t *testing.T) {
	t.Parallel()
	r, m := runtest.Sealing(t, "schedule.iterations=3", "schedule.keep_every=2")
	if err := bounded(t, &drive.Driver{Run: r, Launcher: m}); err != nil {
		t.Fatal(err)
	}
	for version, kept := range []bool{true, false, true, true} {
		if _, err := os.Stat(r.Dir.Policy(version)); (err == nil) != kept {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// TestGPUsAreShared: of tasks that need the one GPU of a machine one runs at a time, and all do.
func TestGPUsAreShared(t *testing.T) {
	t.Parallel()
	r, m := runtest.Sealing(t, "schedule.iterations=1", "rollout.shards=3", "resources.stages.rollout.gpus=1")
	m.Slots = 3
	running, most := map[graph.Task]bool{}, 0
	err := bounded(t, &drive.Driver{Run: r, Launcher: m, GPUs: oneGPU{}, Watch: func(p drive.Progress) {
		if p.Task.Stage != graph.StageRollout || p.Task.HeldOut() {
			return
		}
		if running[p.Task] = p.Event == "launched"; running[p.Task] {
			now := 0
			for _, is := range running {
				if is {
					now++
				}
			}
			most = max(most, now)
		}
	}})
	if err != nil || len(running) != 3 || most != 1 {
		t.Errorf("%d rollouts, up to %d at once: %v", len(running), most, err)
	}
}

type oneGPU struct{}

func (oneGPU) GPUs() int { return 1 }

func (oneGPU) CheckGPUs(string, int) error { return nil }
