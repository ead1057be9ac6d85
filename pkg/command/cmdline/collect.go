package cmdline

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/lathe-rl/lathe/pkg/internal/slurmenv"
)

// latePercent puts the first garbage collection of a process off until its heap
// has 64 MiB: sixteen times the 4 MiB of the runtime's default. Most processes
// of a small run never get there, and a third of their time went to collections
// of a few MiB.
const latePercent = 1600

// heapShare of a task's memory is the heap's: the rest is for what is not on it, such as
// programs, pages of files and the libraries of a GPU.
const heapShare = 0.9

// collectLate puts the first garbage collection off. From then on the default
// holds, so that a large heap grows by no more than it otherwise would: to twice what is
// in use, or to what Slurm gives the task, near which garbage is collected at once. What
// the user, or the program itself, has decided stays.
func collectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if given := slurmenv.MemoryBytes(); given > 0 {
		debug.SetMemoryLimit(int64(heapShare * float64(given)))
	}
	before := debug.SetGCPercent(latePercent)
	runtime.AddCleanup(new(*int), func(percent int) { // at the first collection
		if now := debug.SetGCPercent(percent); now != latePercent {
			debug.SetGCPercent(now)
		}
	}, before)
}
