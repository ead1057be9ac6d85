package stagetest

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// Number is a variable of the environment, or what it is by default.
func Number(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text, set := os.LookupEnv(name)
	if !set {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// PeakMemory runs a test in a process of its own, with a variable that tells it
// what to do there, and gives the most memory that it held, in bytes. It ends
// with [Rig.ReportPeakMemory].
func (r *Rig) PeakMemory(test, variable, value string) int64 {
	r.Helper()
	// The usage that the system keeps of a child begins with its parent's.
	return r.child(test, variable, value, "GOGC=5", `VmHWM:\s+(\d+) kB`) << 10 // what waits to be collected is no peak
}

// ReportPeakMemory says in a child what [Rig.PeakMemory] looks for.
func (r *Rig) ReportPeakMemory() {
	r.Helper()
	status, err := os.ReadFile("/proc/self/status")
	r.Check(err)
	r.Logf("%s", status)
}

// PeakHeap is PeakMemory of the heap alone, without pages of files, by the runtime's own
// count. The child calls [Rig.ReportPeakHeap].
func (r *Rig) PeakHeap(test, variable, value string) int64 {
	r.Helper()
	return r.child(test, variable, value, "GOGC=3", `the heap grew by (\d+) bytes`)
}

// ReportPeakHeap says in a child by how much the heap grew at most while do ran. What the
// runtime has taken from the system for its heap never shrinks, and garbage is collected
// when a few per cent have gathered.
func (r *Rig) ReportPeakHeap(do func()) {
	r.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	r.Logf("the heap grew by %d bytes", after.HeapSys-before.HeapAlloc)
}

// child runs a test in a process of its own and gives the number that it reports.
func (r *Rig) child(test, variable, value, collection, report string) int64 {
	r.Helper()
	c := exec.CommandContext(r.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	// All else waits for a collection: else what is allocated while one runs, and counts as
	// in use, depends on when the system lets threads go on.
	c.Env = append(os.Environ(), variable+"="+value, collection, "GODEBUG=gcstoptheworld=1", "GOMAXPROCS=1")
	output, err := c.CombinedOutput()
	found := regexp.MustCompile(report).FindSubmatch(output)
	if err != nil || found == nil {
		r.Fatalf("%v: %s", err, output)
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	r.Check(err)
	return n
}
