package drive

import "github.com/lathe-rl/lathe/pkg/executor"

// Retry says what a failed attempt means for the next.
type Retry int

// What a failed attempt can mean.
const (
	Again   Retry = iota // not the task's doing: try again, without counting
	Counted              // try again, a bounded number of times
	Never                // it would fail the same way again
)

// Classify decides by cause whether a task is tried again. A preemption, a dead
// node or a signal is nobody's fault; a wrong recipe, damaged input or a missing
// program does not go away by itself; the rest may, a GPU that failed among it.
func Classify(c executor.Cause) Retry {
	switch c {
	case executor.CauseStopped, executor.CausePreempted, executor.CauseNodeFail, executor.CauseCancelled:
		return Again
	case executor.CauseUsage, executor.CauseData, executor.CauseUnavailable, executor.CauseBug:
		return Never
	}
	return Counted
}
