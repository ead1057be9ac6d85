package learn_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// plannedTask tells a child of TestPlannedMemory what it runs.
const plannedTask = "LATHE_TEST_PLANNED_TASK"

// What TestPlannedMemory trains: 4.5 million weights in files of at most 6 MB, with two
// units of two sequences of 256 tokens in each of two gradient shards.
var plannedPolicy = policy.Config{
	Architecture: policy.Qwen2, VocabSize: 2048, HiddenSize: 256, IntermediateSize: 1024, NumHiddenLayers: 4, NumAttentionHeads: 4, NumKeyValueHeads: 2,
	HeadDim: 64, MaxPositionEmbeddings: 256, RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: -1, EOSTokenIDs: []int32{0}, QKVBias: true,
}

const plannedUnits, plannedShards, plannedSequences, plannedFileBytes = 4, 2, 8, 6_000_000

// plannedSlack is what the runtime takes of memory for its heap at a time, twice: the
// process has begun with some, and ends with some.
const plannedSlack = 8 << 20

// TestPlannedMemory: a task that trains on the CPU holds what was planned, within a tenth
// and plannedSlack: one that computes gradients, one that computes them and steps with the
// state of a step before, one that adds up gradients; and one that applies them to files
// holds pieces, and no more than was planned.
//
// Alone: it measures memory.
func TestPlannedMemory(t *testing.T) {
	if encoded := os.Getenv(plannedTask); encoded != "" {
		runPlanned(t, encoded)
		return
	}
	r := plannedRig(t)
	s := learn.SettingsOf(r.Recipe)
	first := plannedInputs(r)
	after := inParts(r, first, plannedShards, 2)
	stepped := first
	stepped.Policy, stepped.Start, stepped.Optimizer = after.PolicyOutput, after.PolicyOutput, after.OptimizerOutput
	one := backend.CPUCase{Train: true, Threads: 1, Tokens: plannedSequences / plannedUnits * plannedPolicy.MaxPositionEmbeddings}
	gradient, whole := one, one
	s.GradientShards = plannedShards
	gradient.Workload = learn.GradientWorkload(s, plannedPolicy.MaxPositionEmbeddings)
	alone := s
	alone.GradientShards = 1
	whole.Workload = learn.Workload(alone, plannedPolicy.MaxPositionEmbeddings)
	parts, err := learn.PartsOf(s, first.Policy)
	r.Check(err)
	sum, apply := parts.Held(plannedUnits, plannedShards, 2)
	for _, task := range []struct {
		name    string
		in      learn.Inputs
		planned int64
		least   float64 // of what was planned
	}{
		{"gradient", stepped, learn.PlanCPU(s, plannedPolicy, gradient).TotalBytes, 0.9},
		{"learn", stepped, learn.PlanCPU(alone, plannedPolicy, whole).TotalBytes, 0.9},
		{"sum", withGradients(stepped, after, "grad0", plannedShards), sum, 0.9},
		{"apply", withGradients(stepped, after, "sum0", 2), apply, 0},
	} {
		encoded, err := json.Marshal(plannedRun{task.name, task.in.Batch, task.in.Policy, task.in.Optimizer, task.in.Gradients, r.Path("again-" + task.name)})
		r.Check(err)
		peak := r.PeakHeap("TestPlannedMemory", plannedTask, string(encoded))
		t.Logf("%s: %.1f MB at most, %.1f planned", task.name, float64(peak)/1e6, float64(task.planned)/1e6)
		if most := 1.1*float64(task.planned) + plannedSlack; float64(peak) < task.least*float64(task.planned) || float64(peak) > most {
			t.Errorf("a task of %s holds %d bytes at most, planned were %d", task.name, peak, task.planned)
		}
	}
}

