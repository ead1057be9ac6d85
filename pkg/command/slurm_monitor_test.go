package command_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
)

// watched is the site of a run whose tasks with GPUs have monitors beside them, on the
// library of tests. A first attempt at a rollout takes, when it is told to, far more
// memory than it has asked for.
const watched = `executor: slurm
partition: low
gpu_flag: gres
memory_flag: true
max_minutes: 60
export: {LATHE_NVML_STUB: "%SCRIPT%", LD_LIBRARY_PATH: "%LIBRARY%"}
stages:
  gate: {partition: high}
setup:
  - 'case "$SLURM_JOB_NAME:${SLURM_ARRAY_TASK_ID:-}:${LATHE_ATTEMPT:-}" in *-rollout-000001:*:0) (until [ -e %FOLDER%/$SLURM_ARRAY_TASK_ID ]; do [ -d %FOLDER% ] || exit; sleep 0.2; done; x=$(head -c 400000000 /dev/zero | tr "\0" x); sleep 60) & ;; esac; true'
`

// attemptReport is what lathe gpu-report --json says of an attempt.
type attemptReport struct {
	Task        string     `json:"task"`
	Number      int        `json:"attempt"`
	Start       time.Time  `json:"start"`
	Seconds     float64    `json:"seconds"`
	Disposition string     `json:"fate"`
	GPUs        []struct { // of the task's
		UUID string `json:"uuid"`
	} `json:"gpus"`
}

