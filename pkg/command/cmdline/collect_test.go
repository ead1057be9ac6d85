package cmdline

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// percent is the percentage that holds now.
func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(int32(sample[0].Value.Uint64())) // -1 as a number without a sign
}

// TestCollectLate: the late percentage holds until the first collection, and what the
// program has set since then stays.
func TestCollectLate(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, test := range []struct {
		name, set        string
		own, then, after int
	}{
		{name: "default", then: latePercent, after: 100},
		{name: "set by the program", own: -1, then: -1, after: -1},
		{name: "set by the user", set: "50", then: 100, after: 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOGC", test.set)
			t.Setenv("GOMEMLIMIT", "")
			debug.SetGCPercent(100)
			collectLate()
			if test.own != 0 {
				debug.SetGCPercent(test.own)
			}
			if got := percent(); got != test.then {
				t.Errorf("before a collection: %d, want %d", got, test.then)
			}
			done := make(chan struct{})
			runtime.AddCleanup(new(*int), func(int) { close(done) }, 0)
			runtime.GC()
			<-done
			for percent() != test.after { // its own cleanup may come after ours
				runtime.Gosched()
			}
		})
	}
}

// The heap of a task on Slurm is bounded by nine tenths of its memory: 9/10 of 100 MiB.
// Alone: it sets the environment.
func TestHeapOfATask(t *testing.T) {
	before, percents := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetMemoryLimit(before); debug.SetGCPercent(percents) })
	for _, c := range []struct {
		given, own string
		want       int64
	}{{"100", "", 94371840}, {"", "", before}, {"100", "1GiB", before}} {
		debug.SetMemoryLimit(before)
		t.Setenv("GOGC", "")
		t.Setenv("GOMEMLIMIT", c.own)
		t.Setenv("SLURM_MEM_PER_NODE", c.given)
		t.Setenv("SLURM_MEM_PER_CPU", "")
		collectLate()
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