// The plan of a gradient task of the run in analysis/results/parts, of 494 million weights:
// 8.80 GB were measured. By hand: weights, gradients and two sums of them are 4·1.976 GB,
// and while sums are written two copies of the largest tensor, the embedding, 2·0.545.
func TestPlanOfMeasured(t *testing.T) {
	t.Parallel()
	config, err := checkpoint.LoadConfig("../../../analysis/results/parts")
	if err != nil {
		t.Fatal(err)
	}
	s := learn.Settings{GradientUnits: 8, GradientShards: 2}
	p := learn.PlanCPU(s, config, backend.CPUCase{Train: true, Threads: 1, Tokens: 2 * 32, Workload: learn.GradientWorkload(s, 32)})
	if held := float64(p.WeightBytes+p.GradientBytes+p.SumBytes) / 1e9; math.Abs(held-7.90) > 0.01 {
		t.Errorf("weights, gradients and sums are %.2f GB, want 7.90", held)
	}
	if copies := float64(p.CopyBytes) / 1e9; math.Abs(copies-1.09) > 0.01 {
		t.Errorf("copies are %.2f GB, want 1.09", copies)
	}
	if total := float64(p.TotalBytes) / 1e9; math.Abs(total/8.80-1) > 0.1 {
		t.Errorf("%.2f GB are planned, 8.80 were measured", total)
	}
}

// plannedRun is what a child of TestPlannedMemory runs.
type plannedRun struct {
	Task, Batch, Policy, Optimizer string
	Gradients                      []string
	Output                         string
}

// withGradients has what the steps of another update computed.
func withGradients(in, of learn.Inputs, name string, count int) learn.Inputs {
	in.Gradients = nil
	for n := range count {
		in.Gradients = append(in.Gradients, fmt.Sprintf("%s-%s-%d", of.PolicyOutput, name, n))
	}
	return in
}

func plannedRig(t *testing.T) *stagetest.Rig {
	t.Helper()
	return stagetest.New(t, "loss.kl.coef=0", fmt.Sprintf("schedule.gradient_units=%d", plannedUnits), "loss.epochs=1", "loss.mini_batches=1")
}

// plannedInputs makes a policy and a batch.
func plannedInputs(r *stagetest.Rig) learn.Inputs {
	r.Helper()
	seal1 := func(name string, fill func(folder string) error) string {
		w, err := seal.CreateFolder(r.Path(name), r.Job.Attempt)
		r.Check(err)
		r.Check(fill(w.Path()))
		_, err = w.Commit(seal.Manifest{})
		r.Check(err)
		return r.Path(name)
	}
	whole := seal1("whole", func(folder string) error {
		return checkpoint.Save(folder, plannedPolicy, policytest.Weights(r, plannedPolicy, 0.02))
	})
	divided := seal1("divided", func(folder string) error { return checkpoint.Convert(whole, folder, "", plannedFileBytes) })
	batch := r.Path("batch.arrow")
	longBatch(r, batch, plannedSequences, plannedPolicy.MaxPositionEmbeddings, plannedUnits)
	return to(learn.Inputs{Iteration: 1, Batch: batch, Policy: divided, Start: divided, LastStep: 1, StepsTotal: 1, PolicyVersion: 1}, r.Path("first"))
}

// runPlanned is the child.
func runPlanned(t *testing.T, encoded string) {
	var p plannedRun
	r := plannedRig(t)
	r.Check(json.Unmarshal([]byte(encoded), &p))
	s := learn.SettingsOf(r.Recipe)
	s.GradientShards = plannedShards
	in := learn.Inputs{
		Iteration: 1, Batch: p.Batch, Policy: p.Policy, Start: p.Policy, Optimizer: p.Optimizer, Gradients: p.Gradients, LastStep: 1, StepsTotal: 1, PolicyVersion: 1,
		PolicyOutput: p.Output, OptimizerOutput: p.Output + ".optim",
	}
	r.ReportPeakHeap(func() {
		var err error
		switch p.Task {
		case "gradient":
			_, err = learn.RunGradient(t.Context(), r.Job, s, in, 0, 0, plannedShards, p.Output)
		case "learn":
			s.GradientShards = 1
			_, err = learn.Run(t.Context(), r.Job, s, in)
		case "sum":
			_, err = learn.RunSum(t.Context(), r.Job, s, in, 0, 2, p.Output)
		case "apply":
			_, err = learn.RunApply(t.Context(), r.Job, s, in, 0, 2, p.Output)
		}
		r.Check(err)
	})
}
