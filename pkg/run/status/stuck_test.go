package status_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/logs"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestStuck: what keeps a run from going on is its state unless tasks are under way, comes
// first among its logs, and is forgotten when somebody has gone on with it.
func TestStuck(t *testing.T) {
	opened, _ := runtest.Sealing(t)
	refused := exitcode.WithHint(exitcode.Usagef("submitting score-000001: sbatch failed: Invalid qos specification"), "see sinfo")
	attempt := seal.Attempt{JobID: "77", Host: "n3"}
	t.Setenv("SLURM_JOB_ID", "77")
	task := graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 1}
	read := func(seen *advance.Seen) status.Status {
		t.Helper()
		s, err := status.Read(t.Context(), opened, seen, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	entries := func() []logs.Entry {
		t.Helper()
		all, err := logs.Collect(t.Context(), opened, nil, false, logs.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	advance.NoteEnd(t.Context(), opened.Dir, nil, attempt, refused)
	const words = "controller job 77 could not submit what is ready: submitting score-000001: sbatch failed: Invalid qos specification (see sinfo)"
	for _, seen := range []*advance.Seen{nil, {Gates: 1}} {
		if s := read(seen); s.State != status.StateStuck || !strings.HasPrefix(s.Evidence, words) || !strings.Contains(s.Evidence, "lathe advance ") {
			t.Errorf("with %+v: %s, %s", seen, s.State, s.Evidence)
		}
	}
	if s := read(&advance.Seen{Running: map[graph.Task]string{task: "job 7_1: RUNNING"}}); s.State != status.StateRunning || !strings.HasSuffix(s.Evidence, words) {
		t.Errorf("with a task: %s, %s", s.State, s.Evidence)
	}
	if all := entries(); len(all) == 0 || all[0].Task != "gate-000000-00000" || all[0].State != logs.Failed || all[0].Evidence != words || all[0].Node != "n3" || all[0].Job != "77" {
		t.Errorf("logs: %+v", all)
	}

	for name, ended := range map[string]error{"gone on": nil, "a full queue": slurm.ErrQueueFull} {
		advance.NoteEnd(t.Context(), opened.Dir, nil, attempt, refused)
		advance.NoteEnd(t.Context(), opened.Dir, nil, attempt, ended)
		if s := read(nil); s.State != status.StatePending {
			t.Errorf("after %s: %s, %s", name, s.State, s.Evidence)
		}
		if all := entries(); len(all) != 0 {
			t.Errorf("logs after %s: %+v", name, all)
		}
	}
	advance.NoteEnd(t.Context(), opened.Dir, nil, attempt, refused)
	advance.NoteEnd(t.Context(), opened.Dir, nil, attempt, exitcode.Stoppedf("a signal"))
	if s := read(nil); s.State != status.StateStuck {
		t.Errorf("after a stop: %s", s.State)
	}
	advance.NoteEnd(t.Context(), opened.Dir, nil, attempt, nil)
	if s := read(&advance.Seen{Fallen: "controller job 8 ended: FAILED"}); s.State != status.StateStuck || !strings.Contains(s.Evidence, "--stage gate") {
		t.Errorf("a controller job that fell: %s, %s", s.State, s.Evidence)
	}
	if !advance.IsStuck(errors.New("sbatch is gone")) || advance.IsStuck(nil) {
		t.Error("IsStuck")
	}
}
