package run_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

// stageManager is a launcher on which a test holds tasks back or lets them fail.
type stageManager struct {
	inProcess
	cores int
	// fail returns how an attempt at a task ends without being made; the zero
	// cause lets it run.
	fail func(task graph.Task, attempt int) executor.Cause
	// hold returns a channel to wait for before a task runs; nil for none.
	hold func(task graph.Task) <-chan struct{}

	mu       sync.Mutex
	attempts map[graph.Task]int
}

func (m *stageManager) Cores() int { return m.cores }

func (m *stageManager) Launch(ctx context.Context, a executor.Array, done func(executor.Result)) error {
	task := graph.Task{Node: graph.Node{Stage: graph.Stage(a.Stage), Iteration: a.Iteration, Step: a.Step}, Shard: a.Shards[0]}
	m.mu.Lock()
	attempt := m.attempts[task]
	m.attempts[task]++
	m.mu.Unlock()
	log := a.Log(task.Shard)
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o777), os.WriteFile(log, nil, 0o666)); err != nil {
		return err
	}
	if m.fail != nil {
		if cause := m.fail(task, attempt); cause != "" {
			go done(executor.Result{Shard: task.Shard, Exit: 1, Cause: cause, Evidence: "for the test: " + string(cause), Log: log})
			return nil
		}
	}
	if m.hold != nil {
		if wait := m.hold(task); wait != nil {
			go func() {
				select {
				case <-wait:
					if err := m.inProcess.Launch(ctx, a, done); err != nil {
						m.t.Error(err)
					}
				case <-ctx.Done():
					done(executor.Result{Shard: task.Shard, Exit: -1, Cause: executor.CauseStopped, Evidence: "held back to the end", Log: log})
				}
			}()
			return nil
		}
	}
	return m.inProcess.Launch(ctx, a, done)
}

// stage makes a run and the launcher that drives it.
func stage(t *testing.T, settings ...string) (*rundir.Run, *stageManager) {
	t.Helper()
	resolved, err := recipe.Load(smoke, settings)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return opened, &stageManager{inProcess: inProcess{t: t, run: opened}, cores: 2, attempts: map[graph.Task]int{}}
}

func (m *stageManager) drive(watch func(drive.Progress)) error {
	driver := &drive.Driver{Run: m.run, Launcher: m, Attempt: seal.AttemptFromEnv(), Version: "test", Watch: watch}
	return driver.Drive(m.t.Context())
}

