package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
)

// TestSlurmMonitor has a task with a GPU on a real Slurm, with the driver's library
// of tests. Slurm requeues it while it works; the monitor seals what it saw up to
// then, and what the report says was held, and was lost, is what Slurm says.
func TestSlurmMonitor(t *testing.T) {
	bin := commandtest.Build(t)
	library := nvmltest.Build(t, false)
	script := nvmltest.WriteScript(t, "0 uuid GPU-aaaa\n0 name NVIDIA H100\n0 memory 100\n0 memory_total 200\n0 utilization 50\n0 power 300000\n1 uuid GPU-bbbb\n1 name NVIDIA H100\n1 memory 1\n")
	build := exec.Command("go", "build", "-ldflags", "-extldflags=-Wl,-z,lazy", "-o", bin+"/", "./cmd/lathe-monitor")
	build.Dir = commandtest.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building lathe-monitor: %v\n%s", err, out)
	}
	c := commandtest.StartCluster(t, bin, "--nodes", "1")
	dir := filepath.Join(t.TempDir(), "run")
	c.Must(filepath.Join(bin, "lathe"), append([]string{"run", "jobs/smoke.yaml", "--run", dir}, commandtest.Set("schedule.iterations=1", "rollout.prompts=1000", "rollout.shards=1")...)...)
	shardPath := filepath.Join(dir, "iter", "000001", "rollout", "00000.parquet")
	for _, path := range []string{shardPath, shardPath + ".json"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	task := fmt.Sprintf("exec %s/lathe-rollout --run %s --iteration 1 --shard 0", bin, dir)
	job := strings.TrimSpace(c.Must("env", monitor.Variable+"="+filepath.Join(bin, "lathe-monitor"), nvmltest.Script+"="+script, "LD_LIBRARY_PATH="+filepath.Dir(library),
		"sbatch", "--parsable", "--gres=gpu:1", "--requeue", "--open-mode=append", "--output="+filepath.Join(c.Dir(), "rollout.log"), "--wrap", task))

	// It stands still as soon as its monitor has started, and holds its GPU.
	var pid int
	await(t, "the task starts", time.Minute, func() bool {
		pid = processOf(filepath.Join(bin, "lathe-monitor"), dir)
		return pid != 0
	})
	stopped, err := strconv.Atoi(argumentOf(t, pid, "--pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	c.Must("scontrol", "requeue", job)
	await(t, "the second attempt ends", 2*time.Minute, func() bool {
		_, err := os.Stat(shardPath + ".json")
		return err == nil
	})
	record := regexp.MustCompile(`JobId=` + job + ` .*JobState=(\w+) .*StartTime=(\S+) EndTime=(\S+) `)
	var ended [][]string
	await(t, "Slurm has recorded both", time.Minute, func() bool {
		content, _ := os.ReadFile(filepath.Join(c.Dir(), "jobcomp.txt"))
		ended = record.FindAllStringSubmatch(string(content), -1)
		return len(ended) == 2
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
			Seconds float64 `json:"gpu_seconds"`
		} `json:"lost"`
	}
	out := c.Must("bash", "-c", fmt.Sprintf("%s/lathe gpu-report %s --json 2>/dev/null", bin, dir))
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log, _ := os.ReadFile(filepath.Join(c.Dir(), "rollout.log"))
	if len(report.Attempts) != 2 {
		t.Fatalf("%d attempts: %s\n%s", len(report.Attempts), out, log)
	}
	for i, a := range report.Attempts {
		start, errStart := time.Parse("2006-01-02T15:04:05", ended[i][2])
		end, errEnd := time.Parse("2006-01-02T15:04:05", ended[i][3])
		if errStart != nil || errEnd != nil {
			t.Fatalf("Slurm says %q", ended[i])
		}
		// Slurm counts whole seconds, and a stopped task until it is killed.
		if held := end.Sub(start).Seconds(); a.Seconds > held+2 || a.Seconds < held-2 {
			t.Errorf("attempt %d held its GPU for %.1f s, Slurm says %.0f s", a.Number, a.Seconds, held)
		}
		if a.Number != i || a.Fate != []string{"preempted", "kept"}[i] || len(a.GPUs) != 1 || a.GPUs[0].UUID != "GPU-aaaa" {
			t.Errorf("attempt %+v", a)
		}
	}
	if first := report.Attempts[0].Seconds; first < 2 || len(report.Lost) != 1 || report.Lost[0].Cause != "preempted" || report.Lost[0].Seconds != first {
		t.Errorf("lost %+v of %.1f s\n%s", report.Lost, first, log)
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
