package executor

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/site"
)

func TestLogNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		array Array
		shard int
		want  string
	}{
		{Array{Stage: "rollout", Iteration: 1}, 7, "/r/logs/rollout-000001-00007.0.log"},
		{Array{Stage: "learn", Iteration: 12, Attempt: 3}, 0, "/r/logs/learn-000012-00000.3.log"},
		{Array{Stage: "learn", Iteration: 12, Step: 2}, 0, "/r/logs/learn-000012-step002-00000.0.log"},
		{Array{Stage: "learn", Iteration: 12, Step: 1}, 0, "/r/logs/learn-000012-step001-00000.0.log"},
		{Array{Stage: "score", Iteration: 12, Wave: 1}, 0, "/r/logs/score-000012-w01-00000.0.log"},
		{Array{Stage: "reduce", Iteration: 12}, 0, "/r/logs/reduce-000012-step000-00000.0.log"},
		{Array{Stage: "gradient", Iteration: 12}, 100000, "/r/logs/gradient-000012-step000-100000.0.log"},
	} {
		c.array.LogDir = "/r/logs"
		if got := c.array.Log(c.shard); got != c.want {
			t.Errorf("log is %s, want %s", got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := Array{Stage: "score", Shards: []int{0, 1}, Command: []string{"lathe-score"}, CPUs: 1, LogDir: "/r/logs"}
	if err := good.Validate(); err != nil {
		t.Errorf("a good array: %v", err)
	}
	for name, spoil := range map[string]func(*Array){
		"no command":         func(a *Array) { a.Command = nil },
		"no shards":          func(a *Array) { a.Shards = nil },
		"does not pass them": func(a *Array) { a.NoShard = true },
		"requests 0 cores":   func(a *Array) { a.CPUs = 0 },
		"negative amount":    func(a *Array) { a.GPUs = -1 },
		"is not absolute":    func(a *Array) { a.LogDir = "logs" },
		"minutes -1":         func(a *Array) { a.Minutes = -1 },
		"memory -1 GiB":      func(a *Array) { a.MemoryGB = -1 },
		"GiB, attempt -1":    func(a *Array) { a.Attempt = -1 },
		"has 2 tasks":        func(a *Array) { a.NoShard = true },
		"array score-00000":  func(a *Array) { a.Command = nil },
	} {
		bad := good
		spoil(&bad)
		err := bad.Validate()
		if exitcode.Code(err) != exitcode.Bug || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want a bug with %q", err, name)
		}
	}
}

// The codes are those of package exitcode; signals are those of a batch system.
func TestCauseOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   int
		signal syscall.Signal
		want   Cause
	}{
		{0, 0, CauseOK},
		{1, 0, CauseFailed},
		{2, 0, CauseFailed},
		{3, 0, CauseFailed},
		{64, 0, CauseUsage},
		{65, 0, CauseData},
		{69, 0, CauseUnavailable},
		{70, 0, CauseBug},
		{74, 0, CauseIO},
		{75, 0, CauseStopped},
		{126, 0, CauseLaunchFailed},
		{127, 0, CauseLaunchFailed},
		{-1, syscall.SIGTERM, CauseStopped},
		{-1, syscall.SIGUSR2, CauseStopped},
		{-1, syscall.SIGKILL, CauseFailed},
		{-1, syscall.SIGSEGV, CauseFailed},
		{-1, syscall.Signal(63), CauseFailed},
	} {
		cause, evidence := CauseOf(c.code, c.signal)
		if cause != c.want {
			t.Errorf("exit code %d, signal %d is %s, want %s", c.code, c.signal, cause, c.want)
		}
		if evidence == "" || strings.Contains(evidence, "panic") != (c.code == 2) {
			t.Errorf("exit code %d, signal %d has the evidence %q", c.code, c.signal, evidence)
		}
		if c.signal == 0 && c.want != CauseFailed && c.want != CauseLaunchFailed && c.want.ExitCode() != c.code {
			t.Errorf("cause %s has exit code %d, want %d", c.want, c.want.ExitCode(), c.code)
		}
	}
	for signal, want := range map[syscall.Signal]string{syscall.SIGUSR2: "SIGUSR2", syscall.SIGKILL: "SIGKILL", 63: "signal 63"} {
		if got := SignalName(signal); got != want {
			t.Errorf("signal %d is named %q, want %q", signal, got, want)
		}
	}
	if code := CauseNodeFail.ExitCode(); code != exitcode.Failed {
		t.Errorf("a node failure has exit code %d, want %d", code, exitcode.Failed)
	}
}

func TestEnviron(t *testing.T) {
	t.Setenv("LATHE_TEST_KEPT", "1")
	t.Setenv("LATHE_TEST_DROPPED", "1")
	t.Setenv("LATHE_TEST_REPLACED", "old")
	env := Environ(func(name string) bool { return name == "LATHE_TEST_DROPPED" }, map[string]string{"LATHE_TEST_REPLACED": "new=1"})
	var got []string
	for _, entry := range env {
		if strings.HasPrefix(entry, "LATHE_TEST_") && !strings.HasPrefix(entry, "LATHE_TEST_SLURM") {
			got = append(got, entry)
		}
	}
	slices.Sort(got)
	if want := []string{"LATHE_TEST_KEPT=1", "LATHE_TEST_REPLACED=new=1"}; !slices.Equal(got, want) {
		t.Errorf("environment has %q, want %q", got, want)
	}
}

func TestResourceFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		site site.Profile
		gpus int
		want string
	}{
		{site.Profile{GPUFlag: "gres"}, 0, ""},
		{site.Profile{GPUFlag: "gres"}, 2, "--gres=gpu:2"},
		{site.Profile{GPUFlag: "gres", GPUType: "h100"}, 1, "--gres=gpu:h100:1"},
		{site.Profile{GPUFlag: "gpus"}, 4, "--gpus=4"},
		{site.Profile{GPUFlag: "gpus-per-node", GPUType: "a100"}, 4, "--gpus-per-node=a100:4"},
		{site.Profile{GPUFlag: "gpus-per-task"}, 4, "--gpus-per-task=4"},
		{site.Profile{GPUFlag: "none"}, 4, ""},
		{site.Profile{GPUFlag: "gpus", Skip: []string{"--gpus"}}, 4, ""},
	} {
		if got := GPUFlag(c.site, c.gpus); got != c.want {
			t.Errorf("%d GPUs by %q are asked for by %q, want %q", c.gpus, c.site.GPUFlag, got, c.want)
		}
	}
	for _, c := range []struct {
		site   site.Profile
		memory float64
		want   string
	}{
		{site.Profile{MemoryFlag: true}, 0, ""},
		{site.Profile{MemoryFlag: true}, 1.5, "--mem=1536M"},
		{site.Profile{MemoryFlag: true}, 0.0001, "--mem=1M"},
		{site.Profile{}, 1.5, ""},
		{site.Profile{MemoryFlag: true, Skip: []string{"--mem"}}, 1.5, ""},
	} {
		if got := MemoryFlag(c.site, c.memory); got != c.want {
			t.Errorf("%g GiB are asked for by %q, want %q", c.memory, got, c.want)
		}
	}
}
