package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/rehearsal"
)

// slow is the setup of a site on which rollouts of an iteration take minutes,
// unless a file says that they need not.
const slow = `memory_flag: false
partition: high
setup:
  - 'case "$SLURM_JOB_NAME" in *-rollout-000001) while [ ! -e GO ]; do sleep 0.2; done ;; esac; true'
`

// refusing is a filter of a site that takes no --mem, and GPUs by --gpus-per-node alone.
const refusing = `function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, pack_offset)
	for _, name in ipairs({"mem", "gres", "gpus", "gpus-per-task"}) do
		if options[name] ~= nil then
			slurm.log_error("this site does not take --" .. name)
			return slurm.ERROR
		end
	end
	return slurm.SUCCESS
end
`

// TestSlurmOperate is what operators do on a cluster that they do not know: with
// narrow limits and accounting, and with neither.
func TestSlurmOperate(t *testing.T) {
	t.Parallel()
	bin := commandtest.Build(t)
	t.Run("accounting", func(t *testing.T) { // beside the other cluster
		t.Parallel()
		if _, err := exec.LookPath("slurmdbd"); err != nil {
			t.Skip("slurmdbd is missing: apt-get install slurmdbd mariadb-server")
		}
		c := commandtest.StartCluster(t, bin, "--nodes", "2", "--accounting", "--max-array-size", "5", "--set", "AccountingStorageEnforce=limits", "--set", "CliFilterPlugins=lua")
		if err := os.WriteFile(filepath.Join(c.Dir(), "cli_filter.lua"), []byte(refusing), 0o666); err != nil {
			t.Fatal(err)
		}
		me := strings.TrimSpace(c.Must("id", "-un"))
		c.Must("sacctmgr", "-i", "modify", "user", me, "set", "maxsubmitjobs=10", "maxjobs=9")
		c.Must("sacctmgr", "-i", "modify", "qos", "normal", "set", "maxjobsperuser=8")
		profile := filepath.Join(t.TempDir(), "found.yaml")
		t.Run("doctor", func(t *testing.T) {
			findings := examine(t, c.In(t), "--write", profile)
			for about, want := range map[string]string{
				"accounting": "ok on", "--mem": "note sbatch failed: ", "--gres": "note sbatch failed: ", "--gpus": "note sbatch failed: ", "--gpus-per-task": "note sbatch failed: ", "--gpus-per-node": "ok is accepted",
				"array size": "ok indices up to 4", "your jobs in the queue": "ok at most 10", "your running jobs": "ok at most 8", "time to stop": "note 5 s", "signal before preemption": "ok the user's", "start after requeueing": "ok not before 5 s",
				"between nodes, link": "ok each of 50 exclusive creations", "between nodes, a replaced file": "ok 0.", "between nodes, clocks": "ok ",
			} {
				if !strings.HasPrefix(findings[about], want) {
					t.Errorf("%s: %q, want %q", about, findings[about], want)
				}
			}
			content, err := os.ReadFile(profile)
			for _, line := range []string{"memory_flag: false", "gpu_flag: gpus-per-node", "max_array_size: 5", "max_submit: 10", "throttle: 8", "partition: \"low\"", "max_minutes: 60"} {
				if err != nil || !strings.Contains(string(content), "\n"+line+"\n") {
					t.Errorf("the profile lacks %q, %v:\n%s", line, err, content)
				}
			}
		})
		t.Run("its profile", func(t *testing.T) {
			c := c.In(t)
			dir := filepath.Join(t.TempDir(), "run")
			settings := commandtest.Set("schedule.iterations=1", "rollout.prompts=12", "rollout.shards=6", "warm_start.steps=10", "warm_start.chunk=10", "evaluation.problems=10", "resources.stages.rollout.gpus=1", "resources.stages.rollout.memory_gb=1")
			c.Submit("jobs/quickstart.yaml", dir, append(settings, "--site", profile)...)
			c.Await(dir, nil)
			if got, want := c.PolicySHA256(dir), c.Reference("jobs/quickstart.yaml", settings...); got != want {
				t.Errorf("policy %s, on one machine %s", got, want)
			}
			c.Settle()
		})
		found, err := os.ReadFile(profile)
		if err != nil {
			t.Fatal(err)
		}
		t.Run("cancel and pause", func(t *testing.T) { cancelAndPause(t, c.In(t)) })
		t.Run("quorum", func(t *testing.T) { goWithout(t, c.In(t), string(found)) })
		t.Run("rehearse", func(t *testing.T) {
			rehearse(t, c.In(t), string(found), executor.CausePreempted, "--preempt-every", "8s", "--lose-node", "0")
		})
	})
	t.Run("no accounting", func(t *testing.T) {
		t.Parallel()
		c := commandtest.StartCluster(t, bin, "--nodes", "2", "--memory", "2000") // less than tasks ask for by default
		t.Run("doctor", func(t *testing.T) {
			findings := examine(t, c.In(t), "--partition", "high")
			if want := "note off"; !strings.HasPrefix(findings["accounting"], want) {
				t.Errorf("accounting: %q, want %q", findings["accounting"], want)
			}
			if want := "ok high, as requested"; findings["partition"] != want {
				t.Errorf("partition: %q, want %q", findings["partition"], want)
			}
			if want := "note no node has the 2 GiB that tasks request"; !strings.HasPrefix(findings["memory of a task"], want) {
				t.Errorf("memory of a task: %q, want %q", findings["memory of a task"], want)
			}
		})
		t.Run("cancel and pause", func(t *testing.T) { cancelAndPause(t, c.In(t)) })
		t.Run("quorum", func(t *testing.T) { goWithout(t, c.In(t), "memory_flag: false\npartition: high\n") })
		t.Run("rehearse", func(t *testing.T) {
			rehearse(t, c.In(t), "memory_flag: false\npartition: high\n", executor.CauseNodeFail, "--preempt-every", "0", "--lose-node", "8s")
		})
	})
}

