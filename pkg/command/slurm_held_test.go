package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/internal/await"
)

// prolog is what a node runs before a job: for the second part of the warm start
// it fails once in each run. Slurm drains the node, puts the task back into the
// queue and holds it there.
const prolog = `#!/bin/bash
case "$SLURM_JOB_STDOUT" in
*/logs/warm-000002-*) ! mkdir "${SLURM_JOB_STDOUT%/logs/*}.held" 2>/dev/null ;;
esac
`

// On patient, all other controller jobs have gone by when the warm start's second part begins.
const patient = `memory_flag: false
partition: high
watchdog_seconds: 15
setup:
  - 'case "$SLURM_JOB_NAME" in *-warm-000001) sleep 8 ;; esac; true'
`

// TestSlurmHeld: Slurm holds a task whose start failed in the queue for ever,
// and the controller job behind it. The watchdog cancels it, and the run goes on; where
// the task has no attempts left, it fails. Neither leaves a job in the queue.
func TestSlurmHeld(t *testing.T) {
	t.Parallel()
	script, site := filepath.Join(t.TempDir(), "prolog"), filepath.Join(t.TempDir(), "patient.yaml")
	for path, content := range map[string]string{script: prolog, site: patient} {
		if err := os.WriteFile(path, []byte(content), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--set", "Prolog="+script)
	settings := commandtest.Set("schedule.iterations=1", "warm_start.steps=20", "warm_start.chunk=10")
	want := c.Reference("jobs/smoke.yaml", settings...)

	t.Run("the run goes on", func(t *testing.T) {
		c := c.In(t)
		dir := filepath.Join(t.TempDir(), "run")
		c.Submit("jobs/smoke.yaml", dir, append(settings, "--site", site)...)
		c.Await(dir, nil)
		if got := c.PolicySHA256(dir); got != want {
			t.Errorf("policy %s, where every start goes well %s", got, want)
		}
		wasHeld(t, c, dir)
		emptyQueue(t, c)
	})
	t.Run("the run fails", func(t *testing.T) {
		c := c.In(t)
		dir := filepath.Join(t.TempDir(), "run")
		c.Submit("jobs/smoke.yaml", dir, append(commandtest.Set("schedule.max_attempts=1"), append(settings, "--site", site)...)...)
		var status struct{ State, Evidence string }
		await.Until(t, "the run is failed", func() bool {
			if out, err := c.Command(filepath.Join(c.Bin, "lathe"), "status", "--json", dir); err == nil {
				if err := json.Unmarshal([]byte(out), &status); err != nil {
					t.Fatal(err)
				}
			}
			return status.State == "failed"
		})
		if !strings.Contains(status.Evidence, "launch failed requeued held") {
			t.Errorf("the evidence is %q", status.Evidence)
		}
		wasHeld(t, c, dir)
		emptyQueue(t, c)
	})
}

// slowRollout is the setup of a site on which one rollout takes ten minutes, and no
// controller job looks after a task that does not end.
const slowRollout = `memory_flag: false
partition: high
watchdog_seconds: 0
setup:
  - 'case "$SLURM_JOB_NAME:${SLURM_ARRAY_TASK_ID:-}" in *-rollout-000001:0) sleep 600 ;; esac; true'
`

// TestSlurmCloseAfter: an iteration is closed when its time is over although one of
// its tasks goes on, by a controller job that was set for then. Dropped, that task is
// cancelled.
func TestSlurmCloseAfter(t *testing.T) {
	t.Parallel()
	site := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(site, []byte(slowRollout), 0o666); err != nil {
		t.Fatal(err)
	}
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3")
	dir := filepath.Join(t.TempDir(), "run")
	settings := commandtest.Set("schedule.iterations=2", "schedule.close_after_seconds=8", "schedule.late=drop")
	c.Submit("jobs/smoke.yaml", dir, append(settings, "--site", site)...)
	c.Await(dir, nil)
	out, err := c.Command(filepath.Join(c.Bin, "lathe"), "verify", "--json", dir)
	if err != nil {
		t.Fatal(err)
	}
	var verified struct {
		Faults []any
		Ledger struct{ Dropped map[string]int }
	}
	if err := json.Unmarshal([]byte(out), &verified); err != nil {
		t.Fatal(err)
	}
	if late := verified.Ledger.Dropped["late"]; late != 4*4 || len(verified.Faults) > 0 {
		t.Errorf("%d responses are late, want 16; faults %v", late, verified.Faults)
	}
	if ended := c.Must("squeue", "-h", "-t", "cancelled", "-o", "%j"); !strings.Contains(ended, "rollout-000001") {
		t.Errorf("the task that was late was not cancelled:\n%s", ended)
	}
	emptyQueue(t, c)
}

// wasHeld checks that what the test is about has happened, and makes the node
// usable again.
func wasHeld(t *testing.T, c *commandtest.Cluster, dir string) {
	t.Helper()
	if _, err := os.Stat(dir + ".held"); err != nil {
		t.Errorf("no start failed: %v", err)
	}
	if ended := c.Must("squeue", "-h", "-t", "cancelled", "-o", "%j %r"); !strings.Contains(ended, "warm-000002 launch failed requeued held") {
		t.Errorf("no task that Slurm held was cancelled:\n%s", ended)
	}
	drained := strings.Fields(c.Must("sinfo", "-h", "-N", "-p", "high", "-t", "drain", "-o", "%N"))
	c.Must("scontrol", "update", "nodename="+strings.Join(drained, ","), "state=resume")
}

// emptyQueue waits until nothing is left in the queue, now that a run is over. A controller
// job that was to look again would be there for half a minute, waiting for its time.
func emptyQueue(t *testing.T, c *commandtest.Cluster) {
	t.Helper()
	began := time.Now()
	await.Until(t, "the queue is empty", func() bool {
		left := strings.TrimSpace(c.Must("squeue", "-h", "-o", "%i %j %T %r"))
		if time.Since(began) > 25*time.Second && strings.Contains(left, "BeginTime") {
			t.Fatalf("the run is over, and it has jobs in the queue that wait for their time:\n%s", left)
		}
		return left == ""
	})
}
