package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestMain lets the test binary play the tasks: what a task does is in
// LATHE_TEST_TASK.
func TestMain(m *testing.M) {
	switch task := os.Getenv("LATHE_TEST_TASK"); task {
	case "":
		goleak.VerifyTestMain(m)
	case "steps":
		os.Exit(runSteps())
	default:
		os.Exit(play(task, os.Args[1:]))
	}
}

// play runs a test task: words separated by commas, in turn.
func play(task string, args []string) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR2)
	for word := range strings.SplitSeq(task, ",") {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "say":
			fmt.Println(value, args, "attempt", os.Getenv("LATHE_ATTEMPT"))
		case "env":
			fmt.Printf("%s=%q\n", value, os.Getenv(value))
		case "sleep":
			duration, _ := time.ParseDuration(value)
			time.Sleep(duration)
		case "await": // a request to stop, which is obeyed
			fmt.Println("ready")
			fmt.Println("got", <-signals)
			return exitcode.Stopped
		case "ignore":
			fmt.Println("ready")
			time.Sleep(time.Minute)
		case "child": // leaves a process behind
			child := exec.Command("sleep", "60")
			if err := child.Start(); err != nil {
				return 1
			}
			fmt.Println("child", child.Process.Pid)
		case "pool": // runs a task that waits, in a pool of its own
			pool := New(1)
			done := make(chan executor.Result)
			array := testArray(value, "await", 0)
			if err := pool.Launch(context.Background(), array, func(r executor.Result) { done <- r }); err != nil {
				return 1
			}
			<-done
		case "kill":
			signal.Reset()
			number, _ := strconv.Atoi(value)
			_ = syscall.Kill(os.Getpid(), syscall.Signal(number))
			time.Sleep(time.Minute)
		case "exit":
			code, _ := strconv.Atoi(value)
			return code
		}
	}
	return 0
}

func testArray(logs, task string, shards ...int) executor.Array {
	binary, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return executor.Array{
		Run: "test", Stage: "rollout", Iteration: 1, Shards: shards, Command: []string{binary}, CPUs: 1,
		LogDir: logs, Env: map[string]string{"LATHE_TEST_TASK": task},
	}
}

