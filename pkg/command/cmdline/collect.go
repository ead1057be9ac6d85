package cmdline

import (
	"os"
	"runtime"
	"runtime/debug"
)

// latePercent puts the first garbage collection of a process off until its heap
// has 64 MiB: sixteen times the 4 MiB of the runtime's default. Most processes
// of a small run never get there, and a third of their time went to collections
// of a few MiB.
const latePercent = 1600

// collectLate puts the first garbage collection off. From then on the default
// holds, so that a large heap grows by no more than it otherwise would. What the
// user, or the program itself, has decided stays.
func collectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	before := debug.SetGCPercent(latePercent)
	runtime.AddCleanup(new(*int), func(percent int) { // at the first collection
		if now := debug.SetGCPercent(percent); now != latePercent {
			debug.SetGCPercent(now)
		}
	}, before)
}