// TestSlurmMonitor has a run whose tasks hold GPUs, on a real Slurm that keeps accounts.
// All at once two of its tasks are preempted, one is requeued, one is killed, one has too
// little memory, and the node of the last is lost. The run comes to its end all the same,
// with the bytes of a run that nothing befell; what its report says was held is what the
// accounts say, and what was lost is booked to its cause; and so says lathe logs.
func TestSlurmMonitor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("slurmdbd"); err != nil {
		t.Skip("slurmdbd is missing: apt-get install slurmdbd mariadb-server")
	}
	held := t.TempDir()
	bin := withMonitor(t, commandtest.Build(t), held)
	library := nvmltest.Build(t, false)
	script := nvmltest.WriteScript(t, "0 uuid GPU-aaaa\n0 name NVIDIA H100\n0 memory 100\n0 memory_total 200\n0 utilization 50\n0 power 300000\n1 uuid GPU-bbbb\n1 name NVIDIA H100\n1 memory 1\n")
	eat, site := t.TempDir(), filepath.Join(t.TempDir(), "watched.yaml")
	profile := strings.NewReplacer("%SCRIPT%", script, "%LIBRARY%", filepath.Dir(library), "%FOLDER%", eat).Replace(watched)
	if err := os.WriteFile(site, []byte(profile), 0o666); err != nil {
		t.Fatal(err)
	}
	c := commandtest.StartCluster(t, bin, "--nodes", "3", "--memory", "4000", "--accounting",
		"--set", "JobAcctGatherParams=OverMemoryKill", "--set", "JobAcctGatherFrequency=task=1", "--set", "SlurmdTimeout=8")
	dir := filepath.Join(t.TempDir(), "run")
	settings := commandtest.Set("schedule.iterations=1", "rollout.prompts=1200", "rollout.max_new_tokens=100", "rollout.shards=6", "warm_start.steps=10",
		"resources.stages.rollout.gpus=1", "resources.stages.rollout.memory_gb=0.3")
	c.Submit("jobs/smoke.yaml", dir, append(settings, "--site", site)...)

	tasks, job := map[int]int{}, ""
	await.Until(t, "all six rollouts start", func() bool {
		files, _ := filepath.Glob(filepath.Join(held, "*"))
		for _, path := range files {
			var pid int
			content, _ := os.ReadFile(path)
			shard, err := strconv.Atoi(filepath.Base(path))
			if _, scanErr := fmt.Sscan(string(content), &pid, &job); err == nil && scanErr == nil {
				tasks[shard] = pid
			}
		}
		return len(tasks) == 6
	})
	time.Sleep(3 * time.Second)
	nodes := map[int]string{}
	for line := range strings.Lines(c.Must("squeue", "-h", "-r", "-j", job, "-o", "%K %N")) {
		var shard int
		var node string
		if _, err := fmt.Sscan(line, &shard, &node); err != nil {
			t.Fatal(err)
		}
		nodes[shard] = node
	}
	// Each of the three nodes has two GPUs: what befalls which shard.
	on := map[string][]int{}
	for shard := range 6 {
		on[nodes[shard]] = append(on[nodes[shard]], shard)
	}
	if len(on["n1"]) != 2 || len(on["n2"]) != 2 || len(on["n3"]) != 2 {
		t.Fatalf("two rollouts were to share each node: %v", nodes)
	}
	requeued, killed, starved, lostWith := on["n2"][0], on["n2"][1], on["n3"][0], on["n3"][1]
	fates := map[int]string{
		on["n1"][0]: "preempted", on["n1"][1]: "preempted", requeued: "requeued", killed: "killed", starved: "out_of_memory", lostWith: "node_fail",
	}
	c.Must("sbatch", "--partition=high", "--exclusive", "--nodelist=n1", "--time=1", "--output=/dev/null", "--wrap", "sleep 1")
	c.Must("scontrol", "requeue", fmt.Sprintf("%s_%d", job, requeued))
	if err := syscall.Kill(tasks[killed], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(eat, strconv.Itoa(starved)), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	accounts := func(fields string, more ...string) (rows [][]string) {
		for line := range strings.Lines(c.Must("sacct", append([]string{"--duplicates", "-X", "-n", "-P", "-o", fields}, more...)...)) {
			rows = append(rows, strings.Split(strings.TrimSpace(line), "|"))
		}
		return rows
	}
	recorded := func(shard int, state string) bool {
		for _, row := range accounts("JobID,State", "-j", job) {
			if row[0] == fmt.Sprintf("%s_%d", job, shard) && row[1] == state {
				return true
			}
		}
		return false
	}
	await.Until(t, "Slurm kills what takes too much memory", func() bool { return recorded(starved, "FAILED") })
	c.Do(t, "kill", "n3")
	await.Until(t, "Slurm misses the node", func() bool { return recorded(lostWith, "NODE_FAIL") })
	if err := syscall.Kill(tasks[lostWith], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.Do(t, "start", "n3")
	c.Await(dir, nil)
	if got, want := c.PolicySHA256(dir), c.Reference("jobs/smoke.yaml", settings...); got != want {
		t.Errorf("policy %s, of a run that nothing befell %s", got, want)
	}

	var report struct {
		Attempts []attemptReport `json:"attempts_each"`
		Total    struct {
			GPUSeconds float64 `json:"gpu_seconds"`
		} `json:"total"`
		Lost []struct {
			Cause   string  `json:"cause"`
			Seconds float64 `json:"seconds"`
		} `json:"lost"`
		User string `json:"user"`
	}
	out := c.Must("bash", "-c", fmt.Sprintf("%s/lathe gpu-report %s --json 2>/dev/null", bin, dir))
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if me, err := user.Current(); err != nil || report.User != me.Username {
		t.Errorf("the jobs are of user %q, want %+v, %v", report.User, me, err)
	}
	var accounted float64
	var starts int
	var began []time.Time // in order
	await.Until(t, "Slurm has recorded all starts", func() bool {
		accounted, starts, began = 0, 0, nil
		for _, row := range accounts("JobName,Start,End,ElapsedRaw", "-S", "now-1hours") {
			if seconds, err := strconv.ParseFloat(row[3], 64); err == nil && strings.Contains(row[0], "-rollout-") && row[1] != "Unknown" && row[2] != "Unknown" {
				accounted += seconds
				starts++
				start, _ := time.ParseInLocation("2006-01-02T15:04:05", row[1], time.Local)
				began = append(began, start)
			}
		}
		slices.SortFunc(began, time.Time.Compare)
		return starts >= len(report.Attempts)
	})
	if starts != len(report.Attempts) {
		t.Errorf("%d attempts, and the accounts have %d starts: %s", len(report.Attempts), starts, out)
	}
	// The accounts have whole seconds. A start is seen from its first sample, which a busy
	// machine takes late, to its last, one second before its end at most.
	late := 0.0
	for _, a := range report.Attempts {
		after, _ := slices.BinarySearchFunc(began, a.Start, time.Time.Compare)
		if a.Disposition == "kept" && after > 0 {
			late += a.Start.Sub(began[after-1]).Seconds()
		}
	}
	if more := report.Total.GPUSeconds - accounted; more > float64(starts) || more < -late-float64(starts) {
		t.Errorf("%.1f GPU-seconds, and the accounts say %.0f", report.Total.GPUSeconds, accounted)
	}
	lost := map[string]float64{}
	for _, a := range report.Attempts {
		var shard int
		want := "kept"
		if _, err := fmt.Sscanf(a.Task, "rollout-000001-%d", &shard); err == nil && a.Number == 0 {
			want = fates[shard]
		}
		if a.Disposition != want || len(a.GPUs) != 1 {
			t.Errorf("attempt %+v, want it %s", a, want)
		}
		if a.Disposition != "kept" {
			lost[a.Disposition] += a.Seconds
		}
	}
	t.Logf("%.1f GPU-seconds in %d starts, %.0f by the accounts; lost %v", report.Total.GPUSeconds, starts, accounted, lost)
	for _, l := range report.Lost {
		if want, known := lost[l.Cause]; known && math.Abs(l.Seconds-want) > 1e-6 {
			t.Errorf("lost to %s: %.1f s, want %.1f", l.Cause, l.Seconds, want)
		}
		delete(lost, l.Cause)
	}
	if len(lost) > 0 {
		t.Errorf("not attributed: %v; the report has %+v", lost, report.Lost)
	}

	said := c.Must(filepath.Join(bin, "lathe"), "logs", dir, "--stage", "rollout", "--iteration", "1")
	says := map[string]string{
		"preempted": "mended, preempted, on n", "requeued": "mended, stopped, on n", "killed": "mended, failed, on n2",
		"out_of_memory": "mended, out_of_memory, on n3", "node_fail": "after NODE_FAIL on n3",
	}
	for shard, fate := range fates {
		entries := entriesOf(said, fmt.Sprintf("rollout-000001-%05d", shard))
		if !strings.Contains(entries, says[fate]) || (fate == "preempted" || fate == "requeued") && !strings.Contains(entries, "after REQUEUED on "+nodes[shard]) {
			t.Errorf("of shard %d, which was %s, lathe logs does not say %q:\n%s", shard, fate, says[fate], said)
		}
	}
}

// entriesOf is what lathe logs says of a task.
func entriesOf(said, task string) string {
	var b strings.Builder
	of := false
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, " ") {
			of = strings.HasPrefix(line, task+",")
		}
		if of {
			b.WriteString(line)
		}
	}
	return b.String()
}

