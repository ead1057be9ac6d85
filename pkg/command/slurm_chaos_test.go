package command_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// On a real Slurm, lathe advance is killed at random instants, whether a
// person or a gate job runs it, and so are tasks. Advancing again, and pruning
// on the way, goes on to the bytes of a run without kills.
func TestSlurmChaos(t *testing.T) {
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--max-array-size", "101")
	chaos := commandtest.NewChaos(t, 30)
	settings := []string{"schedule.iterations=3", "schedule.staleness=1", "rollout.shards=3", "schedule.max_attempts=1000000"}
	reference := filepath.Join(t.TempDir(), "reference")
	lathe(t, exitcode.OK, runArgs(reference, smoke, settings...)...)
	want := essence(t, reference)

	began := time.Now()
	runs := 0
	for ; chaos.Done < chaos.Kills; runs++ {
		dir := filepath.Join(t.TempDir(), "run")
		args := append([]string{"--recipe", "jobs/smoke.yaml"}, commandtest.Set(append(settings, "schedule.keep_every=2")...)...)
		chaos.RunOn(c, dir, 12*time.Minute, args...)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
			t.Errorf("digests (-reference +after kills):\n%s", diff)
		}
		lathe(t, exitcode.OK, "run", "--run", dir) // finds it done, and sweeps
		clean(t, dir)
	}
	chaos.Log()
	t.Logf("%d kills in %d runs, %v", chaos.Done, runs, time.Since(began).Round(time.Second))
}
