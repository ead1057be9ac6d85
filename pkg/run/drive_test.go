package run_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
)

var (
	smoke = runtest.Smoke()
	node  = runtest.Node
)

// inProcess runs tasks in this process: the files are those of a
// process per task, without the time to start it.
type inProcess struct {
	t   *testing.T
	run *rundir.Run
	log func(format string, args ...any) // of the tasks; nil for the test's
}

func (inProcess) Cores() int   { return 2 }
func (inProcess) Close() error { return nil }

func (p inProcess) Launch(ctx context.Context, a executor.Array, done func(executor.Result)) error {
	log := p.log
	if log == nil {
		log = p.t.Logf
	}
	w := worker.New(p.run, seal.AttemptFromEnv(), "test", log)
	w.Threads = 1
	task := graph.Task{Node: graph.Node{Stage: graph.Stage(a.Stage), Iteration: a.Iteration, Step: a.Step}, Shard: a.Shards[0]}
	go func() {
		err := w.Do(ctx, task)
		r := executor.Result{Shard: task.Shard, Exit: exitcode.Code(err), Cause: executor.CauseOfExit(exitcode.Code(err))}
		if err != nil {
			r.Evidence = err.Error()
		}
		done(r)
	}()
	return nil
}

// finish makes a run of a recipe and drives it to its end.
func finish(t *testing.T, path string, settings ...string) *rundir.Run {
	t.Helper()
	resolved, err := recipe.Load(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	driver := &drive.Driver{Run: opened, Launcher: inProcess{t: t, run: opened}, Attempt: seal.AttemptFromEnv(), Version: "test"}
	started := time.Now()
	if err := driver.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("run took %v", time.Since(started))
	return opened
}

func TestSmokeRun(t *testing.T) {
	opened := finish(t, smoke)
	result, err := verify.Verify(t.Context(), opened)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range result.Faults {
		t.Errorf("%s: %s", fault.Path, fault.Problem)
	}
	t.Logf("%+v", result.Ledger)
}

// The warm start stops on its recent loss, wherever its checkpoints are.
func TestWarmStartStopsOnLoss(t *testing.T) {
	settings := []string{"schedule.iterations=1", "warm_start.stop_loss=1.5"}
	var digests []string
	for _, chunk := range []string{"300", "7"} {
		opened := finish(t, smoke, append(settings, "warm_start.chunk="+chunk)...)
		m, err := seal.Read(t.Context(), opened.Dir.Policy(0), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if steps := m.Metrics["recent_loss_steps"]; steps < 5 || steps >= 300 {
			t.Errorf("with checkpoints every %s steps the warm start took %g steps, want it to stop before the last of 300", chunk, steps)
		}
		digests = append(digests, m.SHA256)
	}
	if digests[0] != digests[1] {
		t.Errorf("the policy depends on the checkpoints: %v", digests)
	}
}