// holding starts a monitor. The first starts of the rollouts of iteration 1 it has stand
// still, and hold their GPUs, and it says which process that is, of which job.
const holding = `#!/bin/bash
words=$*; pid=${words##*--pid }; pid=${pid%% *}
if [[ $SLURM_JOB_NAME == *-rollout-000001 && $LATHE_ATTEMPT == 0 && -z ${SLURM_RESTART_COUNT:-} ]]; then
	kill -STOP "$pid"
	echo "$pid $SLURM_ARRAY_JOB_ID" >%HELD%/"$SLURM_ARRAY_TASK_ID"
fi
exec %MONITOR% "$@"
`

// withMonitor is a folder with the binaries of another and a lathe-monitor that has
// tasks stand still.
func withMonitor(t *testing.T, bin, held string) string {
	t.Helper()
	all, monitor := t.TempDir(), filepath.Join(t.TempDir(), "lathe-monitor")
	binaries, err := filepath.Glob(filepath.Join(bin, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range binaries {
		if err := os.Link(path, filepath.Join(all, filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-tags", "netgo,osusergo,urfave_cli_no_docs", "-ldflags", "-extldflags=-Wl,-z,lazy", "-o", monitor, "./cmd/lathe-monitor")
	build.Dir = sourcetree.Path()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building lathe-monitor: %v\n%s", err, out)
	}
	script := strings.NewReplacer("%HELD%", held, "%MONITOR%", monitor).Replace(holding)
	if err := os.WriteFile(filepath.Join(all, "lathe-monitor"), []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	return all
}
