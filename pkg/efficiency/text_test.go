package efficiency

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestText: a run without GPUs, whose state and user are known.
func TestText(t *testing.T) {
	t.Parallel()
	code, start := 3, began
	r := Report{
		RunID: "r1", Name: "cores", User: "alice", State: "failed", Exit: &code, Sampled: true, Start: &start, Attempts: 2, Tasks: 1, WallClockSeconds: 90, Made: Made{PolicyUpdates: 2},
		Nodes: []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10"}, Each: []Attempt{{MemoryOfHost: true}},
		Total:  Use{Seconds: 30, CPUSeconds: 60, CoreSeconds: 120, CPUShare: of(0.5), MemoryMaxBytes: 2048, EnergyJoules: of(3.6e6)},
		Stages: []StageUse{{Stage: "score", Attempts: 2, Use: Use{Seconds: 30, CPUShare: of(0.5)}}},
		Phases: []PhaseUse{{Phase: "load", Seconds: 61, Share: 0.25, LongestSeconds: 30.04, LongestTask: "score-000001-00000"}},
		Cost:   Cost{PerTrained: &Unit{CoreSeconds: 12.5}},
		Lost: []Loss{
			{To: toRetries, Cause: dispositionStopped, Means: "by a signal from an unknown sender", Attempts: 1, Seconds: 5, Share: 0.125},
			{To: toStragglers, Cause: dispositionLate, Means: "the run continued without it", Attempts: 2, Seconds: 6, Share: 0.25},
		},
		LostTo: LostTo{Retries: 0.125, Unexplained: 0.125, Stragglers: 0.25},
		Tails:  slices.Repeat([]Tail{{"score-000001", 2, 1, 2.5, "score-000001-00001", "n2"}}, 6), Tail: of(0.1),
		Notes:  []Note{{Text: strings.Repeat("word ", 20), Urgent: true}, {Text: "a remark"}},
		Faults: []Fault{{Text: "x", Host: "n1", Device: "g", Attempts: 1}, {Text: "y", Host: "n2", Attempts: 2}},
	}
	const want = `Run ID:                    r1
Run name:                  cores
User:                      alice
State:                     failed (exit code 3)
Policy updates:            2
Sampled:                   2 attempts at 1 task, from 2026-03-02 09:00:00 UTC
Nodes:                     10: n1, n2, n3, n4, n5, n6, n7, n8, and 2 more
CPU Utilized:              00:01:00
CPU Efficiency:            50.0% of 00:02:00 core-walltime
Job Wall-clock time:       00:01:30
Memory Utilized:           2.0KB (of the task that used most)
Memory Efficiency:         -% of the memory of their hosts: the tasks have no limit
Core time lost:            0.0% to preemption, 12.5% to retries (12.5% for an unknown reason), 25.0% to stragglers
GPU Energy:                1 kWh (3.6e+06 J)

Overall utilization
  CPU utilization  [|||||||||||||||||||||||||                      50%]
  CPU memory usage [                     unknown                      ]

By stage
  STAGE  ATTEMPTS  TIME   CPU%  MEM%
  score  2         30.0s  50.0  -
  all    2         30.0s  50.0  -

By phase
  PHASE  TIME      SHARE%  CPU%  LONGEST  IN
  load   00:01:01  25.0    -     30.0s    score-000001-00000

Cost of one, of all that was sampled
                    CORE_S  GPU_S  JOULES
  trained response  12.5    -      -

Lost: attempts that made nothing, and stragglers
  LOST_TO     CAUSE    ATTEMPTS  CORE_S  SHARE%
  retries     stopped  1         5.0     12.5
  stragglers  late     2         6.0     25.0
  stopped: by a signal from an unknown sender. late: the run continued without
  it.

Arrays that waited longest for their slowest task (all arrays: 10.0% of the wall clock)
  SLOWEST TASK        OF  MEDIAN_S  SLOWEST_S  NODE
TAILS
Notes
  ! word word word word word word word word word word word word word word word
    word word word word word
  * a remark

Not read: x (n1 g, 1 attempt)
Not read: y (n2, 2 attempts)
`
	tails := strings.Repeat("  score-000001-00001  2   1.0       2.5        n2\n", 5)
	var got bytes.Buffer
	if err := r.Text(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Replace(want, "TAILS\n", tails+"\n", 1), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// What is not there has no line.
	r = Report{RunID: "r1", Name: "a", State: "pending", Reason: "nobody looked"}
	got.Reset()
	if err := r.Text(&got); err != nil || got.String() != "Run ID:                    r1\nRun name:                  a\nState:                     pending\nPolicy updates:            0\n\nNothing was sampled: nobody looked.\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
	if page, err := r.page(); err != nil || strings.Contains(string(page), "Overall utilization") || !strings.Contains(string(page), "Nothing was sampled: nobody looked.") {
		t.Errorf("%s, %v", page, err)
	}
	r = Report{Sampled: true, Start: &start, Each: []Attempt{{MemoryOfHost: true}, {}}, Nodes: []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"}, GPUs: []GPU{{Name: "b"}, {Name: "a"}, {Name: "b"}}}
	facts := fmt.Sprint(r.facts())
	for _, part := range []string{"8: n1, n2, n3, n4, n5, n6, n7, n8]", "3: 2 × b, 1 × a]", "of what the tasks were given", "GPU time lost 0.0% to preemption, 0.0% to retries, 0.0%"} {
		if !strings.Contains(facts, part) {
			t.Errorf("%s lacks %q", facts, part)
		}
	}
	if strings.Contains(facts, "State") || strings.Contains(facts, "User") || strings.Contains(facts, "Energy") {
		t.Error(facts)
	}
	var titles []string
	for _, table := range r.tables() {
		titles = append(titles, table.Title)
	}
	if want := []string{"By stage", "By stage: GPUs", "GPUs, over the tasks that held them", "Lost: attempts that made nothing, and stragglers"}; !slices.Equal(titles, want) {
		t.Errorf("%q", titles)
	}
	r.Tails = []Tail{{}}
	if all := r.tables(); all[len(all)-1].Title != "Arrays that waited longest for their slowest task" || fmt.Sprint(all[len(all)-2].Rows) != "[[nothing - 0 0.0 0.0]]" {
		t.Errorf("%+v", all)
	}
}

// TestGPUTable: a MIG instance has no index, and of errors those that the driver names come
// before those that memory counts.
func TestGPUTable(t *testing.T) {
	t.Parallel()
	r := Report{GPUs: []GPU{{Host: "n1", Index: -1}, {Host: "n1", ECCUncorrected: of(2)}, {Host: "n1", Index: 1, ECCUncorrected: of(2), XIDs: []int{31, 79}, MemoryTotalBytes: 2048, Use: Use{MemoryMaxBytes: 1024, GPUMemoryShare: of(0.5)}, TemperatureMax: of(60)}}}
	want := [][]string{
		{"n1", "MIG", "0.0s", "-", "-", "-", "-", "-", "-", "-"},
		{"n1", "0", "0.0s", "-", "-", "-", "-", "-", "-", "2 ECC"},
		{"n1", "1", "0.0s", "-", "1.0KB/2.0KB (50.0%)", "-", "-", "-", "60", "XID [31 79]"},
	}
	if diff := cmp.Diff(want, r.gpuTable().Rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	host := StageUse{Stage: "score", Use: Use{Seconds: 5}}
	device := StageUse{Stage: "learn", Use: Use{Seconds: 5, GPUSeconds: 5}, MFU: of(0.000012345)}
	r = Report{Stages: []StageUse{host, device}, Total: Use{GPUSeconds: 5}}
	if tables := r.stageTables(true); len(tables[0].Rows) != 3 || len(tables[1].Rows) != 2 || tables[1].Rows[0][0] != "learn" || tables[1].Rows[0][10] != "0.00123" || tables[1].Rows[1][10] != "-" {
		t.Errorf("%+v", tables)
	}
}

// TestBars: of 400, and in another colour below the red threshold of jobstats: 65 % of cores
// in a run without GPUs, 15 % of GPUs.
func TestBars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		report Report
		want   []bar
	}{
		{Report{Total: Use{CPUShare: of(0.64), MemoryShare: of(0)}}, []bar{{"CPU utilization", "64.0 %", 2, 15, 256, lowFill}, {"CPU memory", "0.0 %", 26, 39, 0, barFill}}},
		{Report{Total: Use{CPUShare: of(0.65)}}, []bar{{"CPU utilization", "65.0 %", 2, 15, 260, barFill}, {"CPU memory", "unknown", 26, 39, 0, barFill}}},
		{
			Report{Total: Use{CPUShare: of(0.01), MemoryShare: of(2), GPUShare: of(0.15), GPUMemoryShare: of(0.001)}, GPUs: make([]GPU, 1)},
			[]bar{{"CPU utilization", "1.0 %", 2, 15, 4, barFill}, {"CPU memory", "200.0 %", 26, 39, 400, barFill}, {"GPU utilization", "15.0 %", 50, 63, 60, barFill}, {"GPU memory", "0.1 %", 74, 87, 0, barFill}},
		},
		{
			Report{Total: Use{GPUShare: of(0.14)}, GPUs: make([]GPU, 1)},
			[]bar{{"CPU utilization", "unknown", 2, 15, 0, barFill}, {"CPU memory", "unknown", 26, 39, 0, barFill}, {"GPU utilization", "14.0 %", 50, 63, 56, lowFill}, {"GPU memory", "unknown", 74, 87, 0, barFill}},
		},
	} {
		got := c.report.bars()
		if diff := cmp.Diff(c.want, got.Rows); diff != "" || got.Height != 24*len(c.want) {
			t.Errorf("height %d (-want +got):\n%s", got.Height, diff)
		}
	}
	r := Report{Own: MonitorCost{Samples: 1, DiskBytes: 2048, CPUShare: of(0.0025)}}
	if got := r.own(); got != "1 sample, 2.0KB on disk. Sampling took 0.25 % of a core beside each task." {
		t.Error(got)
	}
	if got := (&Report{}).own(); got != "0 samples, 0.0B on disk." {
		t.Error(got)
	}
}

// TestFigures: a figure for each of 16 GPUs that did something, of at most 160 points, unless
// gaps lie between all of more.
func TestFigures(t *testing.T) {
	t.Parallel()
	start := second(0)
	line := func(n int, gap float64) (line []moment) {
		for i := range n {
			line = append(line, moment{start.Add(time.Duration(float64(60*(i+1)) * (1 + gap) * float64(time.Second))), 60, 0.5})
		}
		return line
	}
	r := Report{Start: &start}
	for _, c := range []struct {
		n    int
		gap  float64
		want int
	}{{0, 0, 0}, {160, 0, 160}, {161, 0, 81}, {640, 0, 160}, {200, 2, 200}} {
		if got := r.points(line(c.n, c.gap)); len(got) != c.want {
			t.Errorf("of %d moments are %d points, want %d", c.n, len(got), c.want)
		}
	}
	if got := r.points(line(2, 0)); got[1].X != 2 || got[1].Y != 50 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		busy, idle, want int
		left             string
	}{{2, 3, 2, ""}, {16, 3, 16, ""}, {17, 1, 16, "Drawn are 16 of 18 GPUs; the samples have all."}} {
		r.GPUs = make([]GPU, c.busy+c.idle)
		for i := range c.busy {
			r.GPUs[i].line = line(3, 0)
		}
		if charts, left := r.figures(); len(charts) != c.want || left != c.left {
			t.Errorf("%d figures of %d, %q", len(charts), c.busy, left)
		}
	}
}

// TestWrap: lines of at most 78 characters with their indent of two: 2 + 37 + 1 + 38 = 78.
func TestWrap(t *testing.T) {
	t.Parallel()
	word, long := strings.Repeat("x", 37), strings.Repeat("y", 99)
	for text, want := range map[string]string{
		"": "", "a  b": "a b", word + " " + word + "z": word + " " + word + "z", word + " " + word + "zz": word + "\n  " + word + "zz",
		word + " " + word + " z": word + " " + word + "\n  z", long + " z": long + "\n  z",
	} {
		if got := wrap(text, 2); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
