package runtest

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Faults verifies a run, and lists the paths at which something is wrong.
func Faults(t *testing.T, r *rundir.Run) (verify.Verification, []string) {
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

// Verified checks that a run has no fault.
func Verified(t *testing.T, r *rundir.Run) verify.Verification {
	t.Helper()
	v, _ := Faults(t, r)
	for _, fault := range v.Faults {
		t.Errorf("%s: %s", fault.Path, fault.Problem)
	}
	return v
}

// Exact checks that a finished run has no fault and one disposition for every planned
// response.
func Exact(t *testing.T, r *rundir.Run) rundir.Ledger {
	t.Helper()
	l := Verified(t, r).Ledger
	dropped := 0
	for _, n := range l.Dropped {
		dropped += n
	}
	want := r.Recipe.Schedule.Iterations * r.Graph.PlanRows() * r.Recipe.Rollout.Group
	if l.Planned != want || l.Pending != 0 || l.Trained+dropped != want || l.Trained == 0 {
		t.Errorf("ledger %+v of %d planned responses is not exact, or nothing was trained on", l, want)
	}
	return l
}

// Repair verifies a run, repairs it and resumes it.
func Repair(t *testing.T, r *rundir.Run, m *Launcher) {
	t.Helper()
	v, paths := Faults(t, r)
	if len(paths) == 0 {
		t.Error("no fault is found")
	}
	if _, err := verify.Repair(r, v, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	if err := m.Drive(nil); err != nil && exitcode.Code(err) != exitcode.LeftOut {
		t.Fatal(err)
	}
	Exact(t, r)
}

// Digest is the content digest of a sealed file or folder.
func Digest(t *testing.T, path string) string {
	t.Helper()
	m, err := seal.Verify(t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m.ContentSHA256
}
