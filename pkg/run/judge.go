package run

import (
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Retry says what a failed attempt means for the next.
type Retry int

// The verdicts on a failed attempt.
const (
	Again   Retry = iota // not the task's doing: try again, without counting
	Counted              // try again, a bounded number of times
	Never                // it would fail the same way again
)

// Judge decides by cause whether a task is tried again. A preemption, a dead
// node or a signal is nobody's fault; a wrong recipe, damaged input or a
// missing device does not go away by itself; the rest may.
func Judge(c executor.Cause) Retry {
	switch c {
	case executor.CauseStopped, executor.CausePreempted, executor.CauseNodeFail, executor.CauseCancelled:
		return Again
	case executor.CauseUsage, executor.CauseData, executor.CauseUnavailable, executor.CauseBug:
		return Never
	}
	return Counted
}

// SealClosing writes close.json of an iteration.
func SealClosing(r *Run, c Closing, attempt seal.Attempt, version string) error {
	_, err := seal.WriteJSON(r.Dir.Close(c.Iteration), c, attempt, seal.Manifest{
		Stage: string(StageClose), Iteration: c.Iteration, Of: c.Shards, PolicyVersion: -1, Started: time.Now(),
		Seed: r.Recipe.Seed, RecipeSHA256: r.Identity.RecipeSHA256, BinaryVersion: version,
	})
	return err
}
