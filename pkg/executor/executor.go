// Package executor holds what the ways of running tasks have in common: what
// is asked for, and what became of it.
package executor

import (
	"time"

	"github.com/lathe-rl/lathe/pkg/exit"
)

// Array is a set of tasks of one stage that run the same command on
// different shards.
type Array struct {
	Run       string // the run's id
	Stage     string
	Iteration int
	Step      int
	Attempt   int
	Shards    []int
	Command   []string // binary and arguments, without --shard
	CPUs      int      // cores of each task
	MemoryGB  float64
	GPUs      int
	Minutes   int
	LogDir    string
	Env       map[string]string
}

// Cause says why a task ended.
type Cause string

// The causes. The first eight are exit codes of our own binaries; the others
// are known from the scheduler alone.
const (
	CauseOK           Cause = "ok"
	CauseFailed       Cause = "failed"
	CauseUsage        Cause = "usage"
	CauseData         Cause = "data"
	CauseUnavailable  Cause = "unavailable"
	CauseBug          Cause = "bug"
	CauseIO           Cause = "io"
	CauseStopped      Cause = "stopped"
	CausePreempted    Cause = "preempted"
	CauseTimeout      Cause = "timeout"
	CauseOutOfMemory  Cause = "out_of_memory"
	CauseNodeFail     Cause = "node_fail"
	CauseCancelled    Cause = "cancelled"
	CauseLaunchFailed Cause = "launch_failed"
	CauseUnknown      Cause = "unknown"
)

var causeOfExit = map[int]Cause{
	exit.OK: CauseOK, exit.Usage: CauseUsage, exit.Data: CauseData, exit.Unavailable: CauseUnavailable,
	exit.Bug: CauseBug, exit.IO: CauseIO, exit.Stopped: CauseStopped,
}

// CauseOfExit maps the exit code of one of our binaries to a cause.
func CauseOfExit(code int) Cause {
	if cause, known := causeOfExit[code]; known {
		return cause
	}
	return CauseFailed
}

// ExitCode is the exit code of a process that ends because a task ended this
// way.
func (c Cause) ExitCode() int {
	for code, cause := range causeOfExit {
		if cause == c {
			return code
		}
	}
	return exit.Failed
}

// Result is what became of one task.
type Result struct {
	Shard      int
	Exit       int    // exit code; -1 when a signal ended it or nothing is known
	Signal     string // that ended it; empty for none
	Cause      Cause
	Evidence   string // what the cause was concluded from
	Start, End time.Time
	Log        string
}
