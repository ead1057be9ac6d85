package monitor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	command "github.com/lathe-rl/lathe/pkg/command/monitor"
	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/monitortest"
	"github.com/lathe-rl/lathe/pkg/phase"
)

// role makes this test binary one of the processes of a test: lathe-monitor, or a
// task that has one beside it.
const role = "LATHE_TEST_ROLE"

// ready names the file in which the monitor of a test writes its process at its
// second look: it listens to signals then, and has a sample.
const ready = "LATHE_TEST_READY"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "task":
		playTask()
	default:
		if os.Getenv("LD_BIND_NOW") != "" {
			os.Exit(3) // go-nvml's library would not even be looked for
		}
		os.Exit(cmdline.Main(command.App(open), os.Args))
	}
}

// open is the sampler of one GPU whose number of the look is what it says.
func open(given monitor.Devices) monitor.Sampler { return &counting{given: given} }

type counting struct {
	given monitor.Devices
	looks int
}

func (*counting) Kind() string { return "counting" }
func (*counting) Close()       {}

func (c *counting) Read(_ time.Time, add func(monitor.Reading)) {
	if strings.HasSuffix(c.given.Given, "=") {
		add(monitor.Reading{Name: monitor.Fault, Value: 28, Detail: "there is no GPU"})
		return
	}
	if c.looks++; c.looks == 2 && os.Getenv(ready) != "" {
		_ = os.WriteFile(os.Getenv(ready), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o666)
	}
	add(monitor.Reading{Device: "GPU-a", Name: monitor.DeviceName, Detail: "NVIDIA A"})
	add(monitor.Reading{Device: "GPU-a", Name: monitor.UtilizationShare, Value: float64(c.looks) / 1000})
	add(monitor.Reading{Device: "GPU-a", Name: monitor.MemoryUsedBytes, Value: 1 << 30})
	add(monitor.Reading{Device: "GPU-a", Name: monitor.MemoryTotalBytes, Value: 2 << 30})
}

// playTask loads, decodes until its input ends, and leaves.
func playTask() {
	// The monitor is this binary too, in its other role.
	_ = os.Setenv(role, "monitor")
	leave := monitor.Beside(os.Args[1], "rollout-000001-00003", func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	_ = os.Unsetenv(role)
	done := phase.Enter(phase.Load)
	time.Sleep(100 * time.Millisecond)
	done()
	phase.Mark(phase.Decode)
	_, _ = io.Copy(io.Discard, os.Stdin)
	phase.Mark(phase.Seal)
	leave()
	os.Exit(7)
}

// process is a task of a test.
type process struct {
	*exec.Cmd
	input io.WriteCloser
	talk  *bytes.Buffer
}

func start(t *testing.T, as string, environment []string, args ...string) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := process{Cmd: exec.Command(self, args...), talk: &bytes.Buffer{}}
	p.Env = append(append(os.Environ(), role+"="+as), environment...)
	p.Stdout, p.Stderr = p.talk, p.talk
	p.WaitDelay = 10 * time.Second // a monitor that is left to itself has its standard error
	if p.input, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

func startTask(t *testing.T, run string) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, "task", []string{monitor.Variable + "=" + self, monitor.CoresVariable + "=3", "LD_BIND_NOW=1", ready + "=" + filepath.Join(run, "ready")}, run)
}

// monitorOf is the process beside a task, once it has looked twice.
func monitorOf(t *testing.T, run string) int {
	t.Helper()
	var pid int
	await.Until(t, "the monitor looks twice", func() bool {
		content, _ := os.ReadFile(filepath.Join(run, "ready"))
		if !strings.HasSuffix(string(content), "\n") {
			return false
		}
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil
	})
	return pid
}

// A task that ends has its samples, up to its end and with what it did, and its own
// exit code.
func TestBesideATask(t *testing.T) {
	t.Parallel()
	run := monitortest.Run(t)
	task := startTask(t, run)
	monitorOf(t, run)
	time.Sleep(600 * time.Millisecond) // to decode for some time
	task.input.Close()
	if err := task.Wait(); task.ProcessState.ExitCode() != 7 || task.talk.Len() > 0 {
		t.Fatalf("%v: %s", err, task.talk)
	}
	got := monitortest.Samples(t, run)
	spent := map[string]float64{}
	for _, row := range got[monitor.PhaseSeconds] {
		spent[row.Detail] += row.Value
	}
	if spent["load"] < 0.09 || spent["decode"] < 0.5 {
		t.Errorf("the phases are %v", spent)
	}
	if len(got[monitor.UtilizationShare]) < 2 || got[monitor.Cores][0].Value != 3 {
		t.Errorf("there are %d samples of the GPU, and %+v", len(got[monitor.UtilizationShare]), got[monitor.Cores])
	}
	for _, row := range got[monitor.MonitorMemoryBytes] {
		if row.Value <= 1<<20 || row.Value >= 20<<20 {
			t.Errorf("the monitor has %v bytes of memory of its own", row.Value)
		}
	}
	if len(got[monitor.MonitorMemoryBytes]) == 0 {
		t.Error("the monitor's memory is not sampled")
	}
	for _, row := range got[monitor.UtilizationShare] {
		if row.Task != "rollout-000001-00003" || row.Device != "GPU-a" {
			t.Errorf("a sample is %+v", row)
		}
	}
	if last := got[monitor.UtilizationShare]; last[len(last)-1].Phase != "decode" && last[len(last)-1].Phase != "seal" {
		t.Errorf("the last sample is %+v", last[len(last)-1])
	}
}

