package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// onFiles is a run of one iteration on problems from files, and the file to
// train on.
func onFiles(t *testing.T) (*rundir.Run, *stageManager, string) {
	t.Helper()
	data, other := filepath.Join(t.TempDir(), "train.jsonl"), filepath.Join(t.TempDir(), "test.jsonl")
	for path, question := range map[string]string{data: "1+%d", other: "2+%d"} {
		var text strings.Builder
		for i := range 20 {
			fmt.Fprintf(&text, `{"question": "`+question+`", "answer": "7"}`+"\n", i)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	opened, m := stage(t, "schedule.iterations=1", "data.train.generate=null", "data.test.generate=null",
		"data.train.files=["+data+"]", "data.test.files=["+other+"]", "select=[]")
	return opened, m, data
}

// faultsOf verifies a run.
func faultsOf(t *testing.T, r *rundir.Run) (verify.Verification, []string) {
	t.Helper()
	v, err := verify.Verify(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range v.Faults {
		paths = append(paths, f.Path)
	}
	return v, paths
}

// Once a run is made it needs its data files no more, nor to stay where it is.
func TestDataFilesMayGo(t *testing.T) {
	opened, m, data := onFiles(t)
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	exact(t, opened)
	for _, stage := range []graph.Stage{graph.StageRollout, graph.StageScore, graph.StageBuffer, graph.StageLearn, graph.StageEvaluate} {
		cited := false
		made, err := seal.Read(t.Context(), opened.Graph.Outputs(graph.Task{Node: graph.Node{Stage: stage, Iteration: 1}})[0], seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, input := range made.Inputs {
			cited = cited || input.Path == "tasks.parquet" && input.ContentSHA256 == opened.Identity.TasksSHA256
		}
		if want := stage != graph.StageLearn; cited != want {
			t.Errorf("%s cites the tasks: %v, want %v", stage, cited, want)
		}
	}
	there := graph.Dir(filepath.Join(t.TempDir(), "elsewhere"))
	if err := os.Rename(string(opened.Dir), string(there)); err != nil {
		t.Fatal(err)
	}
	moved, err := rundir.Open(t.Context(), there)
	if err != nil {
		t.Fatal(err)
	}
	exact(t, moved)
	var tasks []graph.Task
	for _, n := range moved.Graph.Nodes() {
		tasks = append(tasks, graph.Task{Node: n})
	}
	results, err := worker.Replay(t.Context(), worker.New(moved, seal.AttemptFromEnv(), "test", t.Logf), tasks)
	if err != nil || len(results) < len(tasks) {
		t.Fatalf("%d results of %d tasks: %v", len(results), len(tasks), err)
	}
	for _, r := range results {
		if !r.Same {
			t.Errorf("%s is replayed to other bytes", r.Path)
		}
	}
}

// Tasks that are lost are made again from the data files, if those are what
// they were.
func TestLostTasks(t *testing.T) {
	opened, m, data := onFiles(t)
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	for name, lose := range map[string]func() error{
		"both":     func() error { return seal.Remove(opened.Dir.Tasks()) },
		"manifest": func() error { return os.Remove(seal.ManifestPath(opened.Dir.Tasks())) },
		"file":     func() error { return os.Remove(opened.Dir.Tasks()) },
		"a part":   func() error { return os.Truncate(opened.Dir.Tasks(), 10) },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		v, paths := faultsOf(t, opened)
		if strings.Join(paths, " ") != "tasks.parquet" {
			t.Errorf("%s lost: faults %+v", name, v.Faults)
		}
		if _, _, err := opened.Environment(t.Context(), nil, seal.Options{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "tasks.parquet") || len(exitcode.Hints(err)) == 0 {
			t.Errorf("%s lost: exit code %d: %v", name, exitcode.Code(err), err)
		}
		if _, err := verify.Repair(opened, v, seal.AttemptFromEnv()); err != nil {
			t.Errorf("%s lost: %v", name, err)
		}
		if err := m.drive(nil); err != nil {
			t.Fatal(err)
		}
		exact(t, opened)
	}

	if err := os.Truncate(data, 40); err != nil { // to one whole problem
		t.Fatal(err)
	}
	exact(t, opened)
	if err := seal.Remove(opened.Dir.Tasks()); err != nil {
		t.Fatal(err)
	}
	v, paths := faultsOf(t, opened)
	if strings.Join(paths, " ") != data+" tasks.parquet" || !strings.Contains(v.Faults[0].Mend, "put the file back") {
		t.Errorf("tasks lost and data changed: faults %+v", v.Faults)
	}
	removed, err := verify.Repair(opened, v, seal.AttemptFromEnv())
	if exitcode.Code(err) != exitcode.Data || len(removed) != 0 {
		t.Errorf("repair removed %q; exit code %d: %v", removed, exitcode.Code(err), err)
	}
	if err := m.drive(nil); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), data) || !strings.Contains(err.Error(), "tasks.parquet") {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
}

// Other tasks in the place of the run's own are a fault, and are never used.
func TestOtherTasks(t *testing.T) {
	opened, m, _ := onFiles(t)
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	rows, _, err := shard.Read[shard.TaskRow](t.Context(), opened.Dir.Tasks(), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows[0].Answer = "8"
	if err := seal.Remove(opened.Dir.Tasks()); err != nil {
		t.Fatal(err)
	}
	if _, err := shard.Write(opened.Dir.Tasks(), rows, nil, seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened.Environment(t.Context(), nil, seal.Options{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "not the tasks that the run was made with") {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
	v, paths := faultsOf(t, opened)
	if !strings.Contains(strings.Join(paths, " "), "tasks.parquet") {
		t.Errorf("faults %+v", v.Faults)
	}
	if err := seal.Remove(opened.Dir.Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := m.drive(nil); err != nil {
		t.Fatal(err)
	}
	exact(t, opened)
}

// What a killed command left of other data files is not taken for the tasks of
// the run that is made then.
func TestTasksOfAKilledCommand(t *testing.T) {
	opened, _, data := onFiles(t)
	resolved, err := recipe.Load(opened.Dir.Recipe(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(data, 70); err != nil { // to two whole problems
		t.Fatal(err)
	}
	if err := seal.Remove(opened.Dir.Identity()); err != nil {
		t.Fatal(err)
	}
	again, err := rundir.Create(t.Context(), opened.Dir, resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	environment, _, err := again.Environment(t.Context(), nil, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(environment.Set().Tasks(env.Train)); n != 2 || again.Identity.TasksSHA256 == opened.Identity.TasksSHA256 {
		t.Errorf("the run has %d tasks to train on, of digest %s", n, again.Identity.TasksSHA256)
	}
}

// A run of another format is refused in one sentence that names the binaries
// which read it, whatever is asked of it.
func TestRunOfAnotherFormat(t *testing.T) {
	opened, _, _ := onFiles(t)
	old := opened.Identity
	old.FormatVersion, old.BinaryVersion = rundir.FormatVersion-1, "0.9.3"
	if err := seal.Remove(opened.Dir.Identity()); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.WriteJSON(opened.Dir.Identity(), old, seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	_, err := rundir.Open(t.Context(), opened.Dir)
	want := "has format version 1 and is read by the binaries of version 0.9.3 that made it; this binary reads version 2"
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want) {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
	for what, open := range map[string]func() error{
		"going on": func() error {
			_, err := rundir.Create(t.Context(), opened.Dir, runtest.Load(t), seal.AttemptFromEnv(), "test")
			return err
		},
		"rehearsing": func() error { _, err := rundir.Rehearse(t.Context(), opened.Dir, runtest.Load(t)); return err },
	} {
		if err := open(); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: exit code %d: %v", what, exitcode.Code(err), err)
		}
	}
}
