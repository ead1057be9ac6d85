package efficiency

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func of(v float64) *float64 { return &v }

// seen is what samples at seconds 0, 1, 2, … say of an attempt; a device is before a colon.
type seen map[string][]float64

// attempt is one that was sampled so.
func (s seen) attempt(task string, gpus ...string) Attempt {
	p := &parts{series: map[key]*series{}, phases: map[string]float64{}, names: map[string]string{}, indices: map[string]int{}, xids: map[string][]int{}, faults: map[fault]bool{}}
	for i, device := range gpus {
		p.take(shard.Sample{Time: 1, Device: device, Name: monitor.DeviceName, Value: float64(len(gpus) - i), Detail: "H100"})
	}
	last := 0
	for name, values := range s {
		row := shard.Sample{Name: name, Phase: "decode"}
		for _, device := range gpus {
			if n := len(device); len(name) > n && name[:n+1] == device+":" {
				row.Device, row.Name = device, name[n+1:]
			}
		}
		for i, value := range values {
			row.Time, row.Value = int64(1+i)*1e6, value
			p.take(row)
		}
		last = max(last, len(values)-1)
	}
	a := Attempt{Task: task, Host: "n1", Start: time.Unix(1, 0).UTC(), Seconds: float64(last), parts: p}
	a.fill()
	return a
}

// TestFill: what the samples of an attempt say of it, by hand.
func TestFill(t *testing.T) {
	t.Parallel()
	a := seen{
		monitor.Cores: {8, 4, 4}, monitor.CPUSeconds: {1, 3, 6}, monitor.MemoryBytes: {10, 30, 20}, monitor.MemoryLimitBytes: {50, 40, 40},
		"g:" + monitor.UtilizationShare: {0, 0.5, 1}, "g:" + monitor.MemoryUsedBytes: {10, 40, 20}, "g:" + monitor.MemoryTotalBytes: {80, 80, 80}, "g:" + monitor.TemperatureCelsius: {40, 60, 50},
		"g:" + monitor.ECCUncorrected: {0, 1, 2}, "g:" + monitor.XID: {31, 79}, "g:" + monitor.EnergyJoules: {100, 150, 170}, "g:" + monitor.PowerWatts: {50, 50, 40},
		// Of NVML's reasons 0x1 is an idle GPU and 0x2 the clocks that somebody set; 0x4 and 0x81 hold clocks down.
		"g:" + monitor.ThrottleReasons: {4, 3, 4}, "h:" + monitor.PowerWatts: {7, 10, 20}, "h:" + monitor.ThrottleReasons: {0, 0x81, 0x60},
	}.attempt("rollout-000001-00000", "g", "h", "i")
	if a.Cores != 4 || a.CPUSeconds != 6 || a.MemoryMaxBytes != 30 || a.MemoryGivenBytes != 40 || a.MemoryOfHost || len(a.GPUs) != 3 || a.GPUs[0].UUID != "i" || a.GPUs[2].UUID != "g" {
		t.Errorf("%+v", a)
	}
	i, h, g := a.GPUs[0], a.GPUs[1], a.GPUs[2]
	want := Use{
		Seconds: 2, GPUSeconds: 2, GPUShare: of(0.75), GPUMemoryShare: of(0.5), MemoryMaxBytes: 40, PowerWatts: of(45), EnergyJoules: of(70), SlowdownShare: of(0.5),
	}
	if diff := cmp.Diff(want, g.Use); diff != "" || *g.TemperatureMax != 60 || *g.ECCUncorrected != 2 || fmt.Sprint(g.XIDs) != "[31 79]" || g.Index != 3 || g.MemoryTotalBytes != 80 || len(g.line) != 2 {
		t.Errorf("%+v (-want +got):\n%s", g, diff)
	}
	// Without a counter of energy it is that of the power, 10 and 20 watts of a second each.
	if diff := cmp.Diff(Use{Seconds: 2, GPUSeconds: 2, PowerWatts: of(15), EnergyJoules: of(30), SlowdownShare: of(1)}, h.Use); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Use{Seconds: 2, GPUSeconds: 2}, i.Use); diff != "" || i.TemperatureMax != nil || i.ECCUncorrected != nil {
		t.Errorf("of a device with a name alone (-want +got):\n%s", diff)
	}
	host := seen{monitor.HostMemoryTotalBytes: {90, 90}, "g:" + monitor.EnergyJoules: {5}, "g:" + monitor.PowerWatts: {7}, "g:" + monitor.TemperatureCelsius: {0}}.attempt("a", "g")
	if host.MemoryGivenBytes != 90 || !host.MemoryOfHost || host.GPUs[0].EnergyJoules != nil || *host.GPUs[0].TemperatureMax != 0 {
		t.Errorf("%+v", host)
	}
	host.heldUntil(host.Start.Add(5 * time.Second))
	if g := host.GPUs[0]; host.Seconds != 5 || g.HeldSeconds != 5 || g.Seconds != 5 || g.GPUSeconds != 5 {
		t.Errorf("held for 5 s: %+v", host)
	}
	p := host.parts
	for _, row := range []shard.Sample{{Name: monitor.Fault, Detail: "gone", Value: 0, Time: 9e6}, {Name: monitor.Fault, Device: "g", Detail: "lost", Value: 1, Time: 5}, {Name: monitor.PhaseSeconds, Detail: "load", Value: 2}, {Name: monitor.PhaseSeconds, Detail: "load", Value: 3}} {
		row.Time = max(row.Time, 1)
		p.take(row)
	}
	if diff := cmp.Diff(map[fault]bool{{"g", "lost"}: true}, p.faults, cmp.AllowUnexported(fault{})); diff != "" || p.phases["load"] != 5 || p.first != 1 || p.last != 9e6 || p.samples != 1+2+1+1+1+4 {
		t.Errorf("%s; %v, from %d to %d, %d samples", diff, p.phases, p.first, p.last, p.samples)
	}
}

