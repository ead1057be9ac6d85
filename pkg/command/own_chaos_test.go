package command_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestOwnChaos: whoever is killed while a program of the user's has episodes and gives
// verdicts, the programs too, nothing changes.
func TestOwnChaos(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	const own = "../../jobs/own-environment.yaml"
	warm := filepath.Join(t.TempDir(), "warm")
	lathe(t, exitcode.OK, runArgs(warm, own, "schedule.iterations=1", "rollout.prompts=1", "rollout.shards=1", "warm_start.steps=20", "warm_start.chunk=20", "evaluation.problems=2")...)
	settings := append(from(filepath.Join(warm, "policy", "v000000")), "schedule.iterations=3", "rollout.prompts=6", "evaluation.problems=8", "schedule.max_attempts=1000000", "env.program.retries=100")
	c := commandtest.NewChaos(t, 4)
	c.Programs = true
	reference, began := filepath.Join(t.TempDir(), "reference"), time.Now()
	lathe(t, exitcode.OK, runArgs(reference, own, settings...)...)
	c.Whole = time.Since(began)
	commandtest.Clean(t, reference)
	want := commandtest.Essence(t, reference)
	for c.Done < c.Kills {
		dir := filepath.Join(t.TempDir(), "run")
		c.Run(min(25, c.Kills-c.Done), runArgs(dir, own, settings...)...)
		c.Report(dir)
		commandtest.Clean(t, dir)
		if diff := cmp.Diff(want, commandtest.Essence(t, dir)); diff != "" {
			t.Errorf("digests (-without kills +with):\n%s", diff)
		}
	}
	c.Log()
}
