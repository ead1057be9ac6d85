package run_test

import (
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
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// repair verifies, repairs and goes on.
func repair(t *testing.T, r *rundir.Run, m *stageManager) {
	t.Helper()
	v, err := verify.Verify(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Faults) == 0 {
		t.Error("no fault is found")
	}
	if _, err := verify.Repair(r, v, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	if err := m.drive(nil); err != nil && exitcode.Code(err) != exitcode.LeftOut {
		t.Fatal(err)
	}
	exact(t, r)
}

// A close.json that is lost after its batch was made is written again as it
// was, although by now more shards are done than were then: of four shards
// of iteration 1 two were in time, one came late and one was given up.
func TestLostClosingIsRemembered(t *testing.T) {
	opened, m := stage(t, "schedule.oversample=2", "schedule.quorum=0.5", "rollout.prompts=4", "rollout.shards=4", "schedule.iterations=3", "seed=2")
	m.cores = 8
	late := graph.Task{Node: node(graph.StageRollout, 1), Shard: 1}
	release := make(chan struct{})
	m.fail = func(task graph.Task, _ int) executor.Cause {
		if task == (graph.Task{Node: node(graph.StageRollout, 1), Shard: 0}) {
			return executor.CauseTimeout
		}
		return ""
	}
	m.hold = func(task graph.Task) <-chan struct{} {
		switch {
		case task == late:
			return release
		case task.Stage == graph.StageScore && task.Iteration == 1 && task.Shard > 1:
			gaveUp := make(chan struct{})
			time.AfterFunc(300*time.Millisecond, func() { close(gaveUp) }) // shard 0 fails at once
			return gaveUp
		}
		return nil
	}
	launched := false
	err := m.drive(func(p drive.Progress) {
		if p.Event == "launched" && p.Task.Node == node(graph.StageRollout, 2) && !launched {
			launched = true
			close(release)
		}
	})
	if exitcode.Code(err) != exitcode.LeftOut {
		t.Fatalf("exit code %d: %v", exitcode.Code(err), err)
	}
	var was []closing.Closing
	for k := 1; k <= 3; k++ {
		closed, err := closing.Read(t.Context(), opened.Dir, k, seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		was = append(was, closed)
	}
	if !cmp.Equal(was[0].Late, []int{1}) || !cmp.Equal(was[0].LeftOut, []int{0}) || !cmp.Equal(was[0].Included, []int{2, 3}) {
		t.Fatalf("iteration 1 was closed with %+v", was[0])
	}
	policy := digest(t, opened.Dir.Policy(3))
	for k := 1; k <= 3; k++ {
		if err := seal.Remove(opened.Dir.Close(k)); err != nil {
			t.Fatal(err)
		}
	}
	// One of the three witnesses is enough.
	if err := errors.Join(seal.Remove(opened.Dir.Batch(1)), seal.Remove(opened.Dir.State(2))); err != nil {
		t.Fatal(err)
	}
	repair(t, opened, m)
	for k, want := range was {
		got, err := closing.Read(t.Context(), opened.Dir, k+1, seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("iteration %d (-was +now):\n%s", k+1, diff)
		}
	}
	if now := digest(t, opened.Dir.Policy(3)); now != policy {
		t.Errorf("policy %s, was %s", now, policy)
	}
}

// A late shard that a later iteration was closed with is missed like any other,
// and made again: plans may go on from what it holds.
func TestLostCarriedShard(t *testing.T) {
	opened, m := stage(t, "schedule.oversample=2", "rollout.prompts=4", "rollout.shards=4", "schedule.iterations=3")
	m.cores = 8
	release, launched := make(chan struct{}), false
	m.hold = func(task graph.Task) <-chan struct{} {
		if task == (graph.Task{Node: node(graph.StageRollout, 1), Shard: 1}) {
			return release
		}
		return nil
	}
	err := m.drive(func(p drive.Progress) {
		if p.Event == "launched" && p.Task.Node == node(graph.StageRollout, 2) && !launched {
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
	was := digest(t, path)
	if err := seal.Remove(path); err != nil {
		t.Fatal(err)
	}
	repair(t, opened, m)
	if now := digest(t, path); now != was {
		t.Errorf("rollout %s, was %s", now, was)
	}
}

// Several files of one chain are lost at once: each task waits until all that
// it reads is there again.
func TestManyLostFiles(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=2", "schedule.gradient_shards=2", "loss.kl.coef=0.05", "loss.kl.ref_every=1")
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	d := opened.Dir
	policy := digest(t, d.Policy(2))
	for _, path := range []string{
		d.Plan(1), d.Rollout(1, 0), d.Score(1, 0), d.Rollout(1, 1), d.Score(2, 1), d.Batch(1), d.Close(1), d.Ledger(2), d.Policy(1), d.Optimizer(1), d.Policy(0), d.Warm(1),
		d.Gradient(1, 0, 1), d.Policy(2),
	} {
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	repair(t, opened, m)
	if now := digest(t, d.Policy(2)); now != policy {
		t.Errorf("policy %s, was %s", now, policy)
	}
}

// Files that a run does not make are left alone by verify and repair.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=1")
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	notes := opened.Dir.Join("iter", "notes.json")
	if err := os.WriteFile(notes, []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	exact(t, opened)
	if err := os.Truncate(opened.Dir.State(1), 10); err != nil {
		t.Fatal(err)
	}
	repair(t, opened, m)
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}

// A killed task's temporary file goes when the next driver starts.
func TestDriverSweeps(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=1")
	writer, err := seal.Create(opened.Dir.Rollout(1, 0), seal.Attempt{JobID: seal.AttemptFromEnv().JobID, PID: 1 << 29})
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(opened.Dir.Rollout(1, 0)), ".*.tmp"))
	if err != nil || len(left) != 1 {
		t.Fatalf("%q, %v", left, err)
	}
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", left[0])
	}
	_ = writer.Abort() // its file is gone
}

// A folder with one half of a run's identity does not become a run of another
// recipe; with its own recipe it is made whole.
func TestHalfMadeRun(t *testing.T) {
	load := func(settings ...string) *recipe.Resolved {
		resolved, err := recipe.Load(smoke, settings)
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}
	for _, lost := range []string{"recipe.yaml", "run.json"} {
		opened, _ := stage(t)
		if err := seal.Remove(opened.Dir.Join(lost)); err != nil {
			t.Fatal(err)
		}
		_, err := rundir.Open(t.Context(), opened.Dir)
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(exitcode.Message("lathe", err), "lathe run RECIPE --run") {
			t.Errorf("without %s: exit code %d: %v", lost, exitcode.Code(err), err)
		}
		_, err = rundir.Create(t.Context(), opened.Dir, load("seed=3"), seal.AttemptFromEnv(), "test")
		if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "another recipe") {
			t.Errorf("another recipe without %s: exit code %d: %v", lost, exitcode.Code(err), err)
		}
		again, err := rundir.Create(t.Context(), opened.Dir, load(), seal.AttemptFromEnv(), "test")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(opened.Recipe, again.Recipe); diff != "" {
			t.Errorf("recipe (-was +now):\n%s", diff)
		}
	}
	// A sealed recipe that is not the one in run.json is refused.
	opened, _ := stage(t)
	if err := seal.Remove(opened.Dir.Recipe()); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.WriteBytes(opened.Dir.Recipe(), load("seed=3").YAML, seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Open(t.Context(), opened.Dir); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "not the recipe") {
		t.Errorf("a foreign recipe: exit code %d: %v", exitcode.Code(err), err)
	}
}

// contents reads the files of a folder, by name.
func contents(t *testing.T, dir graph.Dir) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(dir.Join(entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(text)
	}
	return files
}

// copyFiles copies files between the folders of runs.
func copyFiles(t *testing.T, from, to graph.Dir, names ...string) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(from.Join(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to.Join(name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A run whose making was killed between any two names that it gave is made by
// the same command.
func TestKilledWhileMade(t *testing.T) {
	opened, _ := stage(t)
	resolved, err := recipe.Load(smoke, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"recipe.yaml", "recipe.yaml.json", "tasks.parquet", "tasks.parquet.json", "run.json", "run.json.json"}
	for n := range len(names) + 1 {
		dir := graph.Dir(t.TempDir())
		copyFiles(t, opened.Dir, dir, names[:n]...)
		left := contents(t, dir)
		if _, err := rundir.Rehearse(t.Context(), dir, resolved); err != nil {
			t.Errorf("rehearsed after %q: %v", names[:n], err)
		}
		if diff := cmp.Diff(left, contents(t, dir)); diff != "" {
			t.Errorf("a rehearsal after %q changes files:\n%s", names[:n], diff)
		}
		made, err := rundir.Create(t.Context(), dir, resolved, seal.AttemptFromEnv(), "later")
		if err != nil {
			t.Errorf("after %q: %v", names[:n], err)
			continue
		}
		if kept := made.Identity.RunID == opened.Identity.RunID; kept != (n > 1) { // a manifest names it
			t.Errorf("after %q the run has the id that it had: %v", names[:n], kept)
		}
		if made.Identity.TasksSHA256 != opened.Identity.TasksSHA256 {
			t.Errorf("after %q the run has other tasks", names[:n])
		}
		if v, _ := faultsOf(t, made); len(v.Faults) > 0 {
			t.Errorf("after %q: faults %+v", names[:n], v.Faults)
		}
	}
}

// A new run does not take the place of files that are not of a run.
func TestForeignFilesAreNotReplaced(t *testing.T) {
	opened, _ := stage(t)
	resolved, err := recipe.Load(smoke, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, foreign, text string
		beside              []string // sealed files of a run that was being made
	}{
		{"a recipe", "recipe.yaml", "base: smoke.yaml\n", nil},
		{"a recipe that begins as ours", "recipe.yaml", string(resolved.YAML) + "# mine\n", nil},
		{"the beginning of ours", "recipe.yaml", string(resolved.YAML[:100]), nil},
		{"an empty recipe", "recipe.yaml", "", nil},
		{"a recipe beside a run.json", "recipe.yaml", "base: smoke.yaml\n", []string{"run.json", "run.json.json"}},
		{"a table", "tasks.parquet", "PAR1 PAR1", nil},
		{"a table beside a recipe", "tasks.parquet", "PAR1 PAR1", []string{"recipe.yaml", "recipe.yaml.json"}},
		{"a document", "run.json", `{"run": "mine"}`, nil},
		{"a document of another recipe", "run.json", `{"run_id": "x", "recipe_sha256": "00"}`, []string{"recipe.yaml", "recipe.yaml.json"}},
		{"no document", "run.json", "", nil},
	} {
		dir := graph.Dir(t.TempDir())
		copyFiles(t, opened.Dir, dir, c.beside...)
		if err := os.WriteFile(dir.Join(c.foreign), []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		before := contents(t, dir)
		_, created := rundir.Create(t.Context(), dir, resolved, seal.AttemptFromEnv(), "test")
		_, rehearsed := rundir.Rehearse(t.Context(), dir, resolved)
		for what, err := range map[string]error{"Create": created, "Rehearse": rehearsed} {
			if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), dir.Join(c.foreign)) || len(exitcode.Hints(err)) == 0 {
				t.Errorf("%s: %s: exit code %d: %v", c.name, what, exitcode.Code(err), err)
			}
		}
		if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
			t.Errorf("%s: files were touched:\n%s", c.name, diff)
		}
	}
	dir := graph.Dir(t.TempDir())
	if err := os.Mkdir(dir.Recipe(), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Rehearse(t.Context(), dir, resolved); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), dir.Recipe()) {
		t.Errorf("a folder: exit code %d: %v", exitcode.Code(err), err)
	}
}

// What a server sampled cannot be made again to the same bytes: what was
// learned from it is left as it is, and only what was not is sampled again.
func TestRepairOfSampledByAServer(t *testing.T) {
	opened, m := stage(t, "schedule.iterations=2")
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	remote := *opened
	remote.Recipe.Rollout.Remote = &recipe.Remote{}
	learned, evaluated := remote.Dir.Rel(remote.Dir.Rollout(1, 0)), remote.Dir.Rel(remote.Dir.Evaluation(0, 0))
	for _, path := range []string{learned, evaluated} {
		if err := os.Truncate(remote.Dir.Join(path), 10); err != nil {
			t.Fatal(err)
		}
	}
	v, paths := faultsOf(t, &remote)
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
	if err := m.drive(nil); err != nil {
		t.Errorf("the run does not go on without what it has learned from: %v", err)
	}
	if _, paths := faultsOf(t, &remote); !slices.Equal(paths, []string{learned}) {
		t.Errorf("faults of %q are left", paths)
	}

	// Of an iteration that nothing was learned from, the scores go too.
	opened, m = stage(t, "schedule.iterations=1", "evaluation.shards=1")
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	policy := digest(t, opened.Dir.Policy(1))
	for _, path := range slices.Concat(
		opened.Graph.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1}}),
		opened.Graph.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageBuffer, Iteration: 1}}),
		[]string{opened.Dir.Metrics(1), opened.Dir.Rollout(1, 0), opened.Dir.Evaluation(0, 0), opened.Dir.Evaluation(1, 0)},
		[]string{opened.Dir.Sampled(node(graph.StageEvalRollout, 1), 0), opened.Dir.Sampled(node(graph.StageEvalScore, 1), 0)},
	) {
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(opened.Dir.Sampled(node(graph.StageEvalRollout, 0), 0), 10); err != nil {
		t.Fatal(err)
	}
	remote = *opened
	remote.Recipe.Rollout.Remote = &recipe.Remote{}
	v, paths = faultsOf(t, &remote)
	sampled := node(graph.StageEvalRollout, 0)
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
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	exact(t, opened)
	if got := digest(t, opened.Dir.Policy(1)); got != policy {
		t.Errorf("policy %s, was %s", got, policy)
	}
}
