package run_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/verify"
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

// Files that a run does not make are left alone by verify and repair.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	opened := runtest.Finished(t, whole...)
	notes := opened.Dir.Join("iter", "notes.json")
	if err := os.WriteFile(notes, []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	runtest.Exact(t, opened)
	if err := os.Truncate(opened.Dir.State(1), 10); err != nil {
		t.Fatal(err)
	}
	runtest.Repair(t, opened, runtest.LauncherOf(t, opened))
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}

// What a server sampled cannot be made again to the same bytes: what was
// learned from it is left as it is, and only what was not is sampled again.
func TestRepairOfSampledByAServer(t *testing.T) {
	opened := runtest.Finished(t, whole...)
	m := runtest.LauncherOf(t, opened)
	remote := *opened
	remote.Recipe.Rollout.Remote = &recipe.Remote{}
	learned, evaluated := remote.Dir.Rel(remote.Dir.Rollout(1, 0)), remote.Dir.Rel(remote.Dir.Evaluation(0, 0))
	for _, path := range []string{learned, evaluated} {
		if err := os.Truncate(remote.Dir.Join(path), 10); err != nil {
			t.Fatal(err)
		}
	}
	v, paths := runtest.Faults(t, &remote)
	if !slices.Equal(paths, []string{evaluated, learned}) {
		t.Fatalf("faults %+v", v.Faults)
	}
	if !strings.Contains(v.Faults[0].Mend, "makes it again, to the same bytes") || !strings.Contains(v.Faults[1].Mend, "from a copy") {
		t.Errorf("mends: %q, %q", v.Faults[0].Mend, v.Faults[1].Mend)
	}
	removed, err := verify.Repair(&remote, v, seal.AttemptFromEnv())
	if exitcode.Code(err) != exitcode.Data || !slices.Equal(removed, []string{evaluated}) {
		t.Errorf("removed %q; exit code %d: %v", removed, exitcode.Code(err), err)
	}
	if err := m.Drive(nil); err != nil {
		t.Errorf("the run does not go on without what it has learned from: %v", err)
	}
	if _, paths := runtest.Faults(t, &remote); !slices.Equal(paths, []string{learned}) {
		t.Errorf("faults of %q are left", paths)
	}

	// Of an iteration that nothing was learned from, the scores go too.
	opened = runtest.Finished(t, "schedule.iterations=1", "evaluation.shards=1")
	m = runtest.LauncherOf(t, opened)
	policy := runtest.Digest(t, opened.Dir.Policy(1))
	for _, path := range slices.Concat(
		opened.Graph.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1}}),
		opened.Graph.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageBuffer, Iteration: 1}}),
		[]string{opened.Dir.Metrics(1), opened.Dir.Rollout(1, 0), opened.Dir.Evaluation(0, 0), opened.Dir.Evaluation(1, 0)},
		[]string{opened.Dir.Sampled(runtest.Node(graph.StageEvalRollout, 1), 0), opened.Dir.Sampled(runtest.Node(graph.StageEvalScore, 1), 0)},
	) {
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(opened.Dir.Sampled(runtest.Node(graph.StageEvalRollout, 0), 0), 10); err != nil {
		t.Fatal(err)
	}
	remote = *opened
	remote.Recipe.Rollout.Remote = &recipe.Remote{}
	v, paths = runtest.Faults(t, &remote)
	sampled := runtest.Node(graph.StageEvalRollout, 0)
	want := []string{
		remote.Dir.Sampled(sampled, 0), remote.Dir.Sampled(sampled.Judging(), 0), remote.Dir.Rollout(1, 0), remote.Dir.Score(1, 0),
	}
	for i, path := range want {
		want[i] = remote.Dir.Rel(path)
	}
	if slices.Sort(want); !slices.Equal(paths, want) || !strings.Contains(v.Faults[0].Mend, "sample it again") {
		t.Fatalf("faults %+v", v.Faults)
	}
	if _, err := verify.Repair(&remote, v, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	if err := m.Drive(nil); err != nil {
		t.Fatal(err)
	}
	runtest.Exact(t, opened)
	if got := runtest.Digest(t, opened.Dir.Policy(1)); got != policy {
		t.Errorf("policy %s, was %s", got, policy)
	}
}
