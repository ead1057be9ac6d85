package stagetest

import (
	"os"
	"os/exec"
	"regexp"
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
	c := exec.CommandContext(r.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	c.Env = append(os.Environ(), variable+"="+value, "GOGC=20") // what waits to be collected is no peak
	output, err := c.CombinedOutput()
	// The usage that the system keeps of a child begins with its parent's.
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(output)
	if err != nil || found == nil {
		r.Fatalf("%v: %s", err, output)
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	r.Check(err)
	return kilobytes << 10
}

// ReportPeakMemory says in a child what [Rig.PeakMemory] looks for.
func (r *Rig) ReportPeakMemory() {
	r.Helper()
	status, err := os.ReadFile("/proc/self/status")
	r.Check(err)
	r.Logf("%s", status)
}
