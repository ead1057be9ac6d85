package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	ensure "github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestOwnChaos: whoever is killed while a program of the user's has episodes and gives
// scores, the programs too, nothing changes. With LATHE_CHAOS a reward of one's own,
// tools and updates that are applied in parts have their kills as well, as many each.
func TestOwnChaos(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	own := []string{"env.program.retries=100"}
	recipes := []struct {
		name     string
		programs bool   // that tasks start, to be killed as well
		during   string // stage whose tasks are to be hit in particular
		settings []string
	}{
		{"own-environment", true, "", own},
		{"own-reward", true, "", own},
		{"tooluse-smoke", false, "", nil},
		{"smoke", false, "apply", []string{"schedule.apply_shards=3", "schedule.gradient_shards=2", "loss.mini_batches=3"}},
	}
	if os.Getenv("LATHE_CHAOS") == "" {
		recipes = recipes[:1]
	}
	for _, c := range recipes {
		t.Run(c.name, func(t *testing.T) { ownChaos(t, repository+"/jobs/"+c.name+".yaml", c.programs, c.during, c.settings) })
	}
}

func ownChaos(t *testing.T, recipe string, programs bool, during string, settings []string) {
	warm := filepath.Join(t.TempDir(), "warm")
	lathe(t, exitcode.OK, runArgs(warm, recipe, "schedule.iterations=1", "rollout.prompts=1", "rollout.shards=1", "warm_start.steps=20", "warm_start.chunk=20", "evaluation.problems=2")...)
	start := t.TempDir()
	ensure.Do(t, checkpoint.Convert(filepath.Join(warm, "policy", "v000000"), start, "", 20000)) // in several files
	settings = slices.Concat(from(start), settings, []string{"schedule.iterations=3", "rollout.prompts=6", "evaluation.problems=8", "schedule.max_attempts=1000000"})
	c := commandtest.NewChaos(t, 4)
	c.Programs, c.During = programs, during
	reference, began := filepath.Join(t.TempDir(), "reference"), time.Now()
	lathe(t, exitcode.OK, runArgs(reference, recipe, settings...)...)
	c.Whole = time.Since(began)
	commandtest.Clean(t, reference)
	want := commandtest.Essence(t, reference)
	for c.Done < c.Kills {
		dir := filepath.Join(t.TempDir(), "run")
		c.Run(min(25, c.Kills-c.Done), runArgs(dir, recipe, settings...)...)
		c.Report(dir)
		commandtest.Clean(t, dir)
		if diff := cmp.Diff(want, commandtest.Essence(t, dir)); diff != "" {
			t.Errorf("digests (-without kills +with):\n%s", diff)
		}
	}
	c.Log()
	t.Logf("%d kills, %v", c.Done, time.Since(began).Round(time.Second))
}
