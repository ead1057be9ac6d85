package efficiency

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*math.Max(1, math.Abs(b)) }

// A mean is over time, not over samples; what was not sampled counts neither way; a
// counter that begins again has not gone back. By hand: 10 for 1 s, 40 for 2 s, and
// 90 behind a gap of 100 s, which is unknown.
func TestSeries(t *testing.T) {
	t.Parallel()
	var s series
	for _, p := range []struct {
		second, value float64
		phase         string
	}{{0, 99, "load"}, {1, 10, "load"}, {3, 40, "decode"}, {103, 90, "decode"}} {
		s.add(int64(p.second*1e6), p.value, p.phase, 0)
	}
	if mean := s.over.mean(); !near(*mean, (10+80)/3.0) || s.max != 99 || s.last != 90 {
		t.Errorf("mean %v, max %v, last %v", *mean, s.max, s.last)
	}
	if load, decode := s.byPhase["load"].mean(), s.byPhase["decode"].mean(); *load != 10 || *decode != 40 {
		t.Errorf("by phase: %v and %v", *load, *decode)
	}
	var counter series
	for i, value := range []float64{100, 150, 20, 50} {
		counter.add(int64(i)*1e6, value, "", 1)
	}
	if counter.grown != 50+30 {
		t.Errorf("a counter that began again has grown by %v", counter.grown)
	}
	if (weighted{}).mean() != nil {
		t.Error("no time has a mean")
	}
	// 2 for 1 s, 4 for 20 s, which is 20 times as long and no gap yet, 8 for 20.5 s, which is
	// one; then a sample of the same moment and one of an earlier, which stand for no time.
	edge := series{keep: true}
	for i, second := range []float64{0, 1, 21, 41.5, 41.5, 40, 41} {
		edge.add(int64(second*1e6), []float64{0, 2, 4, 8, 16, 1, 0}[i], "x", float64(i%2))
	}
	if mean, share := edge.over.mean(), edge.nonzero.mean(); !near(*mean, (2+80+0)/22.0) || edge.max != 16 || edge.count != 7 || !near(*share, 1/22.0) || len(edge.line) != 3 {
		t.Errorf("mean %v of %v s, share %v, max %v, %d samples, line %v", *mean, edge.over.seconds, *share, edge.max, edge.count, edge.line)
	}
	if want := (moment{time.Unix(21, 0).UTC(), 20, 4}); edge.line[1] != want || edge.grownBy["x"] != 2+2 || edge.grown != 2+2+4 {
		t.Errorf("the line is %v, grown by %v, of which %v in the phase", edge.line, edge.grown, edge.grownBy)
	}
	long := series{keep: true}
	for i := range mostMoments + 1 { // as many stretches as are kept, then one more
		long.add(int64(i)*1e6, 1, "", 0)
	}
	if len(long.line) != mostMoments {
		t.Errorf("%d of %d moments are kept", len(long.line), mostMoments)
	}
	if long.add(mostMoments*1e6+1e6, 1, "", 0); len(long.line) != mostMoments/2+1 { // 513 in pairs, and one
		t.Errorf("%d moments, of %d", len(long.line), mostMoments+1)
	}
}

