package command

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The wait for another run's warm start ends where that goes no further, and where the
// sweep is ended; a run that then finds none makes its own.
func TestAwaitWarmStart(t *testing.T) {
	t.Parallel()
	made := func(name string) *rundir.Run {
		t.Helper()
		resolved, err := recipe.Load("../../jobs/smoke.yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), name)), resolved, seal.AttemptFromEnv(), "test")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	run := made("second")
	failed, underWay := begunRun{made("failed"), make(chan struct{})}, begunRun{made("first"), make(chan struct{})}
	close(failed.ended)
	local := SweepOptions{LaunchOptions: LaunchOptions{Executor: "local"}}
	if err := local.shareWarmStart(t.Context(), run, []begunRun{failed}); err != nil {
		t.Errorf("beside a run that has failed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := local.shareWarmStart(ctx, run, []begunRun{failed, underWay}); !errors.Is(err, context.Canceled) {
		t.Errorf("in a sweep that is ended: %v", err)
	}
	if _, sealed, err := seal.Check(t.Context(), run.Dir.Policy(0), run.Graph.Reading(0)); sealed || err != nil {
		t.Errorf("a warm start that nobody has made: %v, %v", sealed, err)
	}
}
