package runtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// InProcess runs tasks in this process: the files are those of a process per task,
// without the time to start it.
type InProcess struct {
	T   *testing.T
	Run *rundir.Run
	Log func(format string, args ...any)                 // of the tasks; nil for the test's
	Do  func(ctx context.Context, task graph.Task) error // runs a task; nil for a worker of the run
}

// Cores are two.
func (InProcess) Cores() int { return 2 }

// Spare is that of a machine.
func (InProcess) Spare() bool { return true }

// Close has nothing to wait for.
func (InProcess) Close() error { return nil }

// TaskOf is the task of an array of one shard.
func TaskOf(a executor.Array) graph.Task {
	return graph.Task{Node: graph.Node{Stage: graph.Stage(a.Stage), Iteration: a.Iteration, Step: a.Step, Wave: a.Wave}, Shard: a.Shards[0]}
}

// Launch runs the task of an array.
func (p InProcess) Launch(ctx context.Context, a executor.Array, done func(executor.Result)) error {
	task, do := TaskOf(a), p.Do
	if do == nil {
		w := worker.New(p.Run, seal.AttemptFromEnv(), "test", p.Log)
		if w.Threads = 1; p.Log == nil {
			w.Log = p.T.Logf
		}
		do = w.Do
	}
	go func() {
		err := do(ctx, task)
		r := executor.Result{Shard: task.Shard, Exit: exitcode.Code(err), Cause: executor.CauseOfExit(exitcode.Code(err))}
		if err != nil {
			r.Evidence = err.Error()
		}
		done(r)
	}()
	return nil
}

// Launcher is one on which a test holds tasks back or lets them fail.
type Launcher struct {
	InProcess
	Slots int // cores
	// Fail returns how an attempt at a task ends without being made; the zero
	// cause lets it run.
	Fail func(task graph.Task, attempt int) executor.Cause
	// Hold returns a channel to wait for before a task runs; nil for none.
	Hold func(task graph.Task) <-chan struct{}

	mu       sync.Mutex
	attempts map[graph.Task]int
}

// Cores are as many as the test says.
func (m *Launcher) Cores() int { return m.Slots }

// Spare is false: tasks are counted here, not their threads.
func (m *Launcher) Spare() bool { return false }

// Attempts is how often a task was launched since the launcher was made, or since
// attempts were forgotten.
func (m *Launcher) Attempts(task graph.Task) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attempts[task]
}

// ForgetAttempts counts attempts anew.
func (m *Launcher) ForgetAttempts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.attempts)
}

// Launch runs a task, holds it back or has it fail.
func (m *Launcher) Launch(ctx context.Context, a executor.Array, done func(executor.Result)) error {
	task := TaskOf(a)
	m.mu.Lock()
	attempt := m.attempts[task]
	m.attempts[task]++
	m.mu.Unlock()
	log := a.Log(task.Shard)
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o777), os.WriteFile(log, nil, 0o666)); err != nil {
		return err
	}
	if m.Fail != nil {
		if cause := m.Fail(task, attempt); cause != "" {
			go done(executor.Result{Shard: task.Shard, Exit: 1, Cause: cause, Evidence: "for the test: " + string(cause), Log: log})
			return nil
		}
	}
	if m.Hold == nil {
		return m.InProcess.Launch(ctx, a, done)
	}
	wait := m.Hold(task)
	if wait == nil {
		return m.InProcess.Launch(ctx, a, done)
	}
	go func() {
		select {
		case <-wait:
			if err := m.InProcess.Launch(ctx, a, done); err != nil {
				m.T.Error(err)
			}
		case <-ctx.Done():
			done(executor.Result{Shard: task.Shard, Exit: -1, Cause: executor.CauseStopped, Evidence: "held back to the end", Log: log})
		}
	}()
	return nil
}

// Drive drives the run to its end.
func (m *Launcher) Drive(watch func(drive.Progress)) error {
	driver := &drive.Driver{Run: m.Run, Launcher: m, Attempt: seal.AttemptFromEnv(), Version: "test", Watch: watch}
	return driver.Drive(m.T.Context())
}

// Create makes a run of a recipe.
func Create(t *testing.T, path string, settings ...string) *rundir.Run {
	t.Helper()
	resolved, err := recipe.Load(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// Stage makes a run of jobs/smoke.yaml and the launcher that drives it.
func Stage(t *testing.T, settings ...string) (*rundir.Run, *Launcher) {
	t.Helper()
	opened := Create(t, Smoke(), settings...)
	return opened, LauncherOf(t, opened)
}

// Sealing is a run and the launcher that drives it, whose tasks seal their outputs by
// their names alone.
func Sealing(t *testing.T, settings ...string) (*rundir.Run, *Launcher) {
	t.Helper()
	r := NewBoard(t, append([]string{"evaluation.problems=16"}, settings...)...).Run()
	if _, err := seal.WriteBytes(r.Dir.Tasks(), nil, seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	m := LauncherOf(t, r)
	m.SealByName()
	return r, m
}

// SealByName has tasks seal their outputs by their names alone.
func (m *Launcher) SealByName() {
	m.Do = func(_ context.Context, task graph.Task) error { return sealOutputs(m.Run.Graph, task) }
}

// LauncherOf is a launcher of two cores for a run.
func LauncherOf(t *testing.T, r *rundir.Run) *Launcher {
	return &Launcher{InProcess: InProcess{T: t, Run: r}, Slots: 2, attempts: map[graph.Task]int{}}
}

// Drive drives a run to its end.
func Drive(t *testing.T, r *rundir.Run) {
	t.Helper()
	driver := &drive.Driver{Run: r, Launcher: InProcess{T: t, Run: r}, Attempt: seal.AttemptFromEnv(), Version: "test"}
	if err := driver.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Finish makes a run of a recipe and drives it to its end.
func Finish(t *testing.T, path string, settings ...string) *rundir.Run {
	t.Helper()
	opened := Create(t, path, settings...)
	Drive(t, opened)
	return opened
}

// finished holds the files of runs that are done, by their settings: in memory, so
// that they end with the process.
var finished struct {
	sync.Mutex
	runs map[string]fstest.MapFS
}

// Finished is a run of jobs/smoke.yaml that is done, which a process makes once: each
// test has a copy of its own.
func Finished(t *testing.T, settings ...string) *rundir.Run {
	t.Helper()
	finished.Lock()
	defer finished.Unlock()
	key := strings.Join(settings, "\n")
	files, made := finished.runs[key]
	if !made {
		files = inMemory(t, os.DirFS(string(Finish(t, Smoke(), settings...).Dir)))
		if finished.runs == nil {
			finished.runs = map[string]fstest.MapFS{}
		}
		finished.runs[key] = files
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	return Open(t, graph.Dir(dir))
}

// Open opens a run.
func Open(t *testing.T, dir graph.Dir) *rundir.Run {
	t.Helper()
	opened, err := rundir.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// inMemory copies the files of a folder and those below it.
func inMemory(t *testing.T, folder fs.FS) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	if err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		files[name] = &fstest.MapFile{Data: content, Mode: 0o666}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}