// TestUse by hand: of two attempts for 10 and 30 s on 4 and 1 cores, and one whose cores and
// memory nobody knows. 50 of 70 core-seconds are used; of memory 2 · 10 + 3 · 30 = 110 of
// 4 · 10 + 4 · 30 = 160 byte-seconds; of a GPU's memory 1 · 10 of 4 · 10, since that of the other
// has no total.
func TestUse(t *testing.T) {
	t.Parallel()
	energy := of(7)
	attempts := []Attempt{
		{
			Task: "rollout-000001-00000", Stage: "rollout", Seconds: 10, Cores: 4, CPUSeconds: 35, MemoryMaxBytes: 2, MemoryGivenBytes: 4, Host: "n2", Start: second(0), parts: &parts{phases: map[string]float64{"load": 4, "decode": 6}},
			GPUs: []GPU{{Host: "n2", Index: 1, UUID: "b", HeldSeconds: 10, MemoryTotalBytes: 4, Use: Use{MemoryMaxBytes: 1, EnergyJoules: energy}, XIDs: []int{31}, TemperatureMax: of(50), line: []moment{{second(10), 10, 1}}}},
		},
		{
			Task: "learn-000001-00000", Stage: "learn", Seconds: 30, Cores: 1, CPUSeconds: 15, MemoryMaxBytes: 3, MemoryGivenBytes: 4, Host: "n1", Start: second(20), parts: &parts{phases: map[string]float64{"load": 5}},
			GPUs: []GPU{
				{Host: "n2", Index: 1, UUID: "b", HeldSeconds: 30, MemoryTotalBytes: 2, Use: Use{MemoryMaxBytes: 2, EnergyJoules: energy}, XIDs: []int{79}, TemperatureMax: of(60), line: []moment{{second(25), 5, 1}}},
				{Host: "n1", Index: 1, UUID: "d", HeldSeconds: 30},
				{Host: "n1", Index: 1, UUID: "c", HeldSeconds: 30},
				{Host: "n1", Index: 0, UUID: "z", HeldSeconds: 30},
			},
		},
		{Task: "rollout-000001-00001", Stage: "rollout", Seconds: 5, CPUSeconds: 5, MemoryMaxBytes: 1, Host: "n1", Start: second(0), parts: &parts{}},
	}
	// 1 · 10 + 2 · 30 of 4 · 10 + 2 · 30 byte-seconds of the GPUs whose memory is known.
	want := Use{Seconds: 45, CoreSeconds: 70, CPUSeconds: 55, CPUShare: of(50 / 70.0), MemoryMaxBytes: 3, MemoryShare: of(110 / 160.0), GPUSeconds: 130, GPUMemoryShare: of(0.7), EnergyJoules: of(14)}
	if diff := cmp.Diff(want, useOf(attempts)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := useOf([]Attempt{{Seconds: 1, Cores: 1, CPUSeconds: 1.25, MemoryGivenBytes: 1, parts: &parts{}}}); *got.CPUShare != 1 || *got.MemoryShare != 0 || got.EnergyJoules != nil || got.GPUMemoryShare != nil {
		t.Errorf("%+v", got)
	}
	if got := useOf([]Attempt{{Cores: 1, CPUSeconds: 1.25, MemoryGivenBytes: 1, parts: &parts{}}, {Seconds: 1, Cores: 2, CPUSeconds: 1, MemoryMaxBytes: 3, parts: &parts{}}}); *got.CPUShare != 0.5 || got.MemoryShare != nil {
		t.Errorf("%+v", got)
	}
	stages := byStage(attempts)
	if len(stages) != 2 || stages[0].Stage != "rollout" || stages[0].Attempts != 2 || stages[0].Seconds != 15 || stages[1].Attempts != 1 {
		t.Errorf("%+v", stages)
	}
	phases := byPhase(attempts)
	if len(phases) != 2 || phases[0].Phase != "load" || phases[0].Seconds != 9 || phases[0].Share != 0.6 || phases[0].GPUSeconds != 4+5*4 || phases[0].LongestSeconds != 5 || phases[0].LongestTask != "learn-000001-00000" ||
		phases[1].Seconds != 6 || phases[1].LongestTask != "rollout-000001-00000" || phases[1].CPUShare != nil {
		t.Errorf("%+v", phases)
	}
	gpus := byGPU(attempts)
	var names string
	for _, g := range gpus {
		names += g.UUID
	}
	b := gpus[3]
	if names != "zcdb" || b.HeldSeconds != 40 || b.Seconds != 40 || b.MemoryTotalBytes != 4 || b.MemoryMaxBytes != 2 || *b.GPUMemoryShare != 0.5 || *b.TemperatureMax != 60 || fmt.Sprint(b.XIDs) != "[31 79]" || *b.EnergyJoules != 14 || gpus[0].GPUMemoryShare != nil {
		t.Errorf("%s: %+v", names, b)
	}
	// Nobody used the device from second 10 to 20.
	if diff := cmp.Diff([]moment{{second(10), 10, 1}, {second(10), 0, 0}, {second(20), 10, 0}, {second(25), 5, 1}}, b.line, cmp.AllowUnexported(moment{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := joined([]moment{{second(10), 10, 1}}, []moment{{second(15), 5, 1}}); len(got) != 2 {
		t.Errorf("one after the other: %v", got)
	}
	for _, c := range []struct{ a, b, want *float64 }{{nil, nil, nil}, {of(1), nil, of(1)}, {nil, of(1), of(1)}, {of(1), of(2), of(2)}, {of(2), of(1), of(2)}} {
		if diff := cmp.Diff(c.want, larger(c.a, c.b)); diff != "" {
			t.Error(diff)
		}
	}
	if fmt.Sprint(nodesOf(attempts)) != "[n1 n2]" {
		t.Error(nodesOf(attempts))
	}
}

// TestPhases by hand: phases of the same length go by their names, and of the one in which
// two attempts were as long the first is named. Cores were 4, so 1 of 4 core-seconds is used.
func TestPhases(t *testing.T) {
	t.Parallel()
	a := seen{monitor.Cores: {4, 4, 4}, monitor.CPUSeconds: {0, 1, 3}, "g:" + monitor.UtilizationShare: {0, 0.25, 0.75}, "g:" + monitor.PowerWatts: {0, 100, 200}}.attempt("a", "g")
	a.parts.phases = map[string]float64{"decode": 2, "load": 2}
	b := Attempt{Task: "b", parts: &parts{phases: map[string]float64{"decode": 2, "load": 2}}}
	got := byPhase([]Attempt{a, b})
	want := []PhaseUse{
		{Phase: "decode", Seconds: 4, Share: 0.5, CPUShare: of(3 / 8.0), GPUSeconds: 2, GPUShare: of(0.5), PowerWatts: of(150), LongestSeconds: 2, LongestTask: "a"},
		{Phase: "load", Seconds: 4, Share: 0.5, GPUSeconds: 2, LongestSeconds: 2, LongestTask: "a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTails by hand: of arrays of tasks that took 10, 20 and 60 s, on two nodes 30 and 40 s,
// and 5 and 5 s, the first waited 40 s, the second 5 for its slowest task, and the third none:
// 45 s of 90.
func TestTails(t *testing.T) {
	t.Parallel()
	at := func(stage string, shard int, seconds float64, disposition string) Attempt {
		return Attempt{Task: fmt.Sprintf("%s-000001-%05d", stage, shard), Seconds: seconds, Host: fmt.Sprintf("n%d", int(seconds)), Disposition: disposition, Cores: 2, GPUs: make([]GPU, 1)}
	}
	attempts := []Attempt{
		at("evalrollout", 0, 5, dispositionKept), at("evalrollout", 1, 5, dispositionKept), at("score", 0, 30, dispositionKept), at("score", 1, 40, dispositionKept), at("score", 1, 35, dispositionKept),
		at("rollout", 0, 10, dispositionKept), at("rollout", 1, 60, dispositionKept), at("rollout", 2, 20, dispositionKept), at("rollout", 2, 500, dispositionFailed), at("learn", 0, 9, dispositionKept), at("nothing", 0, 9, dispositionKept),
	}
	arrays := arraysOf(attempts)
	all, waited := tails(arrays, 90)
	want := []Tail{
		{"rollout-000001", 3, 20, 60, "rollout-000001-00001", "n60"}, {"score-000001", 2, 35, 40, "score-000001-00001", "n35"}, {"evalrollout-000001", 2, 5, 5, "evalrollout-000001-00001", "n5"},
	}
	if diff := cmp.Diff(want, all); diff != "" || *waited != 0.5 {
		t.Errorf("%v of the wall clock (-want +got):\n%s", *waited, diff)
	}
	if last := arrays[2].last(); last.Cores != 4 || len(last.GPUs) != 2 || arrays[2].name != "score-000001" { // of two nodes
		t.Errorf("%+v", arrays)
	}
	if all, waited := tails(nil, 90); len(all) != 0 || all == nil || waited != nil {
		t.Errorf("no array: %v, %v", all, waited)
	}
	if _, waited := tails(arrays, 10); *waited != 1 {
		t.Errorf("several arrays at once: %v", *waited)
	}
	// The slowest of an array without a tail is no loss. 2 cores for 9 s, or 1 where nobody knows.
	lost, _ := losses([]Attempt{at("learn", 0, 9, dispositionKilled), {Task: "a", Seconds: 9, Disposition: dispositionKilled}}, arraysOf(attempts[:2]), false)
	if len(lost) != 1 || lost[0].Seconds != 27 || lost[0].Attempts != 2 || lost[0].Share != 1 || lost[0].Unit != "core-seconds" || lost[0].Means == "" {
		t.Errorf("%+v", lost)
	}
	if lost, to := losses([]Attempt{{Task: "a", Disposition: dispositionStopped}}, nil, true); len(lost) != 1 || lost[0].Share != 0 || to.Unexplained != 0 {
		t.Errorf("of no time at all: %+v, %+v", lost, to)
	}
	if _, to := losses([]Attempt{at("learn", 0, 3, dispositionStopped), at("learn", 1, 1, dispositionKept)}, nil, true); to.Unexplained != 0.75 {
		t.Errorf("%+v", to)
	}
}

// TestCost by hand: what was held, by what was made; nothing by nothing.
func TestCost(t *testing.T) {
	t.Parallel()
	u := Use{CoreSeconds: 120, GPUSeconds: 60, EnergyJoules: of(600)}
	want := Cost{PerUpdate: &Unit{of(30), 60, of(300)}, PerAccepted: &Unit{of(60), 120, of(600)}}
	if diff := cmp.Diff(want, costOf(u, true, Made{PolicyUpdates: 2, AcceptedSamples: 1})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Cost{PerTrained: &Unit{nil, 240, nil}}, costOf(Use{CoreSeconds: 120}, false, Made{TrainedResponses: 0.5})); diff != "" {
		t.Errorf("without GPUs (-want +got):\n%s", diff)
	}
}

// TestFaults: what could not be read is counted by host and device, the most frequent first;
// what a device does not have is no fault, and no GPU is none where none was asked for.
func TestFaults(t *testing.T) {
	t.Parallel()
	at := func(stage, host string, gpus int, texts ...string) Attempt {
		a := Attempt{Stage: stage, Host: host, GPUs: make([]GPU, gpus), parts: &parts{faults: map[fault]bool{}}}
		for _, text := range texts {
			a.parts.faults[fault{"d", text}] = true
		}
		return a
	}
	const nvml, find, other = "opening NVML: no library", "finding GPUs: none", "power: no permission"
	got := faultsOf([]Attempt{
		at("score", "n1", 0, nvml, find, "power: not supported by this device"), at("score", "n2", 1, nvml, find), at("learn", "n1", 0, nvml, find), at("learn", "n3", 1, other), at("learn", "n3", 1, other), at("score", "n1", 0, other),
	}, func(a Attempt) bool { return a.Stage == "learn" })
	want := []Fault{{other, "n3", "d", 2}, {find, "n1", "d", 1}, {nvml, "n1", "d", 1}, {other, "n1", "d", 1}, {nvml, "n2", "d", 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Monitors that took 0.5 s of 2 s and 0.1 of 1, and one of which a single sample says nothing.
	a := seen{monitor.MonitorCPUSeconds: {1, 1.25, 1.5}, monitor.MonitorMemoryBytes: {5, 7, 6}}.attempt("a")
	b := seen{monitor.MonitorCPUSeconds: {1, 1.1}}.attempt("b")
	c := seen{monitor.MonitorCPUSeconds: {9}}.attempt("c")
	a.parts.bytes, b.parts.bytes, c.Seconds = 10, 20, 100
	own := ownCost([]Attempt{a, b, c})
	if !near(*own.CPUShare, 0.6/3) || own.MaxBytes != 7 || own.DiskBytes != 30 || own.Samples != 6+2+1 {
		t.Errorf("%+v", own)
	}
}

// TestJobs: monitors on several nodes saw one attempt; on one node they saw two.
func TestJobs(t *testing.T) {
	t.Parallel()
	a := func(task, job string, number int, host string) Attempt {
		return Attempt{Task: task, Job: job, Number: number, Host: host}
	}
	jobs := jobsOf([]Attempt{a("x", "1", 0, "n1"), a("y", "1", 0, "n1"), a("x", "1", 0, "n2"), a("x", "1", 0, "n1"), a("x", "2", 0, "n2"), a("x", "1", 1, "n2"), a("x", "1", 0, "n2")})
	var got string
	for _, job := range jobs {
		for _, a := range job {
			got += fmt.Sprint(a.Task, a.Job, a.Number, a.Host, " ")
		}
		got += "| "
	}
	if want := "x10n1 x10n2 | y10n1 | x10n1 x10n2 | x20n2 | x11n2 | "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// Of a MIG instance there is no index; the place among the task's devices is one.
	s := summaryOf([]Attempt{{Host: "n1", Seconds: 10.5, Cores: 1.5, CPUSeconds: 2.26, MemoryGivenBytes: 9, MemoryMaxBytes: 8, GPUs: []GPU{{Index: 3, MemoryTotalBytes: 7, Use: Use{GPUShare: of(0.12345), MemoryMaxBytes: 6}}, {Index: -1}}}, {Host: "n2", Seconds: 4}})
	want := jobSummary{GPUs: 2, TotalTime: 11, Nodes: map[string]nodeSummary{
		"n1": {CPUs: 2, TotalMemory: 9, UsedMemory: 8, TotalTime: 2.3, GPUTotalMemory: map[string]int64{"3": 7, "1": 0}, GPUUsedMemory: map[string]int64{"3": 6, "1": 0}, GPUUtilization: map[string]float64{"3": 12.3}},
		"n2": {},
	}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
