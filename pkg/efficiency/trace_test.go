//go:build cgo

package efficiency

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/nvidia"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/webpage/webpagetest"
)

// every is the time between the samples of the trace.
const every = 5 * time.Second

// traced is one attempt of the trace.
type traced struct {
	task     string
	number   int
	job      string
	gpu      int // index on the host
	from     time.Duration
	seconds  int
	kept     bool
	exitCode int // of its record; 0 for none
	metrics  map[string]float64
}

// trace is a run of one iteration on a node of eight GPUs. The shares are those of
// the example of a job in which each GPU is busy nearly all the time and its tensor
// units one percent of it. One GPU stays idle; one attempt is requeued, one fails,
// one is killed.
var trace = []traced{
	{"rollout-000001-00000", 0, "70_0", 0, 0, 600, true, 0, map[string]float64{"responses": 4, "prompt_tokens": 4000, "response_tokens": 4000}},
	{"rollout-000001-00001", 0, "70_1", 1, 0, 600, true, 0, map[string]float64{"responses": 4, "prompt_tokens": 4000, "response_tokens": 4000}},
	{"rollout-000001-00002", 0, "70_2", 2, 0, 605, true, 0, nil},
	{"rollout-000001-00003", 0, "70_3", 3, 0, 100, false, 0, nil}, // the same job goes on:
	{"rollout-000001-00003", 1, "70_3", 3, 130 * time.Second, 600, true, 0, nil},
	{"rollout-000001-00004", 0, "70_4", 4, 0, 600, true, 0, nil},
	{"rollout-000001-00005", 0, "70_5", 5, 0, 50, false, exitcode.IO, nil},
	{"rollout-000001-00005", 1, "71_5", 5, 60 * time.Second, 600, true, 0, nil},
	{"rollout-000001-00006", 0, "70_6", 6, 0, 200, false, 0, nil}, // without a word
	{"rollout-000001-00006", 1, "71_6", 6, 210 * time.Second, 900, true, 0, nil},
	{"rollout-000001-00007", 0, "70_7", 7, 0, 600, true, 0, nil},
	{"learn-000001-00000", 0, "72_0", 0, 1200 * time.Second, 400, true, 0, map[string]float64{"tokens": 8000, "sequences": 8}},
}

// script has each GPU say other numbers.
func script() string {
	var b strings.Builder
	fmt.Fprintln(&b, "* driver 570.86.15")
	for i := range 8 {
		busy := fmt.Sprintf("%d %d %d %d", 92+i%3, 95, 96+i%2, 98)
		tensor, power, energy := "1.0 1.2 1.5 1.1", 398000+1000*i, 5*(398000+1000*i) // milliwatts; millijoules in five seconds
		if i == 7 {
			busy, tensor, power, energy = "0", "0", 71000, 5*71000
		}
		for _, line := range []string{
			fmt.Sprintf("uuid GPU-%08d-aaaa-bbbb-cccc-000000000000", i), "name NVIDIA H100 80GB HBM3", "utilization " + busy, "memory_busy 40",
			"memory 21474836480 42949672960*1000", "memory_total 85899345920", "memory_reserved 1048576",
			fmt.Sprintf("power %d", power), fmt.Sprintf("energy +%d", energy), "power_limit 700000", fmt.Sprintf("temperature %d", 55+i),
			"clock 1755", "clock_max 1980", "memory_clock 2619", "throttle 0 0 4 1", "replays 0", "ecc_corrected 0", "ecc_uncorrected 0", "remapped 0", "processes 1",
			"sm_active 71.5", "sm_occupancy 23", "tensor " + tensor, "dram 44", "gpm_pcie_tx 1", "gpm_pcie_rx 1", "nvlink_tx 0", "nvlink_rx 0",
		} {
			fmt.Fprintf(&b, "%d %s\n", i, line)
		}
	}
	return b.String()
}

