package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
)

// TestSlurmSameBytes trains on real job arrays, one of them longer than
// MaxArraySize, with gradient shards that two tasks add up, and inside one allocation as steps, and
// compares the final policy with that of a run on this machine.
func TestSlurmSameBytes(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--max-array-size", "101")
	want := c.Reference("jobs/smoke.yaml", commandtest.Set("rollout.prompts=104", "schedule.iterations=1")...)

	t.Run("arrays longer than MaxArraySize", func(t *testing.T) {
		c := c.In(t)
		dir := filepath.Join(t.TempDir(), "run")
		started := time.Now()
		c.Submit("jobs/smoke.yaml", dir, append(commandtest.Set("rollout.prompts=104", "rollout.shards=104", "schedule.iterations=1", "schedule.gradient_shards=4", "schedule.gradient_fan_in=2"), "--site", "devcluster")...)
		c.Await(dir, nil)
		c.Settle()
		t.Logf("104 shards a stage took %v", time.Since(started).Round(time.Second))
		if got := c.PolicySHA256(dir); got != want {
			t.Errorf("policy %s, on one machine %s", got, want)
		}
		if chunks, _ := filepath.Glob(filepath.Join(dir, "jobs", "*rollout-000001*")); len(chunks) < 2 {
			t.Errorf("the rollout array of 104 tasks was submitted as %d job scripts, want at least 2", len(chunks))
		}
	})
	t.Run("steps of one allocation", func(t *testing.T) {
		c := c.In(t)
		dir := filepath.Join(t.TempDir(), "run")
		command := fmt.Sprintf("%s/lathe run jobs/smoke.yaml --run %s --executor steps --site devcluster %s", c.Bin, dir,
			strings.Join(commandtest.Set("rollout.prompts=104", "rollout.shards=6", "schedule.iterations=1"), " "))
		c.Must("sbatch", "--wait", "--partition=high", "--nodes=2", "--ntasks=2", "--cpus-per-task=4", "--output="+filepath.Join(c.Dir(), "steps.log"), "--wrap", command)
		if got := c.PolicySHA256(dir); got != want {
			t.Errorf("policy %s, on one machine %s", got, want)
		}
	})
}

// TestSlurmAccounting runs on a cluster that keeps accounts, where sacct is
// asked for what the queue has forgotten; and then where a user may have only a
// few jobs in the queue, most of them taken for a while by something else.
func TestSlurmAccounting(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"slurmdbd", "mariadbd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing: apt-get install slurmdbd mariadb-server", program)
		}
	}
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "2", "--accounting", "--set", "AccountingStorageEnforce=limits")
	want := c.Reference("jobs/smoke.yaml")
	dir := filepath.Join(t.TempDir(), "run")
	c.Submit("jobs/smoke.yaml", dir, "--site", "devcluster")
	c.Await(dir, nil)
	if got := c.PolicySHA256(dir); got != want {
		t.Errorf("policy %s, on one machine %s", got, want)
	}

	emptyQueue(t, c)
	me := strings.TrimSpace(c.Must("id", "-un"))
	c.Must("sacctmgr", "-i", "modify", "user", me, "set", "maxsubmitjobs=6")
	for range 4 {
		c.Must("sbatch", "--partition=high", "--time=1", "--output=/dev/null", "--wrap", "sleep 25")
	}
	dir = filepath.Join(t.TempDir(), "crowded")
	few := commandtest.Set("rollout.shards=6", "schedule.iterations=1")
	want = c.Reference("jobs/smoke.yaml", few...)
	c.Submit("jobs/smoke.yaml", dir, append(few, "--site", "devcluster")...)
	c.Await(dir, nil)
	if got := c.PolicySHA256(dir); got != want {
		t.Errorf("in a queue that is full: policy %s, on one machine %s", got, want)
	}
	gates, err := filepath.Glob(filepath.Join(dir, "logs", "gate*"))
	if err != nil {
		t.Fatal(err)
	}
	waited := false
	for _, gate := range append(gates, filepath.Join(c.Dir(), "train-*.log")) {
		out, _ := c.Command("bash", "-c", "cat "+gate)
		waited = waited || strings.Contains(out, "the queue is full")
	}
	if !waited {
		t.Error("no gate met a full queue; the test shows little")
	}
}

