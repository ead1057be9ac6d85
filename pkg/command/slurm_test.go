package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cluster is a real Slurm on this machine, started by slurm/devcluster.
type cluster struct {
	t   *testing.T
	dir string
	bin string   // of freshly built binaries
	env []string // with SLURM_CONF and the like
}

const repository = "../.."

// startCluster starts a devcluster that ends with the test.
func startCluster(t *testing.T, options ...string) *cluster {
	t.Helper()
	if os.Getenv("LATHE_TEST_SLURM") == "" {
		t.Skip("LATHE_TEST_SLURM is not set: make test-slurm runs the tests that need a real Slurm")
	}
	c := &cluster{t: t, dir: filepath.Join(t.TempDir(), "cluster"), env: os.Environ()}
	c.bin = filepath.Join(t.TempDir(), "bin")
	build := exec.Command("go", "build", "-o", c.bin+"/", "./cmd/lathe", "./cmd/lathe-rollout", "./cmd/lathe-score", "./cmd/lathe-buffer", "./cmd/lathe-learn")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the binaries: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		down := exec.Command("slurm/devcluster", "down", "--dir", c.dir)
		down.Dir = repository
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("stopping the cluster: %v\n%s", err, out)
		}
	})
	c.devcluster(append([]string{"up"}, options...)...)
	for _, line := range strings.Split(c.devcluster("env"), "\n") {
		if assignment, ok := strings.CutPrefix(line, "export "); ok {
			c.env = append(c.env, strings.ReplaceAll(strings.ReplaceAll(assignment, `"`, ""), "'", ""))
		}
	}
	c.env = append(c.env, "LATHE_BIN="+c.bin)
	return c
}

func (c *cluster) devcluster(args ...string) string {
	c.t.Helper()
	command := exec.Command("slurm/devcluster", append(args, "--dir", c.dir)...)
	command.Dir = repository
	out, err := command.Output()
	if err != nil {
		stderr := ""
		if ended, ok := err.(*exec.ExitError); ok {
			stderr = string(ended.Stderr)
		}
		c.t.Fatalf("devcluster %v: %v\n%s%s", args, err, out, stderr)
	}
	return string(out)
}