// host says what of a task's cores and memory the trace has.
func host(second int) []monitor.Reading {
	return []monitor.Reading{
		{Name: monitor.Cores, Value: 4},
		{Name: monitor.CPUSeconds, Value: 2 * float64(second)},
		{Name: monitor.MemoryBytes, Value: 6 << 30},
		{Name: monitor.MemoryLimitBytes, Value: 32 << 30},
		{Name: monitor.MonitorMemoryBytes, Value: 20 << 20},
		{Name: monitor.MonitorCPUSeconds, Value: 0.002 * float64(second)},
	}
}

// phaseAt is what a task of a stage does after a share of its time.
func phaseAt(stage string, share float64) phase.Phase {
	switch {
	case share < 0.1:
		return phase.Load
	case stage == "learn" && share < 0.4:
		return phase.Forward
	case stage == "learn" && share < 0.9:
		return phase.Backward
	case stage == "learn" && share < 0.95:
		return phase.Optimizer
	case share < 0.2:
		return phase.Prefill
	case share < 0.95:
		return phase.Decode
	}
	return phase.Seal
}

// as is who makes an attempt on a node.
func (a traced) as(node string) seal.Attempt {
	job, task, _ := strings.Cut(a.job, "_")
	start := began.Add(a.from)
	return seal.Attempt{JobID: job, TaskID: task, Number: a.number, Host: node, PID: 1, Clock: func() time.Time { return start }}
}

