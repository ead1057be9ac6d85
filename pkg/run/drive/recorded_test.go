package drive

import (
	"errors"
	"os"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// A task's own record says more than its exit code; that of another end does not count.
func TestRecorded(t *testing.T) {
	t.Parallel()
	d := &Driver{Run: &rundir.Run{Dir: graph.Dir(t.TempDir())}}
	task := graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1}}
	ended := executor.Result{Exit: exitcode.Unavailable, Cause: executor.CauseUnavailable, Evidence: "exit code 69"}
	if r := d.recorded(task, 0, ended); r != ended {
		t.Errorf("without a record: %+v", r)
	}
	rundir.WriteExitRecord(d.Run.Dir, task, 0, 0, rundir.ExitRecord{Code: exitcode.Unavailable, Message: "opening: too little memory", Device: true})
	if r := d.recorded(task, 0, ended); r.Cause != executor.CauseDevice || r.Evidence != "opening: too little memory" || Classify(r.Cause) != Counted {
		t.Errorf("with a record: %+v", r)
	}
	for what, other := range map[string]executor.Result{
		"killed":          {Exit: -1, Signal: "SIGKILL", Cause: executor.CauseFailed, Evidence: "killed"},
		"killed later":    {Exit: exitcode.Unavailable, Signal: "SIGKILL", Cause: executor.CauseFailed, Evidence: "killed"},
		"another code":    {Exit: exitcode.Data, Cause: executor.CauseData, Evidence: "exit code 65"},
		"of another task": {Exit: exitcode.Unavailable, Cause: executor.CauseUnavailable, Evidence: "exit code 69"},
	} {
		of := task
		if what == "of another task" {
			of.Shard = 1
		}
		if r := d.recorded(of, 0, other); r != other {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// TestNextAttempt: an attempt is numbered by the logs of those before it; nobody counts for
// ever where logs cannot be looked at, as in a folder that is a file or a link to itself.
func TestNextAttempt(t *testing.T) {
	t.Parallel()
	task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}}
	for name, c := range map[string]struct {
		prepare func(d graph.Dir) error
		want    int
	}{
		"no folder": {func(graph.Dir) error { return nil }, 0},
		"two logs": {func(d graph.Dir) error {
			return errors.Join(plainfile.Write(d.Log(task, 0), nil), plainfile.Write(d.Log(task, 1), nil))
		}, 2},
		"a file": {func(d graph.Dir) error { return plainfile.Write(d.Logs(), nil) }, 0},
		"a loop": {func(d graph.Dir) error { return os.Symlink(d.Logs(), d.Logs()) }, 0},
	} {
		d := graph.Dir(t.TempDir())
		if err := c.prepare(d); err != nil {
			t.Fatal(err)
		}
		if got := nextAttempt(d, task); got != c.want {
			t.Errorf("%s: attempt %d is next, want %d", name, got, c.want)
		}
	}
}
