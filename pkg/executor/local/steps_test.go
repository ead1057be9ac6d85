package local

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/site"
)

func TestSumCounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"4": 4, "4(x3)": 12, "4(x2),1": 9, "16,8(x2),4": 36,
	} {
		if got, err := sumCounts(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "4(x2", "4(x)", "4,", "-1", "0", "4(2)", "999999999(x999999999)", "4x2"} {
		if got, err := sumCounts(text); err == nil || !strings.HasPrefix(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q is %d, %v; want an error that names it", text, got, err)
		}
	}
}

func FuzzSumCounts(f *testing.F) {
	for _, seed := range []string{"4(x2),1", "72", "0(x0)", "1(x1)(x1)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := sumCounts(text); err == nil && got < 1 {
			t.Errorf("%q is %d", text, got)
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
		want              int
	}{
		{"4(x3)", "", "", 12},
		{"", "8", "2", 16},
		{"", "8", "", 8},
		{"", "", "2", 0},
		{"many", "8", "2", 0},
	} {
		t.Setenv("SLURM_JOB_CPUS_PER_NODE", c.list)
		t.Setenv("SLURM_CPUS_ON_NODE", c.node)
		t.Setenv("SLURM_JOB_NUM_NODES", c.nodes)
		got, err := allocatedCores()
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
}

// The words are those of Slurm 22.05's srun, whose refusals end with a line of their own.
func TestRefused(t *testing.T) {
	t.Parallel()
	const said = "srun: error: Unable to create step for job 12: "
	for written, want := range map[string]executor.Cause{
		said + "Memory required by task is not available\n":                                                                       executor.CauseUnavailable,
		"srun: error: Step requested GRES but job doesn't have GRES\n" + said + "Invalid generic resource (gres) specification\n": executor.CauseUnavailable,
		said + "More processors requested than permitted\n":                                                                       executor.CauseUnavailable,
		said + "Job/step already completing or completed\n":                                                                       executor.CauseLaunchFailed, // another moment may do
		said + "More processors requested than permitted\nlathe: failed\n":                                                        "",                         // of an earlier attempt
		"a task said: " + said + "Memory\n exit 1\n":                                                                              "",
		"": "",
	} {
		if cause, evidence := (stepStarter{}).refused(written); cause != want || (evidence == "") != (want == "") {
			t.Errorf("%q: %q, %q", written, cause, evidence)
		}
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

// How srun says that its task has ended: by the task's exit code, by 128 and the signal that
// ended it, or by a signal of its own. Exit code 128 is no signal.
func TestStepEnded(t *testing.T) {
	t.Parallel()
	exited := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	for _, c := range []struct {
		status syscall.WaitStatus
		code   int
		signal syscall.Signal
	}{
		{exited(0), 0, 0},
		{exited(3), 3, 0},
		{exited(128), 128, 0},
		{exited(137), -1, syscall.SIGKILL},
		{syscall.WaitStatus(syscall.SIGTERM), -1, syscall.SIGTERM},
	} {
		if code, signal := (stepStarter{}).ended(c.status); code != c.code || signal != c.signal {
			t.Errorf("status %x: exit code %d, signal %d; want %d and %d", c.status, code, signal, c.code, c.signal)
		}
	}
}
