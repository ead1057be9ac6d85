package drive_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/run/drive"
)

// TestClassify: what a failed attempt means for the next, by its cause.
func TestClassify(t *testing.T) {
	t.Parallel()
	for cause, want := range map[executor.Cause]drive.Retry{
		executor.CauseStopped: drive.Again, executor.CausePreempted: drive.Again, executor.CauseNodeFail: drive.Again, executor.CauseCancelled: drive.Again,
		executor.CauseUsage: drive.Never, executor.CauseData: drive.Never, executor.CauseUnavailable: drive.Never, executor.CauseBug: drive.Never,
		executor.CauseFailed: drive.Counted, executor.CauseIO: drive.Counted, executor.CauseTimeout: drive.Counted,
		executor.CauseOutOfMemory: drive.Counted, executor.CauseLaunchFailed: drive.Counted, executor.CauseDevice: drive.Counted, executor.CauseUnknown: drive.Counted,
		executor.CauseOK: drive.Counted, // it says that it is done, and its outputs are not there
	} {
		if got := drive.Classify(cause); got != want {
			t.Errorf("after %s: %v, want %v", cause, got, want)
		}
	}
}