// command runs a program with the cluster's environment in the repository.
func (c *cluster) command(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir, command.Env = repository, c.env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

func (c *cluster) must(name string, args ...string) string {
	c.t.Helper()
	out, err := c.command(name, args...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// submit starts a run through the script that users submit, and waits until
// the first gate has left.
func (c *cluster) submit(dir string, args ...string) {
	c.t.Helper()
	words := []string{"--wait", "--partition=high", "--output=" + filepath.Join(c.dir, "train-%j.log"), "slurm/train.sbatch", "jobs/smoke.yaml", dir}
	c.must("sbatch", append(words, args...)...)
}

// await polls lathe status until the run has a state, and meanwhile lets
// other things happen.
func (c *cluster) await(dir, state string, limit time.Duration, meanwhile func()) {
	c.t.Helper()
	deadline := time.Now().Add(limit)
	var last string
	for time.Now().Before(deadline) {
		if meanwhile != nil {
			meanwhile()
		}
		out, err := c.command(filepath.Join(c.bin, "lathe"), "status", "--json", dir)
		last = out
		var status struct{ State, Evidence string }
		if err == nil && json.Unmarshal([]byte(out), &status) == nil {
			// The last gate writes the report when the run is done; the
			// summary is its last file.
			if _, err := os.Stat(filepath.Join(dir, "report", "summary.json")); status.State == state && err == nil {
				return
			}
			if status.State == "failed" {
				break
			}
		}
		time.Sleep(time.Second)
	}
	queue, _ := c.command("squeue", "-t", "all", "-o", "%i %j %T %r")
	logs, _ := c.command("bash", "-c", fmt.Sprintf("tail -n 5 %s/logs/gate* %s/train-*.log", dir, c.dir))
	c.t.Fatalf("run %s is not %s after %v:\n%s\n%s\n%s", dir, state, limit, last, queue, logs)
}

// policySHA256 is the digest of the last policy, from the run's report.
func (c *cluster) policySHA256(dir string) string {
	c.t.Helper()
	c.must(filepath.Join(c.bin, "lathe"), "verify", dir)
	var summary struct {
		SHA256 string `json:"policy_sha256"`
		Ledger struct{ Pending int }
	}
	out, err := exec.Command(filepath.Join(c.bin, "lathe"), "report", "--json", dir).Output()
	if err != nil {
		c.t.Fatalf("report of %s: %v", dir, err)
	}
	if err := json.Unmarshal(out, &summary); err != nil {
		c.t.Fatal(err)
	}
	if summary.SHA256 == "" || summary.Ledger.Pending != 0 {
		c.t.Fatalf("report of %s: policy %q, %d responses pending", dir, summary.SHA256, summary.Ledger.Pending)
	}
	return summary.SHA256
}

// reference is the digest of the same run on this machine alone.
func (c *cluster) reference(settings ...string) string {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), "reference")
	args := []string{"run", "jobs/smoke.yaml", "--run", dir}
	c.must(filepath.Join(c.bin, "lathe"), append(args, settings...)...)
	return c.policySHA256(dir)
}

func set(settings ...string) []string {
	var args []string
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}

// TestSlurmSameBytes trains on real job arrays, one of them longer than
// MaxArraySize, with gradient shards, and inside one allocation as steps, and
// compares the final policy with that of a run on this machine.
func TestSlurmSameBytes(t *testing.T) {
	c := startCluster(t, "--nodes", "3", "--max-array-size", "101")
	want := c.reference(set("rollout.prompts=104", "schedule.iterations=1")...)

	t.Run("arrays longer than MaxArraySize", func(t *testing.T) {
		c := *c
		c.t = t
		dir := filepath.Join(t.TempDir(), "run")
		started := time.Now()
		c.submit(dir, append(set("rollout.prompts=104", "rollout.shards=104", "schedule.iterations=1", "schedule.gradient_shards=4"), "--site", "devcluster")...)
		c.await(dir, "done", 5*time.Minute, nil)
		t.Logf("104 shards a stage took %v", time.Since(started).Round(time.Second))
		if got := c.policySHA256(dir); got != want {
			t.Errorf("policy %s, on one machine %s", got, want)
		}
		if chunks, _ := filepath.Glob(filepath.Join(dir, "jobs", "*rollout-000001*")); len(chunks) < 2 {
			t.Errorf("the rollout array of 104 tasks was submitted as %d job scripts, want at least 2", len(chunks))
		}
	})
	t.Run("steps of one allocation", func(t *testing.T) {
		c := *c
		c.t = t
		dir := filepath.Join(t.TempDir(), "run")
		command := fmt.Sprintf("%s/lathe run jobs/smoke.yaml --run %s --executor steps --site devcluster %s", c.bin, dir,
			strings.Join(set("rollout.prompts=104", "rollout.shards=6", "schedule.iterations=1"), " "))
		c.must("sbatch", "--wait", "--partition=high", "--nodes=2", "--ntasks=2", "--cpus-per-task=4", "--output="+filepath.Join(c.dir, "steps.log"), "--wrap", command)
		if got := c.policySHA256(dir); got != want {
			t.Errorf("policy %s, on one machine %s", got, want)
		}
	})
}

// TestSlurmAccounting runs on a cluster that keeps accounts, where sacct is
// asked for what the queue has forgotten; and then where a user may have only a
// few jobs in the queue, most of them taken for a while by something else.
func TestSlurmAccounting(t *testing.T) {
	for _, program := range []string{"slurmdbd", "mariadbd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing: apt-get install slurmdbd mariadb-server", program)
		}
	}
	c := startCluster(t, "--nodes", "2", "--accounting", "--set", "AccountingStorageEnforce=limits")
	want := c.reference()
	dir := filepath.Join(t.TempDir(), "run")
	c.submit(dir, "--site", "devcluster")
	c.await(dir, "done", 3*time.Minute, nil)
	if got := c.policySHA256(dir); got != want {
		t.Errorf("policy %s, on one machine %s", got, want)
	}

	me := strings.TrimSpace(c.must("id", "-un"))
	c.must("sacctmgr", "-i", "modify", "user", me, "set", "maxsubmitjobs=6")
	for range 4 {
		c.must("sbatch", "--partition=high", "--time=1", "--output=/dev/null", "--wrap", "sleep 25")
	}
	dir = filepath.Join(t.TempDir(), "crowded")
	few := set("rollout.shards=6", "schedule.iterations=1")
	want = c.reference(few...)
	c.submit(dir, append(few, "--site", "devcluster")...)
	c.await(dir, "done", 6*time.Minute, nil)
	if got := c.policySHA256(dir); got != want {
		t.Errorf("in a queue that is full: policy %s, on one machine %s", got, want)
	}
	gates, err := filepath.Glob(filepath.Join(dir, "logs", "gate*"))
	if err != nil {
		t.Fatal(err)
	}
	waited := false
	for _, gate := range append(gates, filepath.Join(c.dir, "train-*.log")) {
		out, _ := c.command("bash", "-c", "cat "+gate)
		waited = waited || strings.Contains(out, "the queue takes no more jobs")
	}
	if !waited {
		t.Error("no gate met a full queue; the test shows little")
	}
}

// trouble is the setup of a site that makes chosen tasks misbehave the first
// time that they start: fail, or wait for something to happen to them.
const trouble = `memory_flag: false
partition: low
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
	c := startCluster(t, "--nodes", "3", "--max-array-size", "101")
	settings := set("schedule.iterations=4", "rollout.shards=3", "resources.stages.rollout.minutes=1")
	want := c.reference(settings...)

	flags, site := t.TempDir(), filepath.Join(t.TempDir(), "trouble.yaml")
	if err := os.WriteFile(site, []byte(strings.ReplaceAll(trouble, "FLAGS", flags)), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	c.submit(dir, append(settings, "--site", site)...)

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
		out, _ := c.command("squeue", "-h", "-r", "-t", "running", "-o", "%F_%K %j %N")
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
	c.await(dir, "done", 9*time.Minute, func() {
		once("requeue", "requeue", func(string) bool {
			id, _ := running(2, 1)
			if id == "" {
				return false
			}
			_, err := c.command("scontrol", "requeue", id)
			return err == nil
		})
		once("preemption", "preempt-2", func(string) bool {
			_, err := c.command("sbatch", "--partition=high", "--nodes=3", "--exclusive", "--time=1", "--output=/dev/null", "--wrap", "sleep 3")
			return err == nil
		})
		once("dead node", "node", func(string) bool {
			if _, node := running(4, 0); node != "" {
				lost = node
				c.devcluster("kill", node)
				return true
			}
			return false
		})
		if lost != "" && time.Since(started)-happened["dead node"] > 40*time.Second {
			c.devcluster("start", lost)
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
	if got := c.policySHA256(dir); got != want {
		t.Errorf("policy %s, without trouble %s", got, want)
	}
}
