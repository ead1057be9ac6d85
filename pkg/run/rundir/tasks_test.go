package rundir_test

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// What a killed command left of other data files is not taken for the tasks of
// the run that is made then.
func TestTasksOfAKilledCommand(t *testing.T) {
	t.Parallel()
	opened, data := runtest.OnFiles(t)
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
	t.Parallel()
	opened, _ := runtest.OnFiles(t)
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

// Tasks that are lost are made again from the data files, if those are what they
// were; other tasks in their place are never used.
func TestLostTasks(t *testing.T) {
	t.Parallel()
	opened, data := runtest.OnFiles(t)
	whole := runtest.Digest(t, opened.Dir.Tasks())
	rows, _, err := shard.Read[shard.TaskRow](t.Context(), opened.Dir.Tasks(), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows[0].Answer = "8"
	restore := func() error { return opened.RestoreTasks(t.Context(), seal.AttemptFromEnv(), "test") }
	for name, c := range map[string]struct {
		lose func() error
		want string
	}{
		"both":     {func() error { return seal.Remove(opened.Dir.Tasks()) }, "not sealed"},
		"manifest": {func() error { return os.Remove(seal.ManifestPath(opened.Dir.Tasks())) }, "not sealed"},
		"file":     {func() error { return os.Remove(opened.Dir.Tasks()) }, "tasks.parquet is missing"},
		"a part":   {func() error { return os.Truncate(opened.Dir.Tasks(), 10) }, "tasks.parquet"},
		"replaced": {func() error {
			if err := seal.Remove(opened.Dir.Tasks()); err != nil {
				return err
			}
			_, err := shard.Write(opened.Dir.Tasks(), rows, nil, seal.AttemptFromEnv(), seal.Manifest{})
			return err
		}, "not the tasks that the run was made with"},
	} {
		if err := c.lose(); err != nil {
			t.Fatal(err)
		}
		_, _, err := opened.Environment(t.Context(), nil, seal.Options{})
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.want) || len(exitcode.Hints(err)) == 0 {
			t.Errorf("%s lost: exit code %d: %v", name, exitcode.Code(err), err)
		}
		if name == "replaced" { // whoever put them there removes them
			if err := errors.Join(restore(), seal.Remove(opened.Dir.Tasks())); err != nil {
				t.Fatal(err)
			}
		}
		if err := restore(); err != nil {
			t.Errorf("%s lost: %v", name, err)
		}
		environment, cited, err := opened.Environment(t.Context(), nil, seal.Options{})
		if err != nil || len(cited) != 1 || cited[0] != (seal.Input{Path: "tasks.parquet", ContentSHA256: whole}) || len(environment.Set().Tasks(env.Train)) != 20 {
			t.Errorf("%s lost, made again: cited %+v, %v", name, cited, err)
		}
	}

	first := rows[0].TaskID
	if environment, _, err := opened.Environment(t.Context(), map[string]bool{first: true}, seal.Options{}); err != nil || len(environment.Set().Rows()) != 1 || environment.Set().Rows()[0].TaskID != first {
		t.Errorf("the task %s alone: %v", first, err)
	}
	// Tasks that are not those of the run are not left behind.
	other := *opened
	other.Identity.TasksSHA256 = "00"
	err = seal.Remove(opened.Dir.Tasks())
	if err == nil {
		err = other.RestoreTasks(t.Context(), seal.AttemptFromEnv(), "test")
	}
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "comes to other tasks: content sha256 "+whole) {
		t.Errorf("made from other tasks: %v", err)
	}
	if _, err := os.Stat(opened.Dir.Tasks()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("they are left: %v", err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(data)
	if err := errors.Join(err, seal.Remove(opened.Dir.Tasks()), os.WriteFile(data, bytes.Replace(content, []byte("7"), []byte("8"), 1), 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := restore(); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "has changed since run "+strconv.Quote(opened.Identity.RunID)+" was made") {
		t.Errorf("from a file that has changed: %v", err)
	}
	if err := errors.Join(os.WriteFile(data, content, 0o666), restore()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(data, 40); err != nil { // to one whole problem
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Errorf("the tasks are there, and the data files are asked for: %v", err)
	}
	if err := seal.Remove(opened.Dir.Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := restore(); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), data) || !strings.Contains(err.Error(), "tasks.parquet") {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
	if _, err := os.Stat(opened.Dir.Tasks()); err == nil {
		t.Error("tasks were made from other data")
	}
}
