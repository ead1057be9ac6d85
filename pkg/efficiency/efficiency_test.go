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
}

// However a time line is thinned, its integral is the same.
func TestHalved(t *testing.T) {
	t.Parallel()
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

// The remarks of jobstats, at its thresholds.
func TestNotes(t *testing.T) {
	t.Parallel()
	of := func(v float64) *float64 { return &v }
	gpus := func(shares ...*float64) []GPU {
		var all []GPU
		for _, s := range shares {
			all = append(all, GPU{Use: Use{GPUShare: s}})
		}
		return all
	}
	long := func(r Report) Report {
		r.WallClockSeconds = 301
		return r
	}
	held := func(used, given float64) []Attempt {
		return []Attempt{{MemoryMaxBytes: used * (1 << 30), MemoryGivenBytes: given * (1 << 30), Cores: 2}}
	}
	// A job with so many GPUs of each of two nodes, which are seen to have two.
	spread := func(first, second string, count int) Report {
		r := Report{GPUs: []GPU{{Host: first, Index: 0}, {Host: first, Index: 1}}}
		for _, host := range []string{first, second} {
			r.Each = append(r.Each, Attempt{Task: "learn-000001-00000", Job: "5_0", Host: host, GPUs: make([]GPU, count)})
		}
		return r
	}
	for name, c := range map[string]struct {
		report Report
		want   []string // beginnings
	}{
		"nothing":               {long(Report{}), nil},
		"idle GPU":              {long(Report{GPUs: gpus(of(0)), Total: Use{GPUShare: of(0)}}), []string{"This run did not use the GPU."}},
		"idle, but short":       {Report{GPUs: gpus(of(0)), Total: Use{GPUShare: of(0)}}, nil},
		"some idle":             {long(Report{GPUs: gpus(of(0), of(0.9), of(0)), Total: Use{GPUShare: of(0.3)}}), []string{"This run did not use 2 of the 3 GPUs"}},
		"unknown is not idle":   {long(Report{GPUs: gpus(nil, nil)}), nil},
		"15 %":                  {long(Report{GPUs: gpus(of(0.15)), Total: Use{GPUShare: of(0.15)}}), []string{"The overall GPU utilization of this run is only 15%."}},
		"24 %":                  {long(Report{GPUs: gpus(of(0.24)), Total: Use{GPUShare: of(0.24)}}), []string{"The overall GPU utilization of this run is 24%, which is somewhat low."}},
		"25 %":                  {long(Report{GPUs: gpus(of(0.25)), Total: Use{GPUShare: of(0.25)}}), nil},
		"64 % of cores":         {long(Report{Total: Use{CPUShare: of(0.64), CoreSeconds: 4, Seconds: 1}}), []string{"The overall CPU utilization of this run is 64%. This value is low"}},
		"80 % of cores":         {long(Report{Total: Use{CPUShare: of(0.8), CoreSeconds: 4, Seconds: 1}}), []string{"The overall CPU utilization of this run is 80%. This value is somewhat low"}},
		"81 % of cores":         {long(Report{Total: Use{CPUShare: of(0.81), CoreSeconds: 4, Seconds: 1}}), nil},
		"one core of four":      {long(Report{Total: Use{CPUShare: of(0.24), CoreSeconds: 4, Seconds: 1}}), []string{"The overall CPU", "The CPU utilization is about one by"}},
		"too much memory":       {long(Report{Each: held(6, 32)}), []string{"The tasks used at most 19% of the 32.0GB of memory that they were given. For a next run, 8 GiB a task would do"}},
		"enough memory in use":  {long(Report{Each: held(23, 32)}), nil},
		"60 % of the limit":     {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 2160, LimitSeconds: 3600}}}), nil},
		"59 % of the limit":     {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 2124, LimitSeconds: 3600}}}), []string{"The tasks of learn needed at most 59% of their time limit of 01:00:00."}},
		"short of a long limit": {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 900, LimitSeconds: 36000}}}), nil},
		"shared":                {long(Report{Shared: true}), []string{"Some GPUs were seen by several tasks at once"}},
		"killed":                {long(Report{Lost: []Loss{{Cause: dispositionKilled, Attempts: 2}}}), []string{"Attempts that ended without a message: 2"}},
		"out of memory":         {long(Report{Lost: []Loss{{Cause: dispositionMemory, Attempts: 2}}, Each: held(6, 32)}), []string{"Attempts that needed more memory than they were given: 2."}},
		"out of time":           {long(Report{Lost: []Loss{{Cause: dispositionTimeout, Attempts: 1}}}), []string{"Attempts that exceeded their time limit: 1."}},
		"out of time, idle":     {long(Report{Lost: []Loss{{Cause: dispositionTimeout, Attempts: 1}}, GPUs: gpus(of(0))}), []string{"This run did not use the GPU."}},
		"Slurm was not there":   {long(Report{Unasked: "no sinfo", Lost: []Loss{{Cause: dispositionStopped}}}), []string{"Slurm was not asked how attempts ended, and may know more: no sinfo."}},
		"files seen late":       {Report{Phases: []PhaseUse{{Phase: "wait", Seconds: 90, Share: 0.01, LongestSeconds: 61, LongestTask: "score-000002-00001"}}}, []string{"Files that one node had sealed were seen late by others: tasks waited 00:01:30 for them in all (1.0% of their time), 00:01:01 at most (score-000002-00001)."}},
		"files seen at once":    {Report{Phases: []PhaseUse{{Phase: "wait", Seconds: 9, LongestSeconds: 0.9}, {Phase: "decode", Seconds: 90, Share: 1, LongestSeconds: 61}}}, nil},
		"13 cores for a GPU":    {long(Report{Each: []Attempt{{Stage: "learn", Cores: 26, GPUs: gpus(nil, nil)}}}), []string{"The tasks of learn held 13 cores for each GPU. Up to 12"}},
		"12 cores for a GPU":    {long(Report{Each: []Attempt{{Stage: "learn", Cores: 24, GPUs: gpus(nil, nil)}}}), nil},
		"one GPU of two nodes":  {long(spread("n1", "n2", 1)), []string{"learn-000001-00000 used 2 GPUs from 2 nodes, and nodes have 2 GPUs or more."}},
		"two GPUs of two nodes": {long(spread("n1", "n2", 2)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := notes(&c.report)
			ok := len(got) == len(c.want)
			for i := range min(len(got), len(c.want)) {
				ok = ok && strings.HasPrefix(got[i].Text, c.want[i])
			}
			if !ok {
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
	idle := Report{Phases: []PhaseUse{{Phase: "wait", Share: 0.5, CPUShare: of(0.01)}, {Phase: "decode", Share: 0.5, CPUShare: of(0.9)}}}
	if cause := idleCause(&idle); cause != "Little was used during wait (50% of the time)." {
		t.Errorf("the cause is %q", cause)
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

// jobstats' suggestion of memory: a fifth above, in round numbers that are no less.
func TestSuggestedMemory(t *testing.T) {
	t.Parallel()
	for used, want := range map[float64]int{0.1: 1, 1: 2, 20: 24, 26: 35, 90: 110, 300: 360, 1000: 1200, 1001: 1300} {
		if got := suggestedGiB(used * (1 << 30)); got != want {
			t.Errorf("%v GiB used: %d, want %d", used, got, want)
		}
	}
	if got := humanSeconds(90061); got != "1-01:01:01" {
		t.Error(got)
	}
}
