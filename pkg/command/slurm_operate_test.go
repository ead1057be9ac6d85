package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
)

// slow is the setup of a site on which rollouts of an iteration take minutes,
// unless a file says that they need not.
const slow = `memory_flag: false
partition: high
setup:
  - 'case "$SLURM_JOB_NAME" in *-rollout-000001) while [ ! -e GO ]; do sleep 0.2; done ;; esac; true'
`

// TestSlurmOperate is what operators do to a run while it lives, on a cluster with
// accounting and on one without.
func TestSlurmOperate(t *testing.T) {
	bin := commandtest.Build(t)
	for _, kind := range []struct {
		name    string
		options []string
	}{
		{"accounting", []string{"--accounting"}},
		{"no accounting", nil},
	} {
		t.Run(kind.name, func(t *testing.T) {
			if kind.options != nil {
				if _, err := exec.LookPath("slurmdbd"); err != nil {
					t.Skip("slurmdbd is missing: apt-get install slurmdbd mariadb-server")
				}
			}
			c := commandtest.StartCluster(t, bin, append(kind.options, "--nodes", "2")...)
			t.Run("cancel and pause", func(t *testing.T) { cancelAndPause(t, c.In(t)) })
		})
	}
}

// cancelAndPause cancels a run and a stage of it, and pauses it: nothing is left in
// the queue, nothing comes back, and each time the same command goes on, to the
// bytes of a run that nobody touched.
func cancelAndPause(t *testing.T, c *commandtest.Cluster) {
	settings := commandtest.Set("schedule.iterations=1", "rollout.shards=3", "warm_start.steps=10")
	want := c.Reference("jobs/smoke.yaml", settings...)
	open, site := filepath.Join(t.TempDir(), "go"), filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(site, []byte(strings.ReplaceAll(slow, "GO", open)), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	begin := func() { c.Submit("jobs/smoke.yaml", dir, append(settings, "--site", site)...) }
	rollouts := func(state string) int {
		return strings.Count(c.Must("squeue", "-h", "-r", "-t", state, "-o", "%j"), "rollout-000001")
	}
	running := func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); rollouts("running") < 3; time.Sleep(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("three rollouts never ran:\n%s", c.Must("squeue", "-t", "all"))
			}
		}
	}
	// held checks that the run is held and that it has nothing in the queue.
	held := func(word string) {
		t.Helper()
		emptyQueue(t, c)
		var status struct{ State, Paused string }
		out := c.Must(filepath.Join(c.Bin, "lathe"), "status", "--json", dir)
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			t.Fatal(err)
		}
		if status.State != "pending" || !strings.Contains(status.Paused, word+" by ") {
			t.Errorf("the run is %s, %q; want pending, %s", status.State, status.Paused, word)
		}
	}

	begin()
	running()
	out := c.Must(filepath.Join(c.Bin, "lathe"), "cancel", dir)
	if !strings.HasPrefix(out, "taken out of the queue: ") || strings.Contains(out, ", 0 job arrays") {
		t.Errorf("it says:\n%s", out)
	}
	held("cancelled")

	begin()
	running()
	c.Must(filepath.Join(c.Bin, "lathe"), "cancel", dir, "--stage", "rollout", "--iteration", "1", "--now")
	held("cancelled")

	begin()
	running()
	c.Must(filepath.Join(c.Bin, "lathe"), "cancel", dir, "--stage", "evaluate")
	if n := rollouts("running"); n != 3 {
		t.Errorf("the evaluation was cancelled, and %d of 3 rollouts run", n)
	}
	c.Must(filepath.Join(c.Bin, "lathe"), "pause", dir)
	if n := rollouts("running"); n != 3 {
		t.Errorf("the run was paused, and %d of 3 rollouts run", n)
	}
	if waiting := strings.TrimSpace(c.Must("squeue", "-h", "-t", "pending")); waiting != "" {
		t.Errorf("the run was paused, and there waits:\n%s", waiting)
	}
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	held("paused")
	done, err := filepath.Glob(filepath.Join(dir, "iter", "000001", "rollout", "*.parquet"))
	if err != nil || len(done) != 3 {
		t.Errorf("%d of 3 rollouts came to their end, %v", len(done), err)
	}

	begin()
	c.Await(dir, "done", 3*time.Minute, nil)
	if got := c.PolicySHA256(dir); got != want {
		t.Errorf("policy %s, where nobody cancelled %s", got, want)
	}
}