// A monitor outlives a task that is killed, by as long as it takes to seal.
func TestTaskIsKilled(t *testing.T) {
	t.Parallel()
	run := monitortest.Run(t)
	task := startTask(t, run)
	pid := monitorOf(t, run)
	if err := task.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = task.Wait()
	await.Until(t, "the samples are sealed", func() bool { return len(monitortest.Samples(t, run)[monitor.UtilizationShare]) > 0 })
	await.Until(t, "the monitor ends", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(status, []byte(") Z "))
	})
}

// A monitor that is killed takes nothing with it but what it had not sealed: a
// signal has it seal, as a batch system's warning does, and go on.
func TestMonitorIsKilled(t *testing.T) {
	t.Parallel()
	run := monitortest.Run(t)
	task := startTask(t, run)
	pid := monitorOf(t, run)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a segment is sealed", func() bool { return len(monitortest.Samples(t, run)[monitor.UtilizationShare]) > 0 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("the monitor went at a warning: %v", err)
	}
	task.input.Close()
	_ = task.Wait()
	if task.ProcessState.ExitCode() != 7 || !strings.Contains(task.talk.String(), "killed") {
		t.Errorf("the task ended with %d and said %q", task.ProcessState.ExitCode(), task.talk)
	}
	if len(monitortest.Samples(t, run)[monitor.UtilizationShare]) == 0 {
		t.Error("what was sealed is gone")
	}
}

// A program that is not there is said, and the task goes on.
func TestNoMonitor(t *testing.T) {
	t.Parallel()
	task := start(t, "task", []string{monitor.Variable + "=/nowhere/lathe-monitor"}, monitortest.Run(t))
	task.input.Close()
	_ = task.Wait()
	if task.ProcessState.ExitCode() != 7 || !strings.Contains(task.talk.String(), "lathe-monitor did not start") {
		t.Errorf("the task ended with %d and said %q", task.ProcessState.ExitCode(), task.talk)
	}
}

// A monitor that a person starts beside a process ends with it.
func TestByHand(t *testing.T) {
	t.Parallel()
	run := monitortest.Run(t)
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	p := start(t, "monitor", []string{ready + "=" + filepath.Join(run, "ready")}, "--run", run, "--pid", strconv.Itoa(sleeper.Process.Pid), "--every", "100ms")
	monitorOf(t, run)
	_ = sleeper.Process.Kill()
	_ = sleeper.Wait()
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.talk)
	}
	if got := monitortest.Samples(t, run); len(got[monitor.UtilizationShare]) == 0 || len(got[monitor.HostMemoryBytes]) == 0 {
		t.Errorf("the samples are %v", got)
	}
}

// What people see, and what programs get.
func TestShow(t *testing.T) {
	t.Parallel()
	run := func(environment []string, args ...string) (int, string) {
		p := start(t, "monitor", environment, args...)
		p.input.Close()
		_ = p.Wait()
		return p.ProcessState.ExitCode(), p.talk.String()
	}
	code, out := run(nil, "--json")
	var gpus []command.GPU
	if err := json.Unmarshal([]byte(out), &gpus); err != nil || code != 0 || len(gpus) != 1 || gpus[0].Name != "NVIDIA A" || *gpus[0].UtilizationShare != 0.001 || gpus[0].PowerWatts != nil {
		t.Errorf("%d: %v: %s", code, err, out)
	}
	if code, out := run(nil); code != 0 || !strings.Contains(out, "1.0 of 2.0 GiB") || !strings.Contains(out, "-") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out := run(nil, "watch", "--count", "2", "--every", "100ms"); code != 0 || strings.Count(out, "GPU-a") != 2 || !strings.Contains(out, "cores busy") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out := run([]string{"CUDA_VISIBLE_DEVICES="}, "watch", "--count", "1", "--json"); code != 0 || !strings.Contains(out, `"gpus":[],"faults":["there is no GPU"]`) {
		t.Errorf("%d: %s", code, out)
	}
	for _, c := range []struct {
		code int
		say  string
		args []string
	}{
		{64, "--every: got 1ms", []string{"--every", "1ms"}},
		{64, "--pid: got -1", []string{"--pid", "-1"}},
		{64, "is not running", []string{"--run", monitortest.Run(t), "--pid", "999999999"}},
		{65, "is not a run", []string{"--run", t.TempDir()}},
		{64, "--count: got -1", []string{"watch", "--count", "-1"}},
	} {
		if code, out := run(nil, c.args...); code != c.code || !strings.Contains(out, c.say) {
			t.Errorf("%v: %d: %s", c.args, code, out)
		}
	}
}
