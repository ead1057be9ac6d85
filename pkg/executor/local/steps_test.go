package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/site"
)

func TestSumCounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		"4": {4, 4}, "4(x3)": {12, 4}, "4(x2),1": {9, 4}, "2,8(x2),4": {22, 8},
	} {
		if all, most, err := sumCounts(text); err != nil || all != want[0] || most != want[1] {
			t.Errorf("%q is %d, at most %d, %v; want %d", text, all, most, err, want)
		}
	}
	for _, text := range []string{"", "x", "4(x2", "4(x)", "4,", "-1", "0", "4(2)", "999999999(x999999999)", "4x2"} {
		if got, _, err := sumCounts(text); err == nil || !strings.HasPrefix(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q is %d, %v; want an error that names it", text, got, err)
		}
	}
}

func FuzzSumCounts(f *testing.F) {
	for _, seed := range []string{"4(x2),1", "72", "0(x0)", "1(x1)(x1)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if all, most, err := sumCounts(text); err == nil && (most < 1 || all < most) {
			t.Errorf("%q is %d, at most %d", text, all, most)
		}
	})
}

func TestStepsNeedAnAllocation(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "")
	if _, err := NewSteps(t.Context(), site.Resolved{}); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("error is %v, want one of code %d", err, exitcode.Unavailable)
	}
}

func TestAllocatedCores(t *testing.T) {
	for _, c := range []struct {
		list, node, nodes string
		all, widest       int
	}{
		{"4(x3),2", "", "", 14, 4},
		{"", "8", "2", 16, 8},
		{"", "8", "", 8, 8},
		{"", "", "2", 0, 0},
		{"many", "8", "2", 0, 0},
	} {
		t.Setenv("SLURM_JOB_CPUS_PER_NODE", c.list)
		t.Setenv("SLURM_CPUS_ON_NODE", c.node)
		t.Setenv("SLURM_JOB_NUM_NODES", c.nodes)
		all, widest, err := allocatedCores()
		if all != c.all || widest != c.widest || (err == nil) != (c.all > 0) {
			t.Errorf("%+v: %d, %d, %v", c, all, widest, err)
		}
	}
}

// A step has its cores on one node: Slurm would refuse it however often it is tried.
func TestStepWiderThanItsNodes(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "srun"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"PATH": bin, "SLURM_JOB_ID": "12", "SLURM_JOB_CPUS_PER_NODE": "2,4"} {
		t.Setenv(name, value)
	}
	pool, err := NewSteps(t.Context(), site.Resolved{Site: site.Default()})
	if err != nil || pool.Cores() != 6 {
		t.Fatal(pool, err)
	}
	array := testArray(t.TempDir(), "exit=0", 0)
	array.CPUs = 5
	err = pool.Launch(t.Context(), array, func(r executor.Result) { t.Errorf("%+v", r) })
	if want := "requests 5 cores; a node of this allocation has at most 4"; exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want ... %s", err, want)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

func TestStepCommand(t *testing.T) {
	for name, value := range map[string]string{
		"SLURM_JOB_ID": "12", "SLURM_CONF": "/etc/slurm.conf", "SLURM_CPUS_PER_TASK": "9", "SLURM_MEM_PER_NODE": "99",
		"SRUN_CPUS_PER_TASK": "9", "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0,1",
		"OTHER": "kept", "LATHE_ATTEMPT": "7",
	} {
		t.Setenv(name, value)
	}
	site := site.Default()
	site.Stages.Rollout.GPUType = "h100"
	array := executor.Array{
		Stage: "rollout", Iteration: 2, Attempt: 1, Shards: []int{5}, Command: []string{"/bin/lathe-rollout", "--run", "/r"},
		CPUs: 3, MemoryGB: 2, GPUs: 1, LogDir: "/r/logs",
	}
	cmd := stepStarter{srun: "/usr/bin/srun", site: site}.command(array, 5)
	want := "/usr/bin/srun --exclusive --exact --nodes=1 --ntasks=1 --cpus-per-task=3 --job-name=rollout-000002 --kill-on-bad-exit=0" +
		" --quiet --input=none --mem=2048M --gres=gpu:h100:1 /bin/lathe-rollout --run /r --shard 5"
	if got := strings.Join(cmd.Args, " "); got != want {
		t.Errorf("command is\n%s, want\n%s", got, want)
	}
	env := map[string]string{}
	for _, entry := range cmd.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"SLURM_JOB_ID": "12", "SLURM_CONF": "/etc/slurm.conf", "OTHER": "kept", "LATHE_ATTEMPT": "1",
		"SLURM_CPUS_PER_TASK": "", "SLURM_MEM_PER_NODE": "", "SRUN_CPUS_PER_TASK": "", "SLURM_ARRAY_TASK_ID": "", "CUDA_VISIBLE_DEVICES": "",
	} {
		if env[name] != want {
			t.Errorf("the step sees %s=%q, want %q", name, env[name], want)
		}
	}
	array.GPUs, array.MemoryGB = 0, 0
	cmd = stepStarter{srun: "srun", site: site}.command(array, 5)
	if got := strings.Join(cmd.Args, " "); !strings.Contains(got, "--gres=none") || strings.Contains(got, "--mem") {
		t.Errorf("a step without GPUs would take those of the allocation: %s", got)
	}
}
