package command

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/simulate"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// A task that holds more than it requests is refused, with the ways out.
func TestHeldIsRequested(t *testing.T) {
	t.Parallel()
	r := recipe.Defaults()
	r.Policy.Path, r.Resources.Stages.Learn.MemoryGB, r.Resources.Stages.Gradient.MemoryGB = "models/8B", 16, 30
	held := map[graph.Stage]int64{graph.StageSum: 8 << 30, graph.StageApply: 24 << 30, graph.StageGradient: 30 << 30}
	err := checkHeld(graph.Graph{Recipe: r}, held)
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "resources.stages.learn.memory_gb: got 16, and a task of apply holds 24.0 GiB") || strings.Contains(err.Error(), "gradient") {
		t.Errorf("%v", err)
	}
	if hints := exitcode.Hints(err); len(hints) != 1 || !strings.Contains(hints[0], "lathe policy convert --model models/8B") {
		t.Errorf("%q", hints)
	}
	r.Resources.Stages.Learn.MemoryGB = 24
	if err := checkHeld(graph.Graph{Recipe: r}, held); err != nil {
		t.Error(err)
	}
}

// By hand, of weights of 10 bytes, an optimizer's state of 60 and sums of 20: two rollout
// tasks read the weights, four gradient tasks too and write a sum each; two that add up read
// four sums and write one; two that apply read weights, that sum and the state, and write
// weights and state, which one task reads again.
func TestTrafficOf(t *testing.T) {
	t.Parallel()
	r := recipe.Defaults()
	r.Rollout.Prompts, r.Rollout.Shards = 8, 2
	r.Schedule.Iterations, r.Schedule.GradientUnits, r.Schedule.GradientShards, r.Schedule.ApplyShards = 5, 4, 4, 2
	r.Loss.KL.Coef = 0
	got := trafficOf(graph.Graph{Dir: "/planned", Recipe: r}, simulate.Sizes{Policy: 10, Trained: 10, Optimizer: 60, Gradient: 20}, map[graph.Stage]int64{graph.StageApply: 7})
	want := []stageTraffic{
		{graph.StageRollout, 2, 20, 0, 0},
		{graph.StageGradient, 4, 40, 80, 0},
		{graph.StageSum, 2, 80, 20, 0},
		{graph.StageApply, 2, 10 + 20 + 60, 70, 7},
		{graph.StageLearn, 1, 70, 0, 0},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.Schedule.Iterations = 0
	if got := trafficOf(graph.Graph{Dir: "/planned", Recipe: r}, simulate.Sizes{Policy: 10}, nil); got != nil {
		t.Errorf("without iterations: %v", got)
	}
}

// largePolicies heads the page that TestLargePolicies keeps.
const largePolicies = `# Large policies on 80 GB and 40 GB: planned

    go test ./pkg/command -run TestLargePolicies -update     # writes this page

Plans, not measurements: what a gradient task is given of a GPU's memory (78 GiB of 80 GB are free, 38 of 40), what tasks without a GPU hold
of the host's, and what an iteration moves through the file system, with its seconds at 2, 10 and 50 GB/s of all tasks together. Eight
gradient tasks with 16 units, eight rollout tasks, one optimizer step, no KL term. *Full* trains every weight, with float32 gradients and
optimizer state, in parts: 4 apply tasks, one for each file. *Adapter* has rank 64 on every projection; its optimizer's state stays on the
GPU of one task. Sums of gradients that do not fit the GPU lie in the host's memory, and so do the inputs of blocks where nothing else fits. A plan that is refused needs at least what it says, with all
activations recomputed that can be.

| policy | trained | weights | GPU | tokens | weights, GiB | gradients | sums | activations | head, other | total | sums and inputs in host memory | sum task, host | apply task, host | files, GB | at 2 GB/s, s | 10 | 50 |
|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
`

var leastNeeded = regexp.MustCompile(`at least ([0-9.]+ GiB)`)

// TestLargePolicies plans 8 billion weights in full and an adapter of 32 billion, as
// analysis/results/dryrun/large.md.
func TestLargePolicies(t *testing.T) {
	t.Parallel()
	page := largePolicies
	for _, c := range []struct {
		policy, dtype string
		adapter       bool
		free          float64 // GiB
		tokens        int
	}{
		{"Llama-3.1-8B-Instruct", "bfloat16", false, 78, 20480},
		{"Llama-3.1-8B-Instruct", "float32", false, 78, 8192},
		{"Llama-3.1-8B-Instruct", "float32", false, 78, 20480},
		{"Llama-3.1-8B-Instruct", "bfloat16", false, 38, 8192},
		{"Llama-3.1-8B-Instruct", "float32", false, 38, 8192},
		{"QwQ-32B", "bfloat16", true, 78, 14000},
		{"QwQ-32B", "bfloat16", true, 78, 20000},
		{"QwQ-32B", "bfloat16", true, 139, 20000},
	} {
		shape := publishedShapes[c.policy]
		stored := map[safetensors.DType]int{safetensors.BF16: policy.ParameterCount(shape)}
		r := recipe.Defaults()
		r.Policy.Backend, r.Policy.Path, r.Policy.DType = "cuda", c.policy, c.dtype
		r.Rollout.MaxContextTokens, r.Rollout.Shards, r.Loss.KL.Coef = c.tokens, 8, 0
		r.Schedule.GradientUnits, r.Schedule.GradientShards = 16, 8
		trained := "full"
		if c.adapter {
			trained, r.Policy.LoRA = "adapter", &recipe.LoRA{Rank: 64, Alpha: 64, Targets: policy.LoRATargets()}
		} else {
			r.Schedule.ApplyShards = 4
		}
		plans, err := plansFor(r, shape, stored, 0, int64(c.free*(1<<30)))
		if err != nil {
			t.Fatal(err)
		}
		page += fmt.Sprintf("| %s | %s | %s | %g GiB | %d |", c.policy, trained, c.dtype, c.free, c.tokens)
		gib := func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<30)) }
		if p := plans[0].Plan; p == nil {
			page += fmt.Sprintf(" refused | | | | | %s at least | |", leastNeeded.FindStringSubmatch(plans[0].Refused)[1])
		} else {
			page += fmt.Sprintf(" %s | %s | %s | %s | %s | %s | %s |", gib(p.WeightBytes), gib(p.GradientBytes), gib(p.SumBytes), gib(p.ActivationBytes), gib(p.HeadBytes+p.OtherBytes), gib(p.TotalBytes), gib(p.SpilledBytes))
		}
		g := graph.Graph{Dir: "/planned", Recipe: r}
		held := map[graph.Stage]int64{}
		if !c.adapter {
			quarter := int64(policy.ParameterCount(shape)) / 4
			parts := learn.Parts{Files: []int64{quarter, quarter, quarter, quarter}, Largest: int64(shape.VocabSize * shape.HiddenSize), Models: 1}
			held[graph.StageSum], held[graph.StageApply] = parts.Held(16, 8, 4)
		}
		var total stageTraffic
		for _, s := range trafficOf(g, storageOf(r, shape, stored).sizes(r), held) {
			total.Read, total.Written = total.Read+s.Read, total.Written+s.Written
		}
		page += fmt.Sprintf(" %s | %s | %.0f | %s | %s | %s |\n", size(held[graph.StageSum]), size(held[graph.StageApply]), float64(total.Read+total.Written)/1e9,
			digits(total.seconds(2)), digits(total.seconds(10)), digits(total.seconds(50)))
	}
	golden.Check(t, sourcetree.Path("analysis", "results", "dryrun", "large.md"), page)
}

// What rollout tasks read in all waves stands in the plan, with the reason: by hand, of a policy
// of 3 GB.
func TestWavesAreExplained(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"smoke":       "",
		"mle-smoke":   "",
		"mlerl/mlerl": "rollout: each of 16 tasks opens the policy, 3.0 GB, in each of 15 waves, 720.0 GB of the above: no task keeps its GPU while programs are scored.",
	} {
		resolved := must.Get(recipe.Load(sourcetree.Path("jobs", file+".yaml"), nil))(t)
		g := graph.Graph{Recipe: resolved.Recipe}
		var out strings.Builder
		if err := printWaves(&out, g, 3e9); err != nil || !strings.HasPrefix(out.String(), want) || want == "" && out.Len() > 0 {
			t.Errorf("%s: %q, %v; want %q", file, out.String(), err, want)
		}
	}
}
