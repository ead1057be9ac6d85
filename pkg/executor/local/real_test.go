package local

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/devcluster"
	"github.com/lathe-rl/lathe/pkg/site"
)

// stepReport is what the test program inside the allocation writes.
type stepReport struct {
	Cores   int
	Results map[string][]executor.Result
}

// runSteps is the test program inside the allocation: LATHE_TEST_REPORT names
// the file that it writes.
func runSteps() int {
	path := os.Getenv("LATHE_TEST_REPORT")
	logs := filepath.Dir(path)
	report := stepReport{Results: map[string][]executor.Result{}}
	for i, c := range []struct {
		task   string
		shards []int
		cpus   int
		gpus   int
		memory float64 // GB; 0.05 where it is 0
	}{
		{task: "env=SLURM_JOB_NUM_NODES,env=SLURM_CPUS_PER_TASK,env=CUDA_VISIBLE_DEVICES,sleep=1s", shards: []int{0, 1, 2, 3, 4, 5}, cpus: 1},
		{task: "env=CUDA_VISIBLE_DEVICES,sleep=500ms", shards: []int{0, 1}, cpus: 1, gpus: 1},
		{task: "env=SLURM_CPUS_PER_TASK", shards: []int{0}, cpus: 2},
		{task: "exit=65", shards: []int{0}, cpus: 1},
		{task: "kill=9", shards: []int{0}, cpus: 1},
		{task: "await", shards: []int{0}, cpus: 1},
		{task: "ignore", shards: []int{0}, cpus: 1},
		{task: "echo=cores", shards: []int{0}, cpus: 3},
		{task: "echo=gpus", shards: []int{0}, cpus: 1, gpus: 3},
		{task: "echo=memory", shards: []int{0}, cpus: 1, memory: 5},
	} {
		pool, err := NewSteps(context.Background(), site.Resolved{Site: site.Default()})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		pool.Grace = 4 * time.Second
		report.Cores = pool.Cores()
		array := testArray(logs, c.task, c.shards...)
		array.Iteration, array.CPUs, array.GPUs, array.MemoryGB = i, c.cpus, c.gpus, cmp.Or(c.memory, 0.05)
		ctx, cancel := context.WithCancel(context.Background())
		if c.task == "await" || c.task == "ignore" {
			go func() {
				for range 500 {
					if content, _ := os.ReadFile(array.Log(0)); strings.Contains(string(content), "ready") {
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
				cancel()
			}()
		}
		results := make(chan executor.Result, len(c.shards))
		err = pool.Launch(ctx, array, func(r executor.Result) { results <- r })
		_ = pool.Close()
		cancel()
		if err != nil {
			fmt.Println(err)
			return 1
		}
		close(results)
		for r := range results {
			report.Results[c.task] = append(report.Results[c.task], r)
		}
	}
	content, err := json.Marshal(report)
	if err != nil || os.WriteFile(path, content, 0o666) != nil {
		return 1
	}
	return 0
}

// Alone: its Slurm takes every core.
func TestRealSteps(t *testing.T) {
	dev := devcluster.Start(t, "--nodes", "2", "--cpus", "2")
	logs := t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(logs, "report.json")
	cmd := exec.Command("sbatch", "--wait", "--nodes=2", "--ntasks=2", "--cpus-per-task=2", "--mem=1000M", "--gres=gpu:2",
		"--output="+filepath.Join(logs, "job.log"), "--wrap", "exec "+binary)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+dev.Conf(), "LATHE_TEST_TASK=steps", "LATHE_TEST_REPORT="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s%s", err, out, read(t, filepath.Join(logs, "job.log")))
	}
	var report stepReport
	if err := json.Unmarshal([]byte(read(t, path)), &report); err != nil {
		t.Fatal(err)
	}
	if report.Cores != 4 {
		t.Errorf("the allocation has %d cores, want 4", report.Cores)
	}
	check := func(task string, cause executor.Cause, exit int, signal string) []executor.Result {
		t.Helper()
		for _, r := range report.Results[task] {
			if r.Cause != cause || r.Exit != exit || r.Signal != signal {
				t.Errorf("%s: result is %+v, want %s, exit code %d, signal %q; its log is %q", task, r, cause, exit, signal, read(t, r.Log))
			}
		}
		if len(report.Results[task]) == 0 {
			t.Errorf("%s: no result", task)
		}
		return report.Results[task]
	}
	many := check("env=SLURM_JOB_NUM_NODES,env=SLURM_CPUS_PER_TASK,env=CUDA_VISIBLE_DEVICES,sleep=1s", executor.CauseOK, 0, "")
	if at := most(many); at != 4 {
		t.Errorf("%d tasks ran at once, want 4", at)
	}
	for _, r := range many {
		if log := read(t, r.Log); !strings.Contains(log, `SLURM_CPUS_PER_TASK="1"`) || !strings.Contains(log, `CUDA_VISIBLE_DEVICES=""`) {
			t.Errorf("the log of a task of one core and no GPU is %q", log)
		}
	}
	for _, r := range check("env=CUDA_VISIBLE_DEVICES,sleep=500ms", executor.CauseOK, 0, "") {
		if log := read(t, r.Log); !strings.Contains(log, `="0"`) && !strings.Contains(log, `="1"`) {
			t.Errorf("the log of a task of one GPU is %q", log)
		}
	}
	check("env=SLURM_CPUS_PER_TASK", executor.CauseOK, 0, "")
	check("exit=65", executor.CauseData, 65, "")
	check("kill=9", executor.CauseFailed, -1, "SIGKILL")
	for _, r := range check("await", executor.CauseStopped, 75, "") {
		if log := read(t, r.Log); !strings.Contains(log, "got user defined signal 2") {
			t.Errorf("the log of a task that was told to stop is %q", log)
		}
	}
	check("ignore", executor.CauseStopped, -1, "SIGKILL")
	for _, more := range []string{"echo=cores", "echo=gpus", "echo=memory"} { // than a node of the allocation has
		check(more, executor.CauseUnavailable, 1, "")
	}
}

// The first controller job finds its binary and hands over its arguments; nothing of
// Lathe itself is under test.
//
// Alone: its Slurm takes every core.
func TestRealTrainScript(t *testing.T) {
	dev := devcluster.Start(t, "--nodes", "1")
	folder := t.TempDir()
	train, err := filepath.Abs("../../../slurm/train.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "lathe"), []byte("#!/bin/bash\nprintf '[%s]' \"$@\"\nexit 3\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{
			[]string{"jobs/x.yaml", "runs/a b", "--set", "rollout.shards=3"},
			3,
			"[advance][--recipe][jobs/x.yaml][--run][runs/a b][--executor][slurm][--set][rollout.shards=3]",
		},
		{[]string{"jobs/x.yaml"}, 3, "[advance][--recipe][jobs/x.yaml][--run][runs/2][--executor][slurm]"},
		{nil, 3, "/jobs/quickstart.yaml][--run][runs/3][--executor][slurm]"},
	} {
		cmd := exec.Command("sbatch", append([]string{"--wait", "--output=log", train}, c.args...)...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "SLURM_CONF="+dev.Conf(), "LATHE_BIN="+folder)
		_, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%q: %v, want exit code %d", c.args, err, c.code)
		}
		if log := read(t, filepath.Join(folder, "log")); !strings.Contains(log, c.says) {
			t.Errorf("%q: the log is %q, want %q", c.args, log, c.says)
		}
	}
}
