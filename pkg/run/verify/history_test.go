package verify_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A rollout that plans of later iterations go on from is missed when it is
// gone, and made again before anything goes on from it.
func TestLostHistory(t *testing.T) {
	t.Parallel()
	opened := runtest.Finished(t, runtest.Iterating...)
	m := runtest.LauncherOf(t, opened)
	d := opened.Dir
	plan := runtest.Digest(t, d.Plan(4))
	lost := []string{d.Rollout(1, 0), d.Rollout(1, 1), d.Rollout(1, 2)}
	for _, path := range append([]string{d.State(3), d.Plan(4), d.State(4)}, lost...) {
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	_, missed := runtest.Faults(t, opened)
	want := []string{"iter/000001/rollout/00000.parquet", "iter/000001/rollout/00001.parquet", "iter/000001/rollout/00002.parquet", "iter/000003/state.parquet", "iter/000004/plan.parquet", "iter/000004/state.parquet"}
	if diff := cmp.Diff(want, missed); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}

	// Going on with the run alone does not look behind what is done.
	if err := m.Drive(nil); exitcode.Code(err) == 0 {
		t.Error("a plan was made without what it goes on from")
	}
	m.ForgetAttempts()
	m.Slots = 8
	m.Hold = func(task graph.Task) <-chan struct{} {
		for _, path := range lost {
			if _, err := os.Stat(path); err != nil && task.Node == runtest.Node(graph.StageBuffer, 3) {
				t.Errorf("the plan does not wait: %v", err)
			}
		}
		return nil
	}
	runtest.Repair(t, opened, m)
	if now := runtest.Digest(t, d.Plan(4)); now != plan {
		t.Errorf("plan %s, was %s", now, plan)
	}
	if n := m.Attempts(graph.Task{Node: runtest.Node(graph.StageBuffer, 3)}); n != 1 {
		t.Errorf("the plan was tried %d times, want once, when its history was there", n)
	}
}