// launch runs an array to its end and returns the results by shard.
func launch(ctx context.Context, t *testing.T, p *Pool, array executor.Array) []executor.Result {
	t.Helper()
	var mu sync.Mutex
	var results []executor.Result
	err := p.Launch(ctx, array, func(r executor.Result) {
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	sort.Slice(results, func(i, j int) bool { return results[i].Shard < results[j].Shard })
	if len(results) != len(array.Shards) {
		t.Fatalf("%d results for %d tasks", len(results), len(array.Shards))
	}
	return results
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestTasksRunAndLogsAreKept(t *testing.T) {
	t.Setenv("SLURM_ARRAY_TASK_ID", "99")
	t.Setenv("SLURM_RESTART_COUNT", "4")
	logs := filepath.Join(t.TempDir(), "run", "logs")
	array := testArray(logs, "say=hello,env=SLURM_ARRAY_TASK_ID,env=SLURM_RESTART_COUNT,env=OWN", 3, 8)
	array.Attempt = 2
	array.Env["OWN"] = "a b"
	for range 2 { // the second time appends
		for _, r := range launch(t.Context(), t, New(2), array) {
			if r.Cause != executor.CauseOK || r.Exit != 0 || r.Signal != "" || r.End.Before(r.Start) {
				t.Errorf("result is %+v, want ok", r)
			}
		}
	}
	once := "hello [--shard 8] attempt 2\nSLURM_ARRAY_TASK_ID=\"\"\nSLURM_RESTART_COUNT=\"\"\nOWN=\"a b\"\n"
	if got := read(t, filepath.Join(logs, "rollout-000001-00008.2.log")); got != once+once {
		t.Errorf("log is %q, want %q twice", got, once)
	}
}

func TestNoShard(t *testing.T) {
	t.Parallel()
	array := testArray(t.TempDir(), "say=hello", 0)
	array.NoShard = true
	r := launch(t.Context(), t, New(1), array)[0]
	if got := read(t, r.Log); got != "hello [] attempt 0\n" {
		t.Errorf("log is %q", got)
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]executor.Result{
		"exit=0":   {Cause: executor.CauseOK},
		"exit=1":   {Cause: executor.CauseFailed, Exit: 1},
		"exit=65":  {Cause: executor.CauseData, Exit: 65},
		"exit=75":  {Cause: executor.CauseStopped, Exit: 75},
		"kill=9":   {Cause: executor.CauseFailed, Exit: -1, Signal: "SIGKILL"},
		"kill=15":  {Cause: executor.CauseStopped, Exit: -1, Signal: "SIGTERM"},
		"exit=200": {Cause: executor.CauseFailed, Exit: 200},
	} {
		r := launch(t.Context(), t, New(1), testArray(t.TempDir(), task, 0))[0]
		if r.Cause != want.Cause || r.Exit != want.Exit || r.Signal != want.Signal || r.Evidence == "" {
			t.Errorf("%s: result is %+v, want cause %s, exit %d, signal %q", task, r, want.Cause, want.Exit, want.Signal)
		}
	}
}

// most is the largest number of tasks that ran at once.
func most(results []executor.Result) int {
	type edge struct {
		at    time.Time
		delta int
	}
	var edges []edge
	for _, r := range results {
		edges = append(edges, edge{r.Start, 1}, edge{r.End, -1})
	}
	sort.Slice(edges, func(i, j int) bool { return edges[i].at.Before(edges[j].at) })
	running, top := 0, 0
	for _, e := range edges {
		running += e.delta
		top = max(top, running)
	}
	return top
}

func TestCoresBoundTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cores, processes, cpus, want int }{
		{cores: 4, cpus: 2, want: 2},
		{cores: 5, cpus: 2, want: 2},
		{cores: 3, cpus: 1, want: 3},
		{cores: 4, processes: 1, cpus: 1, want: 1},
	} {
		p := newPool(c.cores, c.processes, processStarter{})
		array := testArray(t.TempDir(), "sleep=150ms", 0, 1, 2, 3, 4, 5)
		array.CPUs = c.cpus
		if got := most(launch(t.Context(), t, p, array)); got != c.want {
			t.Errorf("%d cores, %d processes, tasks of %d cores: %d ran at once, want %d", c.cores, c.processes, c.cpus, got, c.want)
		}
	}
}

func TestLaunchErrors(t *testing.T) {
	t.Parallel()
	good := testArray(t.TempDir(), "exit=0", 0)
	never := func(executor.Result) { t.Error("a task that could not be launched has a result") }
	for _, c := range []struct {
		name  string
		spoil func(*executor.Array)
		code  int
	}{
		{"no such program", func(a *executor.Array) { a.Command = []string{"no-such-lathe"} }, exitcode.Unavailable},
		{"too many cores", func(a *executor.Array) { a.CPUs = 3 }, exitcode.Unavailable},
		{"log folder is a file", func(a *executor.Array) { a.LogDir = os.Args[0] }, exitcode.IO},
		{"no shards", func(a *executor.Array) { a.Shards = nil }, exitcode.Bug},
	} {
		p := New(2)
		array := good
		c.spoil(&array)
		if err := p.Launch(t.Context(), array, never); exitcode.Code(err) != c.code {
			t.Errorf("%s: error is %v, want code %d", c.name, err, c.code)
		}
	}
	p := New(1)
	if err := errors.Join(p.Close(), p.Launch(t.Context(), good, never)); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("launching on a closed pool: error is %v, want a bug", err)
	}
}

func TestLogThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	array := testArray(logs, "exit=0", 0)
	if err := os.Mkdir(array.Log(0), 0o777); err != nil {
		t.Fatal(err)
	}
	if r := launch(t.Context(), t, New(1), array)[0]; r.Cause != executor.CauseLaunchFailed || !strings.Contains(r.Evidence, array.Log(0)) {
		t.Errorf("result is %+v, want launch_failed naming the log", r)
	}
}