// exact checks that a finished run has no fault and one disposition for every
// planned response.
func exact(t *testing.T, r *rundir.Run) rundir.Ledger {
	t.Helper()
	v, err := verify.Verify(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range v.Faults {
		t.Errorf("%s: %s", fault.Path, fault.Problem)
	}
	l := v.Ledger
	dropped := 0
	for _, n := range l.Dropped {
		dropped += n
	}
	want := r.Recipe.Schedule.Iterations * r.Graph.PlanRows() * r.Recipe.Rollout.Group
	if l.Planned != want || l.Pending != 0 || l.Trained+dropped != want || l.Trained == 0 {
		t.Errorf("ledger %+v of %d planned responses is not exact, or nothing was trained on", l, want)
	}
	return l
}

func digest(t *testing.T, path string) string {
	t.Helper()
	m, err := seal.Verify(t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m.ContentSHA256
}

func TestStalenessIsDeterministic(t *testing.T) {
	var first string
	for i, settings := range [][]string{
		{"rollout.shards=1"},
		{"rollout.shards=1", "schedule.gradient_shards=2"},
		{"rollout.shards=3", "evaluation.shards=1"},
	} {
		opened, m := stage(t, append(settings, "schedule.staleness=1", "schedule.iterations=4")...)
		m.cores = 1 + i // with more cores, iterations overlap
		if err := m.drive(nil); err != nil {
			t.Fatal(err)
		}
		exact(t, opened)
		sum := digest(t, opened.Dir.Policy(4))
		if first == "" {
			first = sum
		}
		if sum != first {
			t.Errorf("%v on %d cores: policy %s, want %s", settings, m.cores, sum, first)
		}
		for k, want := range map[int]int{1: 0, 2: 0, 3: 1, 4: 2} {
			manifest, err := seal.Read(t.Context(), opened.Dir.Rollout(k, 0), seal.Options{})
			if err != nil || manifest.PolicyVersion != want {
				t.Errorf("rollout %d was sampled by version %d, want %d (%v)", k, manifest.PolicyVersion, want, err)
			}
		}
		// The learner knows how old its data is: iteration 3 learns from
		// version 2 with data of version 1.
		manifest, err := seal.Read(t.Context(), opened.Dir.Policy(2), seal.Options{})
		if err != nil || manifest.Metrics["first_step_ratio_deviation_max"] == 0 {
			t.Errorf("iteration 2 learns off policy, and its ratios are all 1: %v (%v)", manifest.Metrics, err)
		}
	}
}

// TestNoIterations: supervised learning alone is a run that makes a policy and measures it.
func TestNoIterations(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=0", "warm_start.steps=2")
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	v, err := verify.Verify(t.Context(), opened)
	if err != nil || len(v.Faults) > 0 || v.Ledger.Planned != 0 {
		t.Errorf("faults %v, ledger %+v, %v", v.Faults, v.Ledger, err)
	}
	for _, path := range []string{opened.Dir.Policy(0), opened.Dir.Evaluation(0, 0)} {
		if _, err := seal.Verify(t.Context(), path, seal.Options{}); err != nil {
			t.Error(err)
		}
	}
}

// TestSyncEvery: rollouts take every other version, whatever is pruned meanwhile, and the
// learner says how old its data is.
func TestSyncEvery(t *testing.T) {
	var first string
	for _, settings := range [][]string{{"rollout.shards=1"}, {"rollout.shards=3", "schedule.keep_every=5"}} {
		opened, m := stage(t, append(settings, "schedule.sync_every=2", "schedule.iterations=5", "select=[]")...)
		if err := m.drive(nil); err != nil {
			t.Fatal(err)
		}
		exact(t, opened)
		for k, want := range map[int]int{1: 0, 2: 0, 3: 2, 4: 2, 5: 4} {
			rollouts, err := seal.Read(t.Context(), opened.Dir.Rollout(k, 0), seal.Options{})
			if err != nil || rollouts.PolicyVersion != want {
				t.Errorf("rollout %d was sampled by version %d, want %d (%v)", k, rollouts.PolicyVersion, want, err)
			}
		}
		last, err := seal.Read(t.Context(), opened.Dir.Policy(5), seal.Options{})
		if err != nil || last.Metrics["age_mean"] != 0 {
			t.Errorf("iteration 5 learns from data of age %v, want 0 (%v)", last.Metrics["age_mean"], err)
		}
		sum := digest(t, opened.Dir.Policy(5))
		if first == "" {
			first = sum
			learned, err := seal.Read(t.Context(), opened.Dir.Policy(4), seal.Options{})
			if err != nil || learned.Metrics["age_mean"] != 1 || learned.Metrics["first_step_ratio_deviation_max"] == 0 {
				t.Errorf("iteration 4 learns from version 2: %v (%v)", learned.Metrics, err)
			}
		}
		if sum != first {
			t.Errorf("%v: policy %s, want %s", settings, sum, first)
		}
	}
}

// TestBatchSegments: two iterations fill a batch, and the fifth is remaining; however
// the work is cut, killed tasks are done again, and batches are replayed.
func TestBatchSegments(t *testing.T) {
	var first string
	for _, settings := range [][]string{
		{"rollout.shards=1"},
		{"rollout.shards=3", "schedule.gradient_shards=2", "schedule.keep_every=2"},
	} {
		opened, m := stage(t, append(settings, "schedule.batch_segments=40", "schedule.iterations=5", "select=[]", "scaffold.name=chain", "scaffold.steps=2",
			"score.embedding=none", "factors=[]", "evaluation.steps=0")...)
		m.fail = func(task graph.Task, attempt int) executor.Cause {
			if task.Stage == graph.StageBuffer && attempt == 0 {
				return executor.CausePreempted
			}
			return ""
		}
		if err := m.drive(nil); err != nil {
			t.Fatal(err)
		}
		if ledger := exact(t, opened); ledger.Trained != 4*8*4 || ledger.Dropped["batch_not_full"] != 8*4 || ledger.Waiting != 0 {
			t.Errorf("ledger %+v: want four iterations trained on, and one left over", ledger)
		}
		sameAsBatches(t, opened)
		was := ""
		for k := range 6 {
			m, err := seal.Record(t.Context(), opened.Dir.Policy(k))
			if err != nil {
				t.Fatal(err)
			}
			if learned := k == 0 || k == 2 || k == 4; learned != (m.ContentSHA256 != was) {
				t.Errorf("iteration %d: the policy went from %s to %s", k, was, m.ContentSHA256)
			}
			was = m.ContentSHA256
		}
		learned, err := seal.Read(t.Context(), opened.Dir.Batch(2), seal.Options{})
		if err != nil || learned.Metrics["trained"] != 2*8*4 {
			t.Errorf("batch 2: %v (%v)", learned.Metrics, err)
		}
		if first == "" {
			first = was
		}
		if was != first {
			t.Errorf("%v: policy %s, want %s", settings, was, first)
		}
		w := worker.New(opened, seal.AttemptFromEnv(), "test", t.Logf)
		replayed, err := worker.Replay(t.Context(), w, []graph.Task{{Node: node(graph.StageBuffer, 1)}, {Node: node(graph.StageBuffer, 2)}, {Node: node(graph.StageBuffer, 5)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replayed {
			if !r.Same {
				t.Errorf("replayed, %s is %s, was %s", r.Path, r.Now, r.Sealed)
			}
		}
	}
}

// TestOversampleCarries holds one shard of iteration 1 back until iteration 2
// samples: iteration 1 closes without it, and iteration 2 trains on it.
func TestOversampleCarries(t *testing.T) {
	var first string
	for range 2 {
		opened, m := stage(t, "schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3", "schedule.iterations=3")
		m.cores = 8
		held := graph.Task{Node: node(graph.StageRollout, 1), Shard: 1}
		release, after := make(chan struct{}), make(chan struct{})
		m.hold = func(task graph.Task) <-chan struct{} {
			switch {
			case task == held:
				return release
			case task.Iteration == 2 && task.Stage == graph.StageScore:
				return after // so that the carried shard is done before iteration 2 closes
			case task == graph.Task{Node: node(graph.StageRollout, 2)}, task == graph.Task{Node: node(graph.StageRollout, 3), Shard: 2}:
				return make(chan struct{}) // late for good
			}
			return nil
		}
		var once, twice sync.Once
		err := m.drive(func(p drive.Progress) {
			if p.Event == "launched" && p.Task.Node == node(graph.StageRollout, 2) {
				once.Do(func() { close(release) })
			}
			if p.Event == "done" && p.Task == (graph.Task{Node: node(graph.StageScore, 1), Shard: 1}) {
				twice.Do(func() { close(after) })
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		closed, err := closing.Read(t.Context(), opened.Dir, 1, seal.Options{})
		if err != nil || !cmp.Equal(closed.Late, []int{1}) || !cmp.Equal(closed.Included, []int{0, 2}) {
			t.Errorf("iteration 1 was closed with %+v (%v)", closed, err)
		}
		closed, err = closing.Read(t.Context(), opened.Dir, 2, seal.Options{})
		if err != nil || !cmp.Equal(closed.Carried, []closing.Ref{{Iteration: 1, Shard: 1}}) {
			t.Errorf("iteration 2 was closed with %+v (%v)", closed, err)
		}
		ledger := exact(t, opened)
		if ledger.Dropped["run_ended"] == 0 {
			t.Errorf("a shard was late for good, and the ledger does not say so: %+v", ledger)
		}
		carried, age := 0, 0
		rows, _, err := shard.Read[shard.LedgerRow](t.Context(), opened.Dir.Ledger(2), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.IterationSampled == 1 {
				carried++
			}
		}
		if carried != 4*4 {
			t.Errorf("%d responses of the late shard have their fate in iteration 2, want 16", carried)
		}
		batch, _, err := arrowfile.ReadBatch(t.Context(), opened.Dir.Batch(2), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range batch {
			if s.IterationSampled == 1 {
				age++
			}
		}
		manifest, err := seal.Read(t.Context(), opened.Dir.Policy(2), seal.Options{})
		if err != nil || manifest.Metrics["age_mean"] != float64(age)/float64(len(batch)) {
			t.Errorf("mean age %v, want %d of %d sequences (%v)", manifest.Metrics["age_mean"], age, len(batch), err)
		}
		sum := digest(t, opened.Dir.Policy(2))
		if first == "" {
			first = sum
		}
		if sum != first {
			t.Errorf("the same shards were late, and the policy is %s, was %s", sum, first)
		}
	}
}

func TestTaskThatFailsOnceIsTriedAgain(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=1")
	m.fail = func(task graph.Task, attempt int) executor.Cause {
		switch {
		case task.Stage == graph.StageRollout && task.Shard == 1 && attempt < 2:
			return executor.CauseFailed
		case task.Stage == graph.StageLearn && attempt < 20:
			return executor.CausePreempted // never counts
		}
		return ""
	}
	events := map[string]int{}
	if err := m.drive(func(p drive.Progress) { events[p.Event]++ }); err != nil {
		t.Fatal(err)
	}
	if events["retry"] != 22 || events["failed"] != 0 {
		t.Errorf("events %v, want 22 retries", events)
	}
	exact(t, opened)
}

func TestTaskThatFailsThriceFailsTheRun(t *testing.T) {
	_, m := stage(t, "schedule.iterations=1")
	tries := 0
	m.fail = func(task graph.Task, _ int) executor.Cause {
		if task.Stage == graph.StageScore && task.Shard == 0 {
			tries++
			return executor.CauseFailed
		}
		return ""
	}
	err := m.drive(nil)
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
	m.fail = nil
	if err := m.drive(nil); err != nil {
		t.Errorf("after the cause was mended: %v", err)
	}
}

// TestHopelessTaskIsNotRepeated: damaged input fails the same way each time,
// and the run ends with the task's own exit code and message.
func TestHopelessTaskIsNotRepeated(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=1")
	tries := 0
	m.fail = func(task graph.Task, attempt int) executor.Cause {
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
	err := m.drive(nil)
	if tries != 1 || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "buffer-000001-00000 failed: score 7 is damaged") {
		t.Errorf("%d attempts, exit %d: %v", tries, exitcode.Code(err), err)
	}
	if hints := exitcode.Hints(err); len(hints) != 2 || hints[1] != "make it again" {
		t.Errorf("hints %q", hints)
	}
}

func TestQuorumLeavesOut(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=1", "rollout.shards=4", "schedule.quorum=0.5")
	m.fail = func(task graph.Task, _ int) executor.Cause {
		if task.Stage == graph.StageRollout && task.Shard == 2 {
			return executor.CauseTimeout
		}
		return ""
	}
	err := m.drive(nil)
	if exitcode.Code(err) != exitcode.LeftOut || !strings.Contains(err.Error(), "without 1 shards") {
		t.Errorf("exit %d: %v", exitcode.Code(err), err)
	}
	if ledger := exact(t, opened); ledger.Dropped["left_out"] != 2*4 {
		t.Errorf("ledger %+v: want 2 instances of 4 responses left out", ledger)
	}
	// It is done: asking again says the same.
	if err := m.drive(nil); exitcode.Code(err) != exitcode.LeftOut {
		t.Errorf("again: %v", err)
	}
}

// TestDriveStops: a cancelled driver waits for its tasks and leaves; a second
// one goes on to the same bytes.
func TestDriveStops(t *testing.T) {
	whole, m := stage(t)
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	opened, m := stage(t)
	for _, event := range []graph.Node{node(graph.StageWarm, 2), node(graph.StageScore, 1), node(graph.StageLearn, 1)} {
		ctx, cancel := context.WithCancel(t.Context())
		driver := &drive.Driver{Run: opened, Launcher: m, Attempt: seal.AttemptFromEnv(), Version: "test", Watch: func(p drive.Progress) {
			if p.Task.Node == event && p.Event == "launched" {
				cancel()
			}
		}}
		if err := driver.Drive(ctx); exitcode.Code(err) != exitcode.Stopped {
			t.Fatalf("stopped at %s: %v", event, err)
		}
	}
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	exact(t, opened)
	if got, want := digest(t, opened.Dir.Policy(2)), digest(t, whole.Dir.Policy(2)); got != want {
		t.Errorf("stopped three times: policy %s, want %s", got, want)
	}
}

// TestOneCorePerTask: tasks never take more cores than there are.
func TestOneCorePerTask(t *testing.T) {
	_, m := stage(t, "schedule.iterations=1", "rollout.shards=8", "warm_start.steps=10")
	m.cores = 3
	most := 0
	if err := m.drive(func(p drive.Progress) { most = max(most, p.Running) }); err != nil {
		t.Fatal(err)
	}
	if most != 3 {
		t.Errorf("up to %d tasks ran at once on 3 cores", most)
	}
}