// trouble is the setup of a site that makes chosen tasks misbehave the first
// time that they start: fail, or wait for something to happen to them.
const trouble = `memory_flag: false
partition: low
watchdog_seconds: 30
stages:
  learn: {partition: high}
  buffer: {partition: high}
  gate: {partition: high}
setup:
  - 'case "$SLURM_JOB_NAME:${SLURM_ARRAY_TASK_ID:-}" in
      *-rollout-000001:0) mkdir FLAGS/failed 2>/dev/null && exit 1 ;;
      *-rollout-000001:1) mkdir FLAGS/late 2>/dev/null && sleep 600 ;;
      *-rollout-000002:1) mkdir FLAGS/requeue 2>/dev/null && sleep 600 ;;
      *-rollout-000003:?) mkdir FLAGS/preempt-$SLURM_ARRAY_TASK_ID 2>/dev/null && sleep 600 ;;
      *-rollout-000004:0) mkdir FLAGS/node 2>/dev/null && sleep 600 ;;
      esac; true'
`

// TestSlurmSurvives lets a task fail, overrun its time limit, be requeued, be
// preempted and lose its node, and expects the bytes of a run without any of
// it.
func TestSlurmSurvives(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--max-array-size", "101")
	settings := commandtest.Set("schedule.iterations=4", "rollout.shards=3", "resources.stages.rollout.minutes=1")
	want := c.Reference("jobs/smoke.yaml", settings...)

	flags, site := t.TempDir(), filepath.Join(t.TempDir(), "trouble.yaml")
	if err := os.WriteFile(site, []byte(strings.ReplaceAll(trouble, "FLAGS", flags)), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	c.Submit("jobs/smoke.yaml", dir, append(settings, "--site", site)...)

	happened := map[string]time.Duration{}
	started := time.Now()
	once := func(name, flag string, act func(task string) bool) {
		if _, err := os.Stat(filepath.Join(flags, flag)); err != nil || happened[name] != 0 {
			return
		}
		if act(flag) {
			happened[name] = time.Since(started).Round(time.Second)
		}
	}
	// running finds a running task of a rollout array: its id and its node.
	running := func(iteration, index int) (id, node string) {
		out, _ := c.Command("squeue", "-h", "-r", "-t", "running", "-o", "%F_%K %j %N")
		for _, line := range strings.Split(out, "\n") {
			var name string
			if _, err := fmt.Sscan(line, &id, &name, &node); err != nil {
				continue
			}
			if strings.HasSuffix(name, fmt.Sprintf("rollout-%06d", iteration)) && strings.HasSuffix(id, fmt.Sprintf("_%d", index)) {
				return id, node
			}
		}
		return "", ""
	}
	var lost string
	c.Await(dir, func() {
		once("requeue", "requeue", func(string) bool {
			id, _ := running(2, 1)
			if id == "" {
				return false
			}
			_, err := c.Command("scontrol", "requeue", id)
			return err == nil
		})
		once("preemption", "preempt-2", func(string) bool {
			_, err := c.Command("sbatch", "--partition=high", "--nodes=3", "--exclusive", "--time=1", "--output=/dev/null", "--wrap", "sleep 3")
			return err == nil
		})
		once("dead node", "node", func(string) bool {
			if _, node := running(4, 0); node != "" {
				lost = node
				c.Do(t, "kill", node)
				return true
			}
			return false
		})
		if lost != "" && time.Since(started)-happened["dead node"] > 40*time.Second {
			c.Do(t, "start", lost)
			lost = ""
		}
	})
	t.Logf("the run took %v; %v", time.Since(started).Round(time.Second), happened)
	for _, name := range []string{"requeue", "preemption", "dead node"} {
		if happened[name] == 0 {
			t.Errorf("the %s never happened", name)
		}
	}
	for _, flag := range []string{"failed", "late"} {
		if _, err := os.Stat(filepath.Join(flags, flag)); err != nil {
			t.Errorf("the task that was to be %s never started", flag)
		}
	}
	if got := c.PolicySHA256(dir); got != want {
		t.Errorf("policy %s, without trouble %s", got, want)
	}
	said := c.Must(filepath.Join(c.Bin, "lathe"), "logs", "--stage", "rollout", "--most", "0", dir)
	for _, want := range []string{
		"rollout-000001-00000, attempt 0: mended, failed, on n",
		"rollout-000001-00001, attempt 0: mended, timeout, on n",
		"requeued 1 time",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lathe logs does not say %q:\n%s", want, said)
		}
	}
}
