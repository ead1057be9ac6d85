package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// starter makes the process of a task: the task itself, or the srun that
// carries it to a node.
type starter interface {
	command(array executor.Array, shard int) *exec.Cmd
	// stopSignals are sent to the process in turn to make the task stop: the
	// first at once, the others at equal distances within the grace time.
	stopSignals() []syscall.Signal
	// deathSignal is sent to the process when this one dies.
	deathSignal() syscall.Signal
	// ended reads how the task ended from how the process did.
	ended(status syscall.WaitStatus) (code int, signal syscall.Signal)
	// refused reads in what a process that failed has written that the task never began,
	// and why: evidence is empty if it did.
	refused(written string) (cause executor.Cause, evidence string)
}

// processStarter runs tasks as children of this process.
type processStarter struct{}

func (processStarter) command(array executor.Array, shard int) *exec.Cmd {
	words := arguments(array, shard)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = executor.Environ(belongsToArrayTask, ownVariables(array))
	return cmd
}

func (processStarter) stopSignals() []syscall.Signal { return []syscall.Signal{syscall.SIGTERM} }
func (processStarter) deathSignal() syscall.Signal   { return syscall.SIGKILL }

func (processStarter) ended(status syscall.WaitStatus) (int, syscall.Signal) {
	if status.Signaled() {
		return -1, status.Signal()
	}
	return status.ExitStatus(), 0
}

func (processStarter) refused(string) (cause executor.Cause, evidence string) { return "", "" }

// run runs one task and says how it ended.
func (p *Pool) run(ctx context.Context, array executor.Array, shard int) (result executor.Result) {
	result = executor.Result{Shard: shard, Exit: -1, Log: array.Log(shard), Start: time.Now()}
	defer func() { result.End = time.Now() }()
	fail := func(err error) executor.Result {
		result.Cause, result.Evidence = executor.CauseLaunchFailed, err.Error()
		if exitcode.Code(err) == exitcode.IO { // a log that cannot be written, for one
			result.Cause = executor.CauseIO
		}
		return result
	}
	log, err := openLog(result.Log)
	if err != nil {
		return fail(err)
	}
	defer log.Close() // every write was the child's

	var rehearsed <-chan executor.Cause // nil blocks for ever
	if p.Interrupt != nil {
		rehearsed = p.Interrupt(array, shard)
	}
	cmd := p.starter.command(array, shard)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own, so that a SIGINT from the terminal reaches the task
	// through us and not twice, and so that nothing of it is left behind.
	started, err := child.Start(cmd, p.starter.deathSignal())
	if err != nil {
		return fail(err)
	}

	var stopped executor.Cause // why the task was told to stop; empty if it was not
	select {
	case <-started.Gone():
	case <-ctx.Done():
		stopped = executor.CauseStopped
		p.stop(started, p.starter.stopSignals()...)
	case stopped = <-rehearsed:
		switch stopped {
		case executor.CausePreempted:
			p.stop(started, syscall.SIGTERM)
		case executor.CauseTimeout:
			p.stop(started, syscall.SIGUSR2)
		default:
			started.Kill()
		}
	}
	result = p.ending(result, started.Err(), stopped)
	if result.Cause == executor.CauseFailed {
		if cause, evidence := p.starter.refused(tail(result.Log)); evidence != "" {
			result.Cause, result.Evidence = cause, evidence
		}
	}
	if result.Signal != "" { // it could not say so itself
		fmt.Fprintf(log, "lathe: the task ended: %s (%s)\n", result.Evidence, result.Cause)
	}
	return result
}

// stop tells a task to stop, and kills it when the grace time is over.
func (p *Pool) stop(task *child.Child, signals ...syscall.Signal) {
	for _, signal := range signals {
		task.Signal(signal)
		timer := time.NewTimer(p.Grace / time.Duration(len(signals)))
		select {
		case <-task.Gone():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
	task.Kill()
}

// ending says how a task ended from the error of its Wait, and from why it was
// told to stop, if it was.
func (p *Pool) ending(result executor.Result, err error, stopped executor.Cause) executor.Result {
	var status syscall.WaitStatus
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		status, _ = failed.Sys().(syscall.WaitStatus)
	case err != nil:
		result.Cause, result.Evidence = executor.CauseUnknown, "waiting for the process: "+err.Error()
		return result
	}
	var signal syscall.Signal
	result.Exit, signal = p.starter.ended(status)
	if signal != 0 {
		result.Signal = executor.SignalName(signal)
	}
	result.Cause, result.Evidence = executor.CauseOf(result.Exit, signal)
	if stopped == "" || result.Cause == executor.CauseOK {
		return result
	}
	// How a task ended does not matter if it was told to stop and did.
	if result.Cause == executor.CauseStopped || signal == syscall.SIGKILL {
		result.Cause = stopped
	}
	switch stopped {
	case executor.CausePreempted, executor.CauseTimeout, executor.CauseNodeFail:
		result.Evidence += ", after a rehearsed " + string(stopped)
	default:
		result.Evidence += ", after a request to stop"
	}
	return result
}
