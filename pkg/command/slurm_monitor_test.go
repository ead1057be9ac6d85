package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
)

// TestSlurmMonitor has a task with a GPU on a real Slurm that keeps accounts, with the
// driver's library of tests. While it works Slurm requeues it, a more urgent job takes
// its place, and it is killed; the monitor seals what it saw up to then, and what the
// report says was held, and was lost, is what the accounts say.
func TestSlurmMonitor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("slurmdbd"); err != nil {
		t.Skip("slurmdbd is missing: apt-get install slurmdbd mariadb-server")
	}
	bin := commandtest.Build(t)
	library := nvmltest.Build(t, false)
	script := nvmltest.WriteScript(t, "0 uuid GPU-aaaa\n0 name NVIDIA H100\n0 memory 100\n0 memory_total 200\n0 utilization 50\n0 power 300000\n1 uuid GPU-bbbb\n1 name NVIDIA H100\n1 memory 1\n")
	sidecar := filepath.Join(t.TempDir(), "lathe-monitor")
	build := exec.Command("go", "build", "-trimpath", "-tags", "netgo,osusergo", "-ldflags", "-extldflags=-Wl,-z,lazy", "-o", sidecar, "./cmd/lathe-monitor")
	build.Dir = sourcetree.Path()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building lathe-monitor: %v\n%s", err, out)
	}
	c := commandtest.StartCluster(t, bin, "--nodes", "1", "--accounting")
	dir := filepath.Join(t.TempDir(), "run")
	c.Must(filepath.Join(bin, "lathe"), append([]string{"run", "jobs/smoke.yaml", "--run", dir}, commandtest.Set("schedule.iterations=1", "rollout.prompts=2000", "rollout.shards=1", "warm_start.steps=1", "rollout.max_new_tokens=100")...)...)
	shardPath := filepath.Join(dir, "iter", "000001", "rollout", "00000.parquet")
	for _, path := range []string{shardPath, shardPath + ".json"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	task := fmt.Sprintf("exec %s/lathe-rollout --run %s --iteration 1 --shard 0", bin, dir)
	submit := func(attempt int) string {
		return strings.TrimSpace(c.Must("env", monitor.Variable+"="+sidecar, nvmltest.Script+"="+script, "LD_LIBRARY_PATH="+filepath.Dir(library), fmt.Sprintf("LATHE_ATTEMPT=%d", attempt),
			"sbatch", "--parsable", "--gres=gpu:1", "--requeue", "--open-mode=append", "--output="+filepath.Join(c.Dir(), "rollout.log"), "--wrap", task))
	}
	// hold waits until a start of the task has a monitor, and stops the task: it
	// stands still, and holds its GPU for three seconds.
	watched := 0
	hold := func() (stopped int) {
		t.Helper()
		var pid int
		await(t, "the task starts", time.Minute, func() bool {
			pid = processOf(sidecar, dir)
			return pid != 0 && pid != watched
		})
		watched = pid
		stopped, err := strconv.Atoi(argumentOf(t, pid, "--pid"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		return stopped
	}
	job := submit(0)
	hold()
	c.Must("scontrol", "requeue", job)
	hold()
	c.Must("sbatch", "--partition=high", "--exclusive", "--time=1", "--output=/dev/null", "--wrap", "sleep 1")
	if err := syscall.Kill(hold(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	const last = 10
	retry := submit(last)
	await(t, "the last attempt ends", 2*time.Minute, func() bool {
		_, err := os.Stat(shardPath + ".json")
		return err == nil
	})
	var held []float64 // seconds of each start, as the accounts have it
	await(t, "Slurm has recorded all starts", time.Minute, func() bool {
		time.Sleep(time.Second)
		held = nil
		for line := range strings.Lines(c.Must("sacct", "--duplicates", "-X", "-n", "-P", "-j", job+","+retry, "-o", "Start,End,ElapsedRaw")) {
			fields := strings.Split(strings.TrimSpace(line), "|")
			if seconds, err := strconv.ParseFloat(fields[2], 64); err == nil && fields[0] != "Unknown" && fields[1] != "Unknown" {
				held = append(held, seconds)
			}
		}
		return len(held) == 4
	})

	var report struct {
		Attempts []struct {
			Number  int     `json:"attempt"`
			Seconds float64 `json:"seconds"`
			Fate    string  `json:"fate"`
			GPUs    []struct {
				UUID string `json:"uuid"`
			} `json:"gpus"`
		} `json:"attempts_each"`
		Total struct {
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
	log, _ := os.ReadFile(filepath.Join(c.Dir(), "rollout.log"))
	if len(report.Attempts) != len(held) {
		t.Fatalf("%d attempts: %s\n%s", len(report.Attempts), out, log)
	}
	accounted, lost := 0.0, map[string]float64{}
	for i, a := range report.Attempts {
		accounted += held[i]
		// Slurm counts whole seconds, and a stopped task until it is killed.
		if a.Seconds > held[i]+2 || a.Seconds < held[i]-2 {
			t.Errorf("attempt %d held its GPU for %.1f s, Slurm says %.0f s", a.Number, a.Seconds, held[i])
		}
		fate := []string{"requeued", "preempted", "killed", "kept"}[i]
		if a.Number != []int{0, 1, 2, last}[i] || a.Fate != fate || len(a.GPUs) != 1 || a.GPUs[0].UUID != "GPU-aaaa" {
			t.Errorf("attempt %+v, want it %s", a, fate)
		}
		if fate != "kept" {
			lost[fate] += a.Seconds
		}
	}
	if me, err := user.Current(); err != nil || report.User != me.Username {
		t.Errorf("the jobs are of user %q, want %+v, %v", report.User, me, err)
	}
	// A sample each second: a start may be seen for that much less.
	if starts := float64(len(held)); math.Abs(report.Total.GPUSeconds-accounted) > starts {
		t.Errorf("%.1f GPU-seconds, and the accounts say %.0f", report.Total.GPUSeconds, accounted)
	}
	t.Logf("%.1f GPU-seconds, %.0f by the accounts %v; lost %v", report.Total.GPUSeconds, accounted, held, lost)
	for _, l := range report.Lost {
		if math.Abs(l.Seconds-lost[l.Cause]) > 1e-6 {
			t.Errorf("lost to %s: %.1f s, want %.1f", l.Cause, l.Seconds, lost[l.Cause])
		}
		delete(lost, l.Cause)
	}
	if len(lost) > 0 {
		t.Errorf("not attributed: %v; the report has %+v\n%s", lost, report.Lost, log)
	}
}

// await waits for a condition.
func await(t *testing.T, what string, limit time.Duration, condition func() bool) {
	t.Helper()
	for start := time.Now(); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("%s: never", what)
		}
	}
}

// processOf is the id of a process of a program with an argument, or 0.
func processOf(program, argument string) int {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		content, _ := os.ReadFile(path)
		words := bytes.Split(content, []byte{0})
		if string(words[0]) != program {
			continue
		}
		for _, word := range words {
			if string(word) == argument {
				pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
				return pid
			}
		}
	}
	return 0
}

// argumentOf is the value of a flag of a process.
func argumentOf(t *testing.T, pid int, flag string) string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(string(content), "\x00")
	for i, word := range words {
		if word == flag {
			return words[i+1]
		}
	}
	t.Fatalf("%s is not in %q", flag, words)
	return ""
}