// hostile is a folder's name that a shell, Slurm's patterns of names and a reader of
// batch scripts would each take apart.
const hostile = `it's a "run" $(touch one) ` + "`touch two`" + `; %j & #SBATCH`

// failing is the setup of a site on which one rollout always fails, and on which it is
// written down what becomes of a run. It goes by the shard: where the queue has no room
// for four tasks at once, another one has index 0 of its array too.
const failing = `setup: ['case "$SLURM_JOB_NAME:${shard:-}" in *-rollout-000001:0) exit 1 ;; esac; true']
notify: [sh, -c, 'echo "$LATHE_EVENT $LATHE_EXIT" >>"$LATHE_RUN/said"']
`

// goWithout has a run come to its end without a shard that has no attempts left, since
// its quorum is met, in a folder of a hostile name. A job's comment says how far it is.
func goWithout(t *testing.T, c *commandtest.Cluster, profile string) {
	t.Helper()
	site := filepath.Join(t.TempDir(), "failing.yaml")
	if err := os.WriteFile(site, []byte(profile+failing), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), hostile)
	settings := commandtest.Set("schedule.iterations=1", "rollout.shards=4", "warm_start.steps=10", "schedule.quorum=0.6", "schedule.max_attempts=1")
	c.Submit("jobs/smoke.yaml", dir, append(settings, "--site", site)...)
	c.Await(dir, nil)
	c.Settle() // the site is told after the report is written
	controller, err := os.ReadFile(filepath.Join(c.Dir(), "log", "slurmctld.log"))
	if want := "setting comment to lathe " + dir + ": 0 of 1 iteration learned"; err != nil || !bytes.Contains(controller, []byte(want)) {
		t.Errorf("no job was given a comment that says how far the run is (%v): %s", err, want)
	}
	var verified struct {
		Faults []any
		Ledger struct{ Dropped map[string]int }
	}
	if err := json.Unmarshal([]byte(c.Must(filepath.Join(c.Bin, "lathe"), "verify", "--json", dir)), &verified); err != nil {
		t.Fatal(err)
	}
	if verified.Ledger.Dropped["left_out"] == 0 || len(verified.Faults) > 0 {
		t.Errorf("%v are dropped, faults %v; want some left out", verified.Ledger.Dropped, verified.Faults)
	}
	if said := c.Must(filepath.Join(c.Bin, "lathe"), "logs", "--failed", dir); !strings.Contains(said, "rollout-000001-00000, attempt 0:") || !strings.Contains(said, "failed, on n") {
		t.Errorf("lathe logs does not say which task failed, and where:\n%s", said)
	}
	said, err := os.ReadFile(filepath.Join(dir, "said"))
	if want := fmt.Sprintf("done %d\n", exitcode.LeftOut); err != nil || string(said) != want {
		t.Errorf("the site was told %q, %v; want %q", said, err, want)
	}
}

