// Package local runs tasks as processes of this machine, or as steps of the
// Slurm allocation that it runs in.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
)

// grace is how long a task may take to seal or drop its work after a
// SIGTERM.
const grace = 20 * time.Second

// Pool starts each task in a process group of its own and reports how it
// ended. It does not queue: whoever launches respects Cores.
type Pool struct {
	cores int
	wrap  func(executor.Array) []string // command words in front of the task's own
	wg    sync.WaitGroup
}

// New returns a pool of processes on this machine.
func New(cores int) *Pool {
	return &Pool{cores: max(1, cores), wrap: func(executor.Array) []string { return nil }}
}

// Cores is how many cores the tasks may use together.
func (p *Pool) Cores() int { return p.cores }

// Close waits until every task has ended.
func (p *Pool) Close() error {
	p.wg.Wait()
	return nil
}

// Launch starts the one shard of an array and calls done when it has ended.
// When the context ends the task gets SIGTERM, and SIGKILL after the grace
// time. A task never outlives the process that launched it.
func (p *Pool) Launch(ctx context.Context, array executor.Array, done func(executor.Result)) error {
	if len(array.Shards) != 1 {
		return fmt.Errorf("a pool launches one shard at a time, not %d", len(array.Shards))
	}
	shard := array.Shards[0]
	logPath := array.Log(shard)
	if err := os.MkdirAll(filepath.Dir(logPath), 0o777); err != nil {
		return err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	words := append(p.wrap(array), array.Command...)
	words = append(words, "--shard", strconv.Itoa(shard))
	command := exec.Command(words[0], words[1:]...)
	command.Stdout, command.Stderr = log, log
	command.Env = environment(array)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := time.Now()
	result := executor.Result{Shard: shard, Start: started, Log: logPath}

	p.wg.Add(1)
	begun := make(chan error, 1)
	go func() {
		defer p.wg.Done()
		defer log.Close()
		// Pdeathsig is tied to the thread that starts the child: the
		// goroutine keeps it until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := command.Start(); err != nil {
			begun <- err
			return
		}
		begun <- nil
		exited := make(chan error, 1)
		go func() { exited <- command.Wait() }()
		err := p.await(ctx, command, exited)
		result.End = time.Now()
		judge(&result, err)
		done(result)
	}()
	if err := <-begun; err != nil {
		return fmt.Errorf("starting %q: %w", words[0], err)
	}
	return nil
}

// await waits for the end of a child, and brings it about when the context
// ends first.
func (p *Pool) await(ctx context.Context, command *exec.Cmd, exited <-chan error) error {
	select {
	case err := <-exited:
		return err
	case <-ctx.Done():
	}
	group := -command.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // gone already: exited says so
	select {
	case err := <-exited:
		return err
	case <-time.After(grace):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	return <-exited
}

// environment is what a task sees: the caller's variables, less those that
// would make it take itself for an array task, and its own.
func environment(array executor.Array) []string {
	env := make([]string, 0, len(os.Environ())+len(array.Env)+1)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "SLURM_ARRAY_") && !strings.HasPrefix(entry, "LATHE_ATTEMPT=") {
			env = append(env, entry)
		}
	}
	for name, value := range array.Env {
		env = append(env, name+"="+value)
	}
	return append(env, "LATHE_ATTEMPT="+strconv.Itoa(array.Attempt))
}

// judge fills in how a process ended.
func judge(r *executor.Result, err error) {
	var ended *exec.ExitError
	switch {
	case err == nil:
		r.Cause, r.Evidence = executor.CauseOK, "exit code 0"
	case !errors.As(err, &ended):
		r.Exit, r.Cause, r.Evidence = -1, executor.CauseLaunchFailed, err.Error()
	default:
		status, _ := ended.Sys().(syscall.WaitStatus)
		r.Exit = status.ExitStatus()
		var signal syscall.Signal
		if status.Signaled() {
			signal = status.Signal()
			r.Signal = executor.SignalName(signal)
		}
		r.Cause, r.Evidence = executor.CauseOf(r.Exit, signal)
	}
}