// afterReady cancels the returned context once the log of a task says that
// it is ready.
func afterReady(t *testing.T, log string, action func()) {
	t.Helper()
	go func() {
		for range 500 {
			content, _ := os.ReadFile(log)
			if strings.Contains(string(content), "ready\n") {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		action()
	}()
}

func TestStop(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]executor.Result{
		"await":  {Cause: executor.CauseStopped, Exit: 75},
		"ignore": {Cause: executor.CauseStopped, Exit: -1, Signal: "SIGKILL"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		array := testArray(t.TempDir(), task, 0, 1)
		afterReady(t, array.Log(0), cancel)
		p := New(1)
		p.Grace = 300 * time.Millisecond
		results := launch(ctx, t, p, array)
		if r := results[0]; r.Cause != want.Cause || r.Exit != want.Exit || r.Signal != want.Signal {
			t.Errorf("%s: result is %+v, want %+v", task, r, want)
		}
		if r := results[1]; r.Cause != executor.CauseStopped || !strings.Contains(r.Evidence, "not started") {
			t.Errorf("%s: the task in the queue: result is %+v, want stopped before it started", task, r)
		}
	}
}

func TestRehearsedInterruptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		task     string
		after    time.Duration // long enough for the task to be ready
		cause    executor.Cause
		want     executor.Cause
		evidence string
		log      string // what the task says of it
	}{
		{"await", time.Second, executor.CausePreempted, executor.CausePreempted, "exit code 75, after a rehearsed preempted", "got terminated"},
		{"await", time.Second, executor.CauseTimeout, executor.CauseTimeout, "exit code 75, after a rehearsed timeout", "got user defined signal 2"},
		{"await", time.Second, executor.CauseNodeFail, executor.CauseNodeFail, "SIGKILL", ""},
		{"ignore", time.Second, executor.CauseTimeout, executor.CauseTimeout, "SIGKILL", ""},
		{"sleep=10ms", time.Hour, executor.CausePreempted, executor.CauseOK, "exit code 0", ""}, // done before it came
	} {
		t.Run(c.task+" "+string(c.cause), func(t *testing.T) {
			t.Parallel()
			p := New(2)
			p.Grace = 300 * time.Millisecond
			p.Interrupt = func(array executor.Array, shard int) <-chan executor.Cause {
				if shard != 1 {
					return nil
				}
				come := make(chan executor.Cause, 1)
				time.AfterFunc(c.after, func() { come <- c.cause })
				return come
			}
			array := testArray(t.TempDir(), c.task, 1)
			r := launch(t.Context(), t, p, array)[0]
			if r.Cause != c.want || !strings.Contains(r.Evidence, c.evidence) {
				t.Errorf("%s, %s: result is %+v", c.task, c.cause, r)
			}
			if !strings.Contains(read(t, r.Log), c.log) || c.cause == executor.CauseNodeFail && strings.Contains(read(t, r.Log), "got ") {
				t.Errorf("%s: the log of the task is %q, want %q", c.cause, read(t, r.Log), c.log)
			}
		})
	}
}

func gone(t *testing.T, pid int) {
	t.Helper()
	for range 300 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(status), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	for _, task := range []string{"child,exit=0", "child,kill=9"} {
		r := launch(t.Context(), t, New(1), testArray(t.TempDir(), task, 0))[0]
		var pid int
		if _, err := fmt.Sscanf(read(t, r.Log), "child %d", &pid); err != nil {
			t.Fatal(err)
		}
		gone(t, pid)
	}
}

func TestTasksDieWithTheirLauncher(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	launcher := exec.Command(os.Args[0])
	launcher.Env = append(os.Environ(), "LATHE_TEST_TASK=pool="+logs)
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	array := testArray(logs, "await", 0)
	ready := make(chan struct{})
	afterReady(t, array.Log(0), func() { close(ready) })
	<-ready
	children := childrenOf(t, launcher.Process.Pid)
	if len(children) != 1 {
		t.Fatalf("the launcher has children %v, want one task", children)
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = launcher.Wait()
	gone(t, children[0])
}

func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	var children []int
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		words := bufio.NewScanner(file)
		words.Split(bufio.ScanWords)
		for words.Scan() {
			pid, _ := strconv.Atoi(words.Text())
			children = append(children, pid)
		}
		_ = file.Close()
	}
	slices.Sort(children)
	return children
}
