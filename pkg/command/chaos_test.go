package command_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// kindsOfRuns are one as the reference, one with gradient shards, and one that
// oversamples.
const kindsOfRuns = 3

// Processes of a run are killed with SIGKILL at random instants: the driver
// alone, the driver and all its tasks, one task, or whoever writes the
// report. The same command then goes on, to the same bytes, with an exact
// ledger, and nothing is left behind.
func TestChaos(t *testing.T) {
	c := commandtest.NewChaos(t, 12)
	settings := slices.Concat(thorough, []string{"loss.epochs=1", "rollout.shards=4", "schedule.max_attempts=1000000"})
	reference := filepath.Join(t.TempDir(), "reference")
	began := time.Now()
	lathe(t, exitcode.OK, runArgs(reference, smoke, settings...)...)
	c.Whole = time.Since(began)
	t.Logf("a run without kills takes %v", c.Whole.Round(10*time.Millisecond))
	clean(t, reference)
	want := essence(t, reference)

	runs := 0
	for ; c.Done < c.Kills; runs++ {
		dir := filepath.Join(t.TempDir(), "run")
		// They prune as they go, and the reference does not. Of three runs the
		// second computes its gradients in shards, and the third oversamples: then
		// the bytes depend on what was done first, and the ledger must still be
		// exact.
		own := slices.Concat(settings, []string{"schedule.keep_every=2"})
		if runs%kindsOfRuns == 1 {
			own = slices.Concat(own, []string{"schedule.gradient_shards=2"})
		}
		oversampled := runs%kindsOfRuns == 2
		if oversampled {
			own = slices.Concat(own, []string{"schedule.oversample=1.5"})
		}
		c.Run((c.Kills+kindsOfRuns-1)/kindsOfRuns, runArgs(dir, smoke, own...)...)
		c.Report(dir)
		clean(t, dir)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" && !oversampled {
			t.Errorf("digests (-reference +after kills):\n%s", diff)
		}
	}
	c.Log()
	t.Logf("%d kills in %d runs, %d resumes, %v", c.Done, runs, c.Resumes, time.Since(began).Round(time.Second))
}