// However a time line is thinned, its integral is the same.
func TestHalved(t *testing.T) {
	t.Parallel()
	line := func(gap float64) []moment {
		return []moment{{second(10), 10, 1}, {second(20).Add(time.Duration(gap * float64(time.Second))), 10, 3}}
	}
	if got := halved(line(9)); len(got) != 1 || got[0] != (moment{second(29), 20, 2}) {
		t.Errorf("a gap of 9 s between stretches of 10: %v", got)
	}
	if got := halved(line(10)); len(got) != 2 {
		t.Errorf("a gap of 10 s: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		var line []moment
		at := time.Unix(0, 0)
		var want float64
		for range rapid.IntRange(0, 50).Draw(t, "moments") {
			seconds := float64(rapid.IntRange(1, 10).Draw(t, "seconds"))
			at = at.Add(time.Duration(seconds+float64(rapid.SampledFrom([]int{0, 0, 0, 100}).Draw(t, "gap"))) * time.Second)
			m := moment{at, seconds, rapid.Float64Range(0, 1).Draw(t, "value")}
			want += m.seconds * m.value
			line = append(line, m)
		}
		var got float64
		shorter := halved(slices.Clone(line))
		for _, m := range shorter {
			got += m.seconds * m.value
		}
		if !near(got, want) || len(shorter) > len(line) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// However often the line of a device that two tasks held is thinned, it falls to zero
// where the first has left.
func TestJoined(t *testing.T) {
	t.Parallel()
	busy := func(from int) (line []moment) {
		for i := range 40 {
			line = append(line, moment{second(from + i + 1), 1, 0.9})
		}
		return line
	}
	for line := joined(busy(0), busy(1000)); len(line) > 8; line = halved(line) {
		i := slices.IndexFunc(line, func(m moment) bool { return m.value == 0 })
		if i < 1 || !line[i].at.Equal(second(40)) || !near(line[i-1].value, 0.9) {
			t.Fatalf("of %d moments, %d is the first at zero: %v", len(line), i, line)
		}
	}
}

// The names of tasks are read as they are written.
func TestParseTask(t *testing.T) {
	t.Parallel()
	for _, task := range []graph.Task{
		{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}, Shard: 3},
		{Node: graph.Node{Stage: graph.StageScore, Iteration: 12, Wave: 2}, Shard: 123456},
		{Node: graph.Node{Stage: graph.StageGradient, Iteration: 1234567, Step: 4}},
		{Node: graph.Node{Stage: graph.StageLearn, Iteration: 2, Step: 1}},
	} {
		if got, ok := parseTask(task.String()); !ok || got != task {
			t.Errorf("%s was read as %+v, %v", task, got, ok)
		}
	}
	for _, bad := range []string{"", "rollout", "nothing-000001-00001", "rollout-1-1", "rollout-999999999999999999999-00000"} {
		if got, ok := parseTask(bad); ok {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

// Bars are fifty wide, two percent a mark, and a number that is not known is no zero.
func TestMeter(t *testing.T) {
	t.Parallel()
	of := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		share *float64
		want  string
	}{
		{of(0), "[" + strings.Repeat(" ", 48) + "0%]"},
		{of(0.5), "[" + strings.Repeat("|", 25) + strings.Repeat(" ", 22) + "50%]"},
		{of(1), "[" + strings.Repeat("|", 46) + "100%]"},
		{of(2.5), "[" + strings.Repeat("|", 46) + "250%]"},
		{nil, "[" + strings.Repeat(" ", 21) + "unknown" + strings.Repeat(" ", 22) + "]"},
	} {
		if got := meter(c.share); got != c.want || len(got) != meterWidth+2 {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Two tasks that see one GPU at once are noticed; those that follow each other are not.
func TestShared(t *testing.T) {
	t.Parallel()
	at := func(second int, seconds float64, host string) Attempt {
		return Attempt{Start: time.Unix(int64(second), 0), Seconds: seconds, GPUs: []GPU{{Host: host, UUID: "GPU-a"}}}
	}
	for name, c := range map[string]struct {
		attempts []Attempt
		want     bool
	}{
		"one after the other": {[]Attempt{at(0, 10, "n1"), at(10, 10, "n1"), at(30, 1, "n1")}, false},
		"a moment":            {[]Attempt{at(0, 10.5, "n1"), at(10, 10, "n1")}, false},
		"a second":            {[]Attempt{at(0, 11, "n1"), at(10, 10, "n1")}, false},
		"more than a second":  {[]Attempt{at(0, 11.5, "n1"), at(10, 10, "n1")}, true},
		"by the longest":      {[]Attempt{at(0, 100, "n1"), at(0, 1, "n1"), at(50, 1, "n1")}, true},
		"at once":             {[]Attempt{at(0, 100, "n1"), at(10, 1, "n1"), at(20, 1, "n1")}, true},
		"on two hosts":        {[]Attempt{at(0, 100, "n1"), at(10, 1, "n2")}, false},
	} {
		if got := shared(c.attempts); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A device is found by the words of its name, not by letters in it.
func TestPeak(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{
		"NVIDIA H100 80GB HBM3": 989.4e12, "NVIDIA H100 PCIe": 756e12, "NVIDIA A100-SXM4-80GB": 312e12, "NVIDIA A100 80GB PCIe": 312e12,
		"NVIDIA L40S": 362e12, "NVIDIA L4": 121e12, "Tesla V100-SXM2-16GB": 125e12, "NVIDIA RTX A4000": 0, "NVIDIA A1000": 0, "NVIDIA GeForce RTX 4090": 0, "": 0,
	} {
		if got := peakOf(GPU{Name: name}); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	if peakOf(GPU{Name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", Index: -1}) != 0 {
		t.Error("an instance is taken for a whole GPU")
	}
}
