package run_test

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A rollout that plans of later iterations go on from is missed when it is
// gone, and made again before anything goes on from it.
func TestLostHistory(t *testing.T) {
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

// whole are the settings of a run that these tests share.
var whole = []string{"schedule.iterations=2", "schedule.gradient_shards=2", "loss.kl.coef=0.05", "loss.kl.ref_every=1"}

// A late shard that a later iteration was closed with is missed like any other,
// and made again: plans may go on from what it holds.
func TestLostCarriedShard(t *testing.T) {
	opened, m := runtest.Stage(t, "schedule.oversample=2", "rollout.prompts=4", "rollout.shards=4", "schedule.iterations=3")
	m.Slots = 8
	release, launched := make(chan struct{}), false
	m.Hold = func(task graph.Task) <-chan struct{} {
		if task == (graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 1}) {
			return release
		}
		return nil
	}
	err := m.Drive(func(p drive.Progress) {
		if p.Event == "launched" && p.Task.Node == runtest.Node(graph.StageRollout, 2) && !launched {
			launched = true
			close(release)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	history, err := closing.ReadHistory(t.Context(), opened.Dir, 3, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	carried := closing.Ref{Iteration: 1, Shard: 1}
	if !slices.Contains(slices.Concat(history[2].Carried, history[3].Carried), carried) {
		t.Fatalf("iterations 2 and 3 were closed with %+v and %+v, want shard 1 of iteration 1 in one of them", history[2], history[3])
	}
	path := opened.Dir.Rollout(1, 1)
	was := runtest.Digest(t, path)
	if err := seal.Remove(path); err != nil {
		t.Fatal(err)
	}
	runtest.Repair(t, opened, m)
	if now := runtest.Digest(t, path); now != was {
		t.Errorf("rollout %s, was %s", now, was)
	}
}

// Several files of one chain are lost at once: each task waits until all that
// it reads is there again.
func TestManyLostFiles(t *testing.T) {
	opened := runtest.Finished(t, whole...)
	d := opened.Dir
	policy := runtest.Digest(t, d.Policy(2))
	for _, path := range []string{
		d.Plan(1), d.Rollout(1, 0), d.Score(1, 0), d.Rollout(1, 1), d.Score(2, 1), d.Batch(1), d.Close(1), d.Ledger(2), d.Policy(1), d.Optimizer(1), d.Policy(0), d.Warm(1),
		d.Gradient(1, 0, 1), d.Policy(2),
	} {
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	runtest.Repair(t, opened, runtest.LauncherOf(t, opened))
	if now := runtest.Digest(t, d.Policy(2)); now != policy {
		t.Errorf("policy %s, was %s", now, policy)
	}
}