// lasting is the setup of a site on which every task of a run lasts for seconds, so
// that whoever looks for one at work finds it.
const lasting = `setup: ['case "$SLURM_JOB_NAME" in *-gate) ;; *) sleep 1.5 ;; esac']
`

// rehearse has a run in miniature disturbed on the cluster in one way: its jobs are hit,
// it comes to the same policy, and nothing is left in the queue.
func rehearse(t *testing.T, c *commandtest.Cluster, profile string, cause executor.Cause, how ...string) {
	t.Helper()
	folder, site := filepath.Join(t.TempDir(), "rehearsal"), filepath.Join(t.TempDir(), "lasting.yaml")
	if err := os.WriteFile(site, []byte(profile+lasting), 0o666); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"rehearse", "jobs/smoke.yaml", "--executor", "slurm", "--site", site, "--out", folder, "--json"}, how,
		commandtest.Set("schedule.iterations=1", "rollout.shards=2", "warm_start.steps=10"))
	command := exec.Command(filepath.Join(c.Bin, "lathe"), args...)
	command.Dir, command.Env, command.Stderr = sourcetree.Path(), c.Env, os.Stderr
	out, err := command.Output()
	var report rehearsal.Report
	if decodeErr := json.Unmarshal(out, &report); decodeErr != nil || err != nil {
		t.Fatalf("lathe rehearse: %v, %v\n%s", err, decodeErr, out)
	}
	if !report.Ended || len(report.Faults) > 0 || report.Policy != report.After || report.Policy == "" {
		t.Errorf("it does not survive: %s", out)
	}
	if !slices.ContainsFunc(report.Hits, func(h rehearsal.Hit) bool { return h.Cause == cause && h.Node != "" }) {
		t.Errorf("nothing was hit by %s: %+v", cause, report.Hits)
	}
	emptyQueue(t, c)
}

// examine runs lathe doctor and returns its findings.
func examine(t *testing.T, c *commandtest.Cluster, args ...string) map[string]string {
	t.Helper()
	command := exec.Command(filepath.Join(c.Bin, "lathe"), append([]string{"doctor", "--json", "--folder", t.TempDir()}, args...)...)
	command.Env = c.Env
	out, err := command.Output()
	var report struct {
		Findings []struct{ About, Level, Found string }
	}
	if decodeErr := json.Unmarshal(out, &report); decodeErr != nil || err != nil {
		t.Fatalf("lathe doctor: %v, %v\n%s", err, decodeErr, out)
	}
	findings := map[string]string{}
	for _, f := range report.Findings {
		findings[f.About] = f.Level + " " + f.Found
	}
	return findings
}

// cancelAndPause cancels a run and a stage of it, and pauses it: nothing is left in
// the queue, nothing comes back, and each time the same command goes on, to the
// bytes of a run that nobody touched.
func cancelAndPause(t *testing.T, c *commandtest.Cluster) {
	t.Helper()
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
		await.Until(t, "three rollouts run", func() bool { return rollouts("running") >= 3 })
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
	if !strings.HasPrefix(out, "removed from the queue: ") || strings.Contains(out, ", 0 job arrays") {
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
	c.Await(dir, nil)
	if got := c.PolicySHA256(dir); got != want {
		t.Errorf("policy %s, where nobody cancelled %s", got, want)
	}
}
