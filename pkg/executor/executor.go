// Package executor holds what every way of running tasks shares: an array of
// tasks, how a task ended, and the words for the cause.
//
// How a task ended is evidence for whoever retries it. Whether its work is
// done is decided by its sealed outputs alone.
package executor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Array is a set of tasks that differ by shard alone.
type Array struct {
	Run       string            // run id; part of the job name
	Stage     string            // one of the stages of a run, or gate for a controller job
	Resources string            // stage of a site profile whose settings hold for it; empty for Stage
	Iteration int               //
	Step      int               // optimizer step, for gradient shards; else 0
	Wave      int               // of rollouts and scores, from 0
	Attempt   int               // from 0; counts submissions of the same tasks
	Shards    []int             // one task each, from 0
	Command   []string          // binary and arguments, without --shard
	NoShard   bool              // do not append --shard N to the command; for an array of one task
	CPUs      int               // cores of a task, at least 1
	MemoryGB  float64           // memory of a task in GiB; 0 leaves it to the site
	GPUs      int               // GPUs of a task
	Minutes   int               // time limit of a task; 0 leaves it to the site
	Exclude   []string          // nodes of a batch system that are kept out of
	LogDir    string            // absolute; created when it is missing
	Env       map[string]string // added to the environment of every task
}

// Name is the stage, iteration, and step or wave of the array, as logs carry it.
func (a Array) Name() string { return NodeName(a.Stage, a.Iteration, a.Step, a.Wave) }

// NodeName names a stage of an iteration, of one of its optimizer steps, or of one
// of its waves.
func NodeName(stage string, iteration, step, wave int) string {
	switch {
	case stage == "gradient" || stage == "reduce" || step > 0:
		return fmt.Sprintf("%s-%06d-step%03d", stage, iteration, step)
	case wave > 0:
		return fmt.Sprintf("%s-%06d-w%02d", stage, iteration, wave)
	}
	return fmt.Sprintf("%s-%06d", stage, iteration)
}

// SiteStage is the stage of a site profile whose settings hold for the array.
func (a Array) SiteStage() string { return cmp.Or(a.Resources, a.Stage) }

// Log is the path of the log of one task. Logs are appended to, never
// truncated: a requeued task continues the log of its attempt.
func (a Array) Log(shard int) string {
	return filepath.Join(a.LogDir, fmt.Sprintf("%s-%05d.%d.log", a.Name(), shard, a.Attempt))
}

// Validate reports a mistake of whoever made the array.
func (a Array) Validate() error {
	switch {
	case len(a.Command) == 0:
		return exitcode.Bugf("array %s has no command", a.Name())
	case len(a.Shards) == 0:
		return exitcode.Bugf("array %s has no shards", a.Name())
	case a.NoShard && len(a.Shards) > 1:
		return exitcode.Bugf("array %s has %d tasks but does not pass them their shard", a.Name(), len(a.Shards))
	case a.CPUs < 1:
		return exitcode.Bugf("array %s requests %d cores", a.Name(), a.CPUs)
	case a.GPUs < 0 || a.Minutes < 0 || a.MemoryGB < 0 || a.Attempt < 0:
		return exitcode.Bugf("array %s requests a negative amount: GPUs %d, minutes %d, memory %g GiB, attempt %d",
			a.Name(), a.GPUs, a.Minutes, a.MemoryGB, a.Attempt)
	case !filepath.IsAbs(a.LogDir):
		return exitcode.Bugf("array %s has a log folder %q that is not absolute", a.Name(), a.LogDir)
	}
	return nil
}

// Cause says why a task ended.
type Cause string

// The causes.
const (
	CauseOK           Cause = "ok"
	CauseFailed       Cause = "failed"        // for a reason that no other cause names
	CauseUsage        Cause = "usage"         // exit code 64
	CauseData         Cause = "data"          // 65
	CauseUnavailable  Cause = "unavailable"   // 69
	CauseDevice       Cause = "device"        // the GPU failed, or could not be had: another node, or another moment, may have one
	CauseBug          Cause = "bug"           // 70
	CauseIO           Cause = "io"            // 74
	CauseStopped      Cause = "stopped"       // 75, or a request to stop that came before the task could listen
	CausePreempted    Cause = "preempted"     // a more urgent job took the place
	CauseTimeout      Cause = "timeout"       // the time limit was over
	CauseOutOfMemory  Cause = "out_of_memory" //
	CauseNodeFail     Cause = "node_fail"     //
	CauseCancelled    Cause = "cancelled"     // by a person or by Lathe
	CauseLaunchFailed Cause = "launch_failed" // the task never began
	CauseUnknown      Cause = "unknown"       // nobody can say
)

// Result is how one task ended.
type Result struct {
	Shard    int
	Exit     int    // exit code; -1 when a signal ended the task or it never began
	Signal   string // that ended the task, for example SIGKILL; empty for none
	Cause    Cause
	Evidence string // what the cause was read from, in words
	Start    time.Time
	End      time.Time
	Log      string
}

// CauseOf reads the cause from how a process ended: its exit code, or the
// signal that ended it when signal is not 0.
func CauseOf(code int, signal syscall.Signal) (cause Cause, evidence string) {
	if signal != 0 {
		name := SignalName(signal)
		switch signal {
		case syscall.SIGTERM, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGHUP:
			return CauseStopped, "ended by " + name
		case syscall.SIGKILL:
			return CauseFailed, "killed by SIGKILL: by a user, or by the kernel when out of memory"
		}
		return CauseFailed, "ended by " + name
	}
	evidence = fmt.Sprintf("exit code %d", code)
	switch code {
	case 2:
		evidence += ": a Go runtime panic; see the log"
	case 126, 127: // of the shell, or of the loader of libraries
		return CauseLaunchFailed, evidence + ": the program could not be started; see the log"
	}
	return CauseOfExit(code), evidence
}

var causeOfExit = map[int]Cause{
	exitcode.OK: CauseOK, exitcode.Usage: CauseUsage, exitcode.Data: CauseData, exitcode.Unavailable: CauseUnavailable,
	exitcode.Bug: CauseBug, exitcode.IO: CauseIO, exitcode.Stopped: CauseStopped,
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
	return exitcode.Failed
}

// SignalName is the name of a signal, for example SIGUSR2.
func SignalName(signal syscall.Signal) string {
	if name := unix.SignalName(signal); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(signal))
}

// Environ is the environment of this process without the variables that drop
// reports, and with those of added, which win.
func Environ(drop func(name string) bool, added map[string]string) []string {
	var out []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if _, replaced := added[name]; !replaced && !drop(name) {
			out = append(out, entry)
		}
	}
	for name, value := range added {
		out = append(out, name+"="+value)
	}
	return out
}
