package efficiency

import (
	"slices"
	"strings"
	"testing"
)

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
		want   []string // beginnings, with ! where it is urgent
	}{
		"nothing":               {long(Report{}), nil},
		"idle GPU":              {long(Report{GPUs: gpus(of(0)), Total: Use{GPUShare: of(0)}}), []string{"!This run did not use the GPU."}},
		"idle, but short":       {Report{GPUs: gpus(of(0)), Total: Use{GPUShare: of(0)}}, nil},
		"some idle":             {long(Report{GPUs: gpus(of(0), of(0.9), of(0)), Total: Use{GPUShare: of(0.3)}}), []string{"!This run did not use 2 of the 3 GPUs"}},
		"unknown is not idle":   {long(Report{GPUs: gpus(nil, nil)}), nil},
		"15 %":                  {long(Report{GPUs: gpus(of(0.15)), Total: Use{GPUShare: of(0.15)}}), []string{"!The overall GPU utilization of this run is only 15%."}},
		"24 %":                  {long(Report{GPUs: gpus(of(0.24)), Total: Use{GPUShare: of(0.24)}}), []string{"The overall GPU utilization of this run is 24%, which is somewhat low."}},
		"25 %":                  {long(Report{GPUs: gpus(of(0.25)), Total: Use{GPUShare: of(0.25)}}), nil},
		"64 % of cores":         {long(Report{Total: Use{CPUShare: of(0.64), CoreSeconds: 8, Seconds: 2}}), []string{"!The overall CPU utilization of this run is 64%. This value is low"}},
		"80 % of cores":         {long(Report{Total: Use{CPUShare: of(0.8), CoreSeconds: 4, Seconds: 1}}), []string{"The overall CPU utilization of this run is 80%. This value is somewhat low"}},
		"81 % of cores":         {long(Report{Total: Use{CPUShare: of(0.81), CoreSeconds: 4, Seconds: 1}}), nil},
		"one core of four":      {long(Report{Total: Use{CPUShare: of(0.24), CoreSeconds: 4, Seconds: 1}}), []string{"!The overall CPU", "The CPU utilization is about one by"}},
		"too much memory":       {long(Report{Each: held(6, 32)}), []string{"The tasks used at most 19% of the 32.0GB of memory that they were given. For a next run, 8 GiB a task would do"}},
		"enough memory in use":  {long(Report{Each: held(23, 32)}), nil},
		"60 % of the limit":     {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 2160, LimitSeconds: 3600}}}), nil},
		"59 % of the limit":     {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 2124, LimitSeconds: 3600}}}), []string{"The tasks of learn needed at most 59% of their time limit of 01:00:00."}},
		"short of a long limit": {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 900, LimitSeconds: 36000}}}), nil},
		"shared":                {long(Report{Shared: true}), []string{"Some GPUs were seen by several tasks at once"}},
		"killed":                {long(Report{Lost: []Loss{{Cause: dispositionKilled, Attempts: 2}}}), []string{"!Attempts that ended without a message: 2"}},
		"out of memory":         {long(Report{Lost: []Loss{{Cause: dispositionMemory, Attempts: 2}}, Each: held(6, 32)}), []string{"!Attempts that needed more memory than they were given: 2."}},
		"out of time":           {long(Report{Lost: []Loss{{Cause: dispositionTimeout, Attempts: 1}}}), []string{"!Attempts that exceeded their time limit: 1."}},
		"out of time, idle":     {long(Report{Lost: []Loss{{Cause: dispositionTimeout, Attempts: 1}}, GPUs: gpus(of(0))}), []string{"!This run did not use the GPU."}},
		"Slurm was not there":   {long(Report{Unasked: "no sinfo", Lost: []Loss{{Cause: dispositionStopped}}}), []string{"Slurm was not asked how attempts ended, and may know more: no sinfo."}},
		"files seen late":       {Report{Phases: []PhaseUse{{Phase: "wait", Seconds: 90, Share: 0.01, LongestSeconds: 61, LongestTask: "score-000002-00001"}}}, []string{"Files that one node had sealed were seen late by others: tasks waited 00:01:30 for them in all (1.0% of their time), 00:01:01 at most (score-000002-00001)."}},
		"files seen at once":    {Report{Phases: []PhaseUse{{Phase: "wait", Seconds: 9, LongestSeconds: 0.9}, {Phase: "decode", Seconds: 90, Share: 1, LongestSeconds: 61}}}, nil},
		"13 cores for a GPU":    {long(Report{Each: []Attempt{{Stage: "learn", Cores: 26, GPUs: gpus(nil, nil)}}}), []string{"The tasks of learn held 13 cores for each GPU. Up to 12"}},
		"12 cores for a GPU":    {long(Report{Each: []Attempt{{Stage: "learn", Cores: 24, GPUs: gpus(nil, nil)}}}), nil},
		"idle for 300 s":        {Report{WallClockSeconds: 300, GPUs: gpus(of(0)), Total: Use{GPUShare: of(0)}}, nil},
		"15 % of a moment":      {Report{GPUs: gpus(of(0.15)), Total: Use{GPUShare: of(0.15)}}, []string{"!The overall GPU utilization of this run is only 15%. The phases below say when."}},
		"16 % of a moment":      {Report{GPUs: gpus(of(0.16)), Total: Use{GPUShare: of(0.16)}}, nil},
		"a share of no GPU":     {long(Report{GPUs: gpus(nil), Total: Use{GPUShare: of(0.1)}}), nil},
		"one GPU is known":      {long(Report{GPUs: gpus(of(0.1), nil), Total: Use{GPUShare: of(0.1)}}), []string{"!The overall GPU utilization of this run is only 10%."}},
		"65 % of cores":         {long(Report{Total: Use{CPUShare: of(0.65), CoreSeconds: 4, Seconds: 1}}), []string{"The overall CPU utilization of this run is 65%. This value is somewhat low"}},
		"64 % beside GPUs":      {long(Report{GPUs: gpus(of(0.9)), Total: Use{CPUShare: of(0.64), CoreSeconds: 4, Seconds: 1}}), nil},
		"64 % of a moment":      {Report{Total: Use{CPUShare: of(0.64), CoreSeconds: 4, Seconds: 1}}, nil},
		"no CPU at all":         {long(Report{Total: Use{CPUShare: of(0), CoreSeconds: 4, Seconds: 1}, Lost: []Loss{{Cause: dispositionMemory}, {Cause: dispositionTimeout}}}), nil},
		// One core of four is 25 %: remarked on from above 21.25 % to below 25.25 %.
		"21.2 % of four cores":  {long(Report{Total: Use{CPUShare: of(0.212), CoreSeconds: 8, Seconds: 2}}), []string{"!The overall CPU"}},
		"21.4 % of four cores":  {long(Report{Total: Use{CPUShare: of(0.214), CoreSeconds: 8, Seconds: 2}}), []string{"!The overall CPU", "The CPU"}},
		"25.2 % of four cores":  {long(Report{Total: Use{CPUShare: of(0.252), CoreSeconds: 8, Seconds: 2}}), []string{"!The overall CPU", "The CPU"}},
		"25.3 % of four cores":  {long(Report{Total: Use{CPUShare: of(0.253), CoreSeconds: 8, Seconds: 2}}), []string{"!The overall CPU"}},
		"64 % of 1.5 cores":     {long(Report{Total: Use{CPUShare: of(0.64), CoreSeconds: 3, Seconds: 2}}), []string{"!The overall CPU"}},
		"memory of a moment":    {Report{Each: held(6, 32)}, nil},
		"memory of all":         {long(Report{Each: held(6, 32)}), []string{"The tasks used at most 19% of the 32.0GB of memory that they were given. For a next run, 8 GiB a task would do (3.6GB for each of 2 cores)."}},
		"70 % of memory":        {long(Report{Each: held(22.4, 32)}), nil},
		"no memory in use":      {long(Report{Each: held(0, 32)}), nil},
		"memory of the host":    {long(Report{Each: []Attempt{{MemoryOfHost: true, MemoryMaxBytes: 1, MemoryGivenBytes: 1 << 35}}}), nil},
		"memory, idle GPU":      {long(Report{GPUs: gpus(of(0)), Each: held(6, 64)}), []string{"!This run did not use the GPU."}},
		"49 GiB of a GPU":       {long(Report{Each: []Attempt{{MemoryMaxBytes: 1 << 30, MemoryGivenBytes: 49 << 30, GPUs: gpus(nil)}}}), nil},
		"50 GiB of a GPU":       {long(Report{Each: []Attempt{{MemoryMaxBytes: 1 << 30, MemoryGivenBytes: 50 << 30, GPUs: gpus(nil)}}}), []string{"The tasks used at most 2% of the 50.0GB of memory that they were given. For a next run, 2 GiB a task would do (1.2GB for each of 1 cores)."}},
		"the most given":        {long(Report{Each: append(held(1, 8), append(held(2, 16), held(1, 4)...)...)}), []string{"The tasks used at most 12% of the 16.0GB"}},
		"901 s of a limit":      {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 901, LimitSeconds: 9010}}}), []string{"!The tasks of learn needed at most 10% of"}},
		"11 % of a limit":       {long(Report{Stages: []StageUse{{Stage: "learn", LongestSeconds: 1100, LimitSeconds: 10000}, {Stage: "score", LongestSeconds: 1000}}}), []string{"The tasks of learn needed at most 11% of"}},
		"10 %, idle GPU":        {long(Report{GPUs: gpus(of(0)), Stages: []StageUse{{Stage: "learn", LongestSeconds: 1000, LimitSeconds: 10000}}}), []string{"!This run did not use the GPU."}},
		"Slurm was not needed":  {long(Report{Unasked: "no sinfo"}), nil},
		"files a second late":   {Report{Phases: []PhaseUse{{Phase: "wait", Seconds: 90, Share: 0.05, LongestSeconds: 1}}}, []string{"!Files that one node had sealed were seen late"}},
		"a fault":               {Report{Faults: []Fault{{Text: "x: no permission"}, {Text: "y"}}}, []string{"Some numbers could not be read: x: no permission."}},
		"cores of the most":     {long(Report{Each: []Attempt{{Stage: "learn", Cores: 13, GPUs: gpus(nil)}, {Stage: "rollout", Cores: 14, GPUs: gpus(nil)}, {Stage: "score", Cores: 64}, {Stage: "gradient", Cores: 20, GPUs: gpus(nil, nil)}}}), []string{"The tasks of rollout held 14 cores"}},
		"many cores, idle":      {long(Report{GPUs: gpus(of(0)), Each: []Attempt{{Stage: "learn", Cores: 13, GPUs: gpus(nil)}}}), []string{"!This run did not use the GPU."}},
		"nodes by an index":     {long(Report{GPUs: []GPU{{Host: "n1", Index: 3}}, Each: spread("n1", "n2", 2).Each}), []string{"learn-000001-00000 used 4 GPUs from 2 nodes, and nodes have 4 GPUs or more. Use all"}},
		"nodes without GPUs":    {long(Report{Each: []Attempt{{Task: "a", Host: "n1"}, {Task: "a", Host: "n2"}}}), nil},
		"one GPU of two nodes":  {long(spread("n1", "n2", 1)), []string{"learn-000001-00000 used 2 GPUs from 2 nodes, and nodes have 2 GPUs or more."}},
		"two GPUs of two nodes": {long(spread("n1", "n2", 2)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, n := range notes(&c.report) {
				got = append(got, map[bool]string{true: "!"}[n.Urgent]+n.Text)
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	for _, c := range []struct {
		report Report
		want   string
	}{
		{Report{Phases: []PhaseUse{{Phase: "wait", Share: 0.5, CPUShare: of(0.01)}, {Phase: "decode", Share: 0.5, CPUShare: of(0.9), GPUShare: of(0)}}}, "Little was used during wait (50% of the time)."},
		{Report{GPUs: gpus(nil), Phases: []PhaseUse{{Phase: "wait", Share: 0.5, CPUShare: of(0.01)}, {Phase: "decode", Share: 0.1, CPUShare: of(0.9), GPUShare: of(0.24)}}}, "Little was used during decode (10% of the time)."},
		{Report{Phases: []PhaseUse{{Phase: "a", Share: 0.25, CPUShare: of(0.25)}, {Phase: "b", Share: 0.09, CPUShare: of(0)}}}, "The phases below say when."},
		{Report{Phases: []PhaseUse{{Phase: "a", Share: 0.2, CPUShare: of(0)}, {Phase: "b", Share: 0.2, CPUShare: of(0)}, {Phase: "c", Share: 0.2, CPUShare: of(0)}, {Phase: "d", Share: 0.2, CPUShare: of(0)}}}, "Little was used during a (20% of the time), b (20% of the time), c (20% of the time)."},
	} {
		if cause := idleCause(&c.report); cause != c.want {
			t.Errorf("the cause is %q, want %q", cause, c.want)
		}
	}
}

// jobstats' suggestion of memory: a fifth above, in round numbers that are no less: of
// GiB up to 30, of 5 up to 100, of 10 up to 1000, of 100.
func TestSuggestedMemory(t *testing.T) {
	t.Parallel()
	for used, want := range map[float64]int{0: 1, 0.1: 1, 1: 2, 20: 24, 25: 30, 25.5: 35, 83: 100, 84: 110, 90: 110, 300: 360, 833: 1000, 834: 1100, 1000: 1200, 1001: 1300} {
		if got := suggestedGiB(used * (1 << 30)); got != want {
			t.Errorf("%v GiB used: %d, want %d", used, got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "00:00:00", 59.4: "00:00:59", 3661: "01:01:01", 86399.4: "23:59:59", 86399.5: "1-00:00:00", 90061: "1-01:01:01"} {
		if got := humanSeconds(seconds); got != want {
			t.Errorf("%v s: %s, want %s", seconds, got, want)
		}
	}
	for seconds, want := range map[float64]string{59.9: "59.9s", 60: "00:01:00"} {
		if got := shortSeconds(seconds); got != want {
			t.Errorf("%v s: %s, want %s", seconds, got, want)
		}
	}
	for bytes, want := range map[float64]string{0: "0.0B", 1023: "1023.0B", 1024: "1.0KB", 1 << 30: "1.0GB", 1 << 50: "1.0PB", 1 << 61: "2048.0PB"} {
		if got := humanBytes(bytes); got != want {
			t.Errorf("%v bytes: %s, want %s", bytes, got, want)
		}
	}
}
