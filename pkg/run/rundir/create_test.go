package rundir_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A folder with one half of a run's identity does not become a run of another
// recipe; with its own recipe it is made whole.
func TestHalfMadeRun(t *testing.T) {
	t.Parallel()
	load := func(settings ...string) *recipe.Resolved {
		resolved, err := recipe.Load(runtest.Smoke(), settings)
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}
	for _, lost := range []string{"recipe.yaml", "run.json"} {
		opened, _ := runtest.Stage(t)
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
	opened, _ := runtest.Stage(t)
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
	t.Parallel()
	opened, _ := runtest.Stage(t)
	resolved, err := recipe.Load(runtest.Smoke(), nil)
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
		// A run.json that is there says by whom the run was made.
		if first := made.Identity.BinaryVersion == "test" && made.Identity.Created.Equal(opened.Identity.Created); first != (n > 4) {
			t.Errorf("after %q the run was made by version %s", names[:n], made.Identity.BinaryVersion)
		}
		if made.Identity.TasksSHA256 != opened.Identity.TasksSHA256 {
			t.Errorf("after %q the run has other tasks", names[:n])
		}
		if v, _ := runtest.Faults(t, made); len(v.Faults) > 0 {
			t.Errorf("after %q: faults %+v", names[:n], v.Faults)
		}
	}
}

// A run that has its tasks alone is still the one that they are of, if its recipe is theirs.
func TestTasksAloneNameTheRun(t *testing.T) {
	t.Parallel()
	opened, _ := runtest.Stage(t)
	for seed, same := range map[string]bool{"1": true, "2": false} {
		dir := graph.Dir(t.TempDir())
		copyFiles(t, opened.Dir, dir, "tasks.parquet", "tasks.parquet.json")
		made, err := rundir.Create(t.Context(), dir, runtest.Load(t, "seed="+seed), seal.AttemptFromEnv(), "test")
		if err != nil || (made.Identity.RunID == opened.Identity.RunID) != same {
			t.Errorf("seed %s: run %+v, was %s: %v", seed, made, opened.Identity.RunID, err)
		}
	}
}

// A new run does not take the place of files that are not of a run.
func TestForeignFilesAreNotReplaced(t *testing.T) {
	t.Parallel()
	opened, _ := runtest.Stage(t)
	resolved, err := recipe.Load(runtest.Smoke(), nil)
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