// record plays one attempt of the trace through the library, with that many GPUs of a
// node, and seals its samples.
func record(t *testing.T, library, run string, a traced, node string, gpus int) {
	t.Helper()
	var devices monitor.Devices
	for i := range gpus {
		devices.Tokens = append(devices.Tokens, monitor.Token{Index: a.gpu + i, GPUInstance: -1, ComputeInstance: -1})
	}
	devices.Given = fmt.Sprintf("CUDA_VISIBLE_DEVICES=%d", a.gpu)
	sampler := nvidia.New(library, devices)
	defer sampler.Close()
	start, attempt := began.Add(a.from), a.as(node)
	r := monitor.NewRecorder(run, "trace-1", a.task, attempt, start)
	stage, _, _ := strings.Cut(a.task, "-")
	for second := 0; second <= a.seconds; second += int(every / time.Second) {
		now := start.Add(time.Duration(second) * time.Second)
		during := phaseAt(stage, float64(second)/float64(a.seconds))
		readings := host(second)
		if second > 0 {
			readings = append(readings, monitor.Reading{Name: monitor.PhaseSeconds, Value: every.Seconds(), Detail: during.String()})
		}
		sampler.Read(now, func(r monitor.Reading) { readings = append(readings, r) })
		r.Add(now, int(during), readings)
		if r.Due(now) {
			if err := r.Seal(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
}

// seals puts what an attempt has made, or the record of its failure, where a run
// has it.
func seals(t *testing.T, r *rundir.Run, a traced) {
	t.Helper()
	task, known := parseTask(a.task)
	if !known {
		t.Fatalf("%q is no task", a.task)
	}
	if a.exitCode != 0 {
		content, err := json.Marshal(rundir.ExitRecord{Task: a.task, Attempt: a.number, Code: a.exitCode})
		if err != nil {
			t.Fatal(err)
		}
		path := r.Dir.ExitRecord(task, a.number, 0)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !a.kept {
		return
	}
	attempt := a.as("n1")
	m := seal.Manifest{Run: "trace-1", Seed: r.Recipe.Seed, Stage: string(task.Stage), Iteration: task.Iteration, Shard: task.Shard, Of: r.Graph.Shards(task.Node), Metrics: a.metrics}
	var err error
	if task.Stage == graph.StageLearn {
		w, errCreate := seal.CreateFolder(r.Dir.Policy(1), attempt)
		if errCreate != nil {
			t.Fatal(errCreate)
		}
		if err = os.WriteFile(filepath.Join(w.Path(), "config.json"), nil, 0o644); err == nil {
			_, err = w.Commit(m)
		}
	} else {
		_, err = shard.Write[shard.Rollout](r.Dir.Sampled(task.Node, task.Shard), nil, nil, attempt, m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// config is a policy of a size that is easily worked out: 2 blocks.
const config = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "vocab_size": 1000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000,
"tie_word_embeddings": true, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}`

// play makes the run of the trace.
func play(t *testing.T) *rundir.Run {
	return makeRun(t, func(library string, r *rundir.Run) {
		for _, a := range trace {
			record(t, library, string(r.Dir), a, "n1", 1)
			seals(t, r, a)
		}
	})
}

// makeRun makes a run of one iteration on nodes of eight GPUs.
func makeRun(t *testing.T, fill func(library string, r *rundir.Run)) *rundir.Run {
	t.Helper()
	library := nvmltest.Build(t, false)
	t.Setenv(nvmltest.Script, nvmltest.WriteScript(t, script()))
	dir := graph.Dir(filepath.Join(t.TempDir(), "trace"))
	r := &rundir.Run{Dir: dir, Identity: rundir.Identity{RunID: "trace-1", Name: "trace"}, Recipe: recipe.Defaults()}
	r.Recipe.Schedule.Iterations, r.Recipe.Rollout.Shards, r.Recipe.Rollout.Prompts, r.Recipe.Rollout.Group = 1, 8, 8, 4
	r.Recipe.Resources.Stages.Rollout.GPUs, r.Recipe.Resources.Stages.Learn.GPUs = 1, 1
	r.Graph = graph.Graph{Dir: dir, Recipe: r.Recipe, RunID: "trace-1"}
	fill(library, r)
	if err := os.MkdirAll(dir.Policy(0), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir.Policy(0), "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.WriteBytes(dir.Batch(1), nil, seal.Attempt{}, seal.Manifest{Run: "trace-1", Seed: r.Recipe.Seed, Stage: "buffer", Iteration: 1, Of: 1, Metrics: map[string]float64{"trained": 24, "outcome_ok": 10}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// golden compares with a file of testdata.
// The trace of eight GPUs, from the driver's library to what people read.
// Alone: the script is named by the environment.
func TestTrace(t *testing.T) {
	r := play(t)
	report, err := Read(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	report.Folder, report.Own.DiskBytes = "trace", 0 // a compressor may change them
	var text, summary bytes.Buffer
	if err := report.Text(&text); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/trace.txt", text.Bytes())
	numbers, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/trace.json", append(numbers, '\n'))
	if err := report.Jobstats(&summary, ""); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/trace.jobstats.jsonl", summary.Bytes())
	page, err := report.page()
	if err != nil {
		t.Fatal(err)
	}
	drawing := regexp.MustCompile(`(?s)<svg.*?</svg>`)
	if n := len(drawing.FindAll(page, -1)); n != 1+8 {
		t.Errorf("the page has %d drawings: of the bars and 8 GPUs", n)
	}
	golden.Check(t, "testdata/trace.html", drawing.ReplaceAll(page, []byte("<svg/>")))
	checkTotals(t, report)
	if joules, err := JoulesByIteration(context.Background(), r); err != nil || len(joules) != 1 || math.Abs(joules[1]-*report.Total.EnergyJoules) > 1e-6 {
		t.Errorf("joules by iteration are %v, %v; in all %v", joules, err, *report.Total.EnergyJoules)
	}
	checkJobstats(t, report, summary.Bytes())
	if path, err := report.Write(r.Dir.Report(), seal.Attempt{}); err != nil || filepath.Base(path) != "gpu.html" {
		t.Errorf("%q, %v", path, err)
	}
}

// Nothing of the page is cut off on screens and paper.
// Alone: the script is named by the environment.
func TestPageInBrowser(t *testing.T) {
	r := play(t)
	report, err := Read(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("longer than any column ", 3) + strings.Repeat("unbroken", 20)
	report.Name, report.Faults = long, []Fault{{Text: long, Host: long, Device: long, Attempts: 123456}}
	page, err := report.Write(r.Dir.Report(), seal.Attempt{})
	if err != nil {
		t.Fatal(err)
	}
	webpagetest.Check(t, page)
}

// TestFLOPs by hand: 145,920 products of matrices a token, as below. Of 4 responses to prompts
// of 1000 tokens that a group of 4 shares, 1000 tokens cost (6 · 145,920 + 6 · 2 · 64 · 1000) / 3
// each, and 4000 that are sampled behind 1500 on average 2 · 145,920 + 4 · 2 · 64 · 1500 each.
func TestFLOPs(t *testing.T) {
	t.Parallel()
	const prompt, decode, learn, first = 547_840, 1_059_840, 1_643_520, 875_520
	r := bare(t)
	r.Recipe.Rollout.Group = 4
	stages := []StageUse{{Stage: "learn"}}
	if addFLOPs(t.Context(), r, nil, stages); stages[0].FLOPs != nil {
		t.Error("a policy that is not made has computed")
	}
	sampled := map[string]float64{"responses": 4, "prompt_tokens": 4000, "response_tokens": 4000}
	for i, c := range []struct {
		task    string
		metrics map[string]float64
		name    string // of the GPU
		lost    bool
		flops   float64
		known   bool // what the GPU could have done
	}{
		{"rollout-000001-00000", sampled, "H100", false, 1000*prompt + 4000*decode, true},
		{"rollout-000001-00000", nil, "H100", false, 0, false},
		{"rollout-000001-00000", sampled, "H100", true, 0, false},
		{"rollout-000001-00000", sampled, "GTX 9", false, 1000*prompt + 4000*decode, false},
		{"learn-000001-00000", map[string]float64{"tokens": 8000, "sequences": 8}, "A100", false, 8000 * learn, true},
		{"learn-000001-00000", map[string]float64{"tokens": 8000}, "A100", false, 8000 * first, true},
	} {
		r := *r
		r.Dir = graph.Dir(filepath.Join(t.TempDir(), fmt.Sprint(i)))
		r.Graph.Dir = r.Dir
		if err := os.MkdirAll(r.Dir.Policy(0), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.Dir.Policy(0), "config.json"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		seals(t, &r, traced{task: c.task, job: "70_0", kept: true, metrics: c.metrics})
		stage, _, _ := strings.Cut(c.task, "-")
		a := Attempt{Task: c.task, Stage: stage, Disposition: dispositionKept, GPUs: []GPU{{Name: c.name, HeldSeconds: 10}}}
		if c.lost {
			a.Disposition = dispositionKilled
		}
		stages := []StageUse{{Stage: "other"}, {Stage: stage}}
		addFLOPs(t.Context(), &r, []Attempt{a}, stages)
		s := stages[1]
		if (s.FLOPs == nil) != (c.flops == 0) || s.FLOPs != nil && math.Abs(*s.FLOPs-c.flops) > 1 || (s.MFU != nil) != c.known || stages[0].FLOPs != nil {
			t.Errorf("%d: %+v, want %v", i, s, c.flops)
		}
		if peak := map[string]float64{"H100": 989.4e12, "A100": 312e12}[c.name]; c.known && math.Abs(*s.MFU-c.flops/(10*peak)) > 1e-15 {
			t.Errorf("%d: MFU %v", i, *s.MFU)
		}
	}
}

// checkTotals compares with what the trace says, added up by hand: every second
// that a GPU was held is in the report, within the time of a sample, and those of
// the attempts that made nothing are lost to their cause.
func checkTotals(t *testing.T, report *Report) {
	t.Helper()
	var held, joules float64
	lost := map[string]float64{}
	// The slowest of the rollouts took 900 s, half of them 600: 300 of its GPU.
	lost[causeStraggler] = 300
	for _, a := range trace {
		held += float64(a.seconds)
		watts := 398.0 + float64(a.gpu)
		if a.gpu == 7 {
			watts = 71
		}
		joules += watts * float64(a.seconds)
		switch {
		case a.kept:
		case a.exitCode != 0:
			lost[dispositionFailed] += float64(a.seconds)
		case a.job == "70_3":
			lost[dispositionRequeued] += float64(a.seconds) // why, no file says
		default:
			lost[dispositionKilled] += float64(a.seconds)
		}
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*want+1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("GPU seconds", report.Total.GPUSeconds, held)
	near("core seconds", report.Total.CoreSeconds, 4*held)
	near("CPU seconds", report.Total.CPUSeconds, 2*held)
	near("joules", *report.Total.EnergyJoules, joules)
	near("GPU seconds of an update", *report.Cost.PerUpdate.GPUSeconds, held)
	near("joules of a trained response", *report.Cost.PerTrained.EnergyJoules, joules/24)
	near("joules of an accepted sample", *report.Cost.PerAccepted.EnergyJoules, joules/10)
	if len(report.Lost) != len(lost) {
		t.Errorf("lost: %+v", report.Lost)
	}
	for _, l := range report.Lost {
		near("lost: "+l.Cause, l.Seconds, lost[l.Cause])
		near("share lost: "+l.Cause, l.Share, lost[l.Cause]/held)
		if l.Unit != "GPU-seconds" {
			t.Errorf("lost to %s: in %s", l.Cause, l.Unit)
		}
	}
	near("share lost to retries", report.LostTo.Retries, (100+50+200)/held)
	near("share lost to stragglers", report.LostTo.Stragglers, 300/held)
	near("share lost to preemption", report.LostTo.Preemption, 0)
	// The learner: 8000 tokens in sequences of 1000. Matrices: 2·(4·64·64 + 3·64·128)
	// + 1000·64 = 145,920; 6·(145,920 + 2·64·1000) = 1,643,520 a token.
	for _, s := range report.Stages {
		if s.Stage == "learn" {
			near("FLOPs of the learner", *s.FLOPs, 8000*1643520)
			near("MFU of the learner", *s.MFU, 8000*1643520/(400*989.4e12))
		}
	}
}

// jobstatsJob is a job as jobstats' own tools read it: by the names and units of its
// documentation, and nothing else in it.
type jobstatsJob struct {
	GPUs      int                     `json:"gpus"`
	TotalTime int64                   `json:"total_time"`
	Nodes     map[string]jobstatsNode `json:"nodes"`
}

type jobstatsNode struct {
	CPUs           int                `json:"cpus"`
	TotalMemory    int64              `json:"total_memory"`
	UsedMemory     int64              `json:"used_memory"`
	TotalTime      float64            `json:"total_time"`
	GPUTotalMemory map[string]int64   `json:"gpu_total_memory"`
	GPUUsedMemory  map[string]int64   `json:"gpu_used_memory"`
	GPUUtilization map[string]float64 `json:"gpu_utilization"`
}

// readJobstats reads lines of jobs.
func readJobstats(t *testing.T, lines []byte) []jobstatsJob {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(lines))
	decoder.DisallowUnknownFields()
	var jobs []jobstatsJob
	for decoder.More() {
		var job jobstatsJob
		if err := decoder.Decode(&job); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// checkJobstats compares the lines with what the trace says.
func checkJobstats(t *testing.T, report *Report, lines []byte) {
	t.Helper()
	jobs := readJobstats(t, lines)
	if len(jobs) != len(report.Each) {
		t.Fatalf("%d jobs of %d attempts", len(jobs), len(report.Each))
	}
	for i, job := range jobs {
		a, n := report.Each[i], job.Nodes["n1"]
		// Its two formulas: CPU time by cores and run time, memory by memory.
		efficiency := 100 * n.TotalTime / (float64(job.TotalTime) * float64(n.CPUs))
		if job.GPUs != 1 || len(job.Nodes) != 1 || n.CPUs != 4 || math.Abs(efficiency-50) > 0.1 || n.UsedMemory != 6<<30 || n.TotalMemory != 32<<30 {
			t.Errorf("attempt %d: %+v", i, job)
		}
		index := fmt.Sprint(a.GPUs[0].Index)
		if n.GPUUsedMemory[index] != 40<<30 || n.GPUTotalMemory[index] != 80<<30 {
			t.Errorf("attempt %d: the memory of GPU %s is %+v", i, index, n)
		}
		if u := n.GPUUtilization[index]; (u == 0) != (index == "7") || index != "7" && (u < 92 || u > 98) {
			t.Errorf("attempt %d: GPU %s was used %v %%", i, index, u)
		}
	}
}
