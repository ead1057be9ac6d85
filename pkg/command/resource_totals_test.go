package command

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/site"
)

// By hand: 10 iterations of 20 rollout tasks with a GPU and 30 minutes each are
// 200 tasks, 100 GPU-hours, and on 8 GPUs 3 rounds each, 15 hours; a score task of
// 16 cores finds room for two on each of 4 nodes of 32, so 20 take 3 rounds of an
// hour.
func TestAsks(t *testing.T) {
	t.Parallel()
	r := recipe.Defaults()
	r.Schedule.Iterations, r.Rollout.Prompts, r.Rollout.Shards, r.Evaluation.Problems = 10, 20, 20, 0
	r.Resources.Stages.Rollout = recipe.Request{CPUs: 4, GPUs: 1, Minutes: 30}
	r.Resources.Stages.Score = recipe.Request{CPUs: 16, Minutes: 60}
	p := site.Profile{Nodes: 4, NodeCPUs: 32, GPUs: 8}
	all, err := stageTotals(graph.Graph{Recipe: r}, p)
	if err != nil {
		t.Fatal(err)
	}
	found := map[graph.Stage]stageTotal{}
	for _, a := range all {
		found[a.Stage] = a
	}
	if a := found[graph.StageRollout]; a.Arrays != 10 || a.Tasks != 200 || a.GPUHours != 100 || a.CoreHours != 400 || a.WallHours != 15 {
		t.Errorf("rollout: %+v", a)
	}
	if a := found[graph.StageScore]; a.Tasks != 200 || a.GPUHours != 0 || a.CoreHours != 3200 || a.WallHours != 30 {
		t.Errorf("score: %+v", a)
	}
	// A budget of an hour for each of 2 problems × 3 samples of a task: 6 hours, and for its
	// 4,096 waves (as many as a budget allows) a second each to start and one task of half
	// an hour. An evaluation before training and one after, of two such tasks.
	budgeted := r
	budgeted.Evaluation = recipe.Evaluation{Problems: 4, Samples: 3, Scaffold: "chain", Seconds: 3600, Shards: 2}
	if all, err = stageTotals(graph.Graph{Recipe: budgeted}, p); err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		const each = 6 + 4096./3600 + 0.5
		if a.Stage == graph.StageEvalRollout && (a.Tasks != 2*2*4096 || math.Abs(a.CoreHours-2*2*each) > 1e-6 || math.Abs(a.WallHours-2*each) > 1e-6) {
			t.Errorf("with a budget: %+v, want %v hours a task for all its waves", a, each)
		}
	}
	p.NodeCPUs = 8
	if _, err := stageTotals(graph.Graph{Recipe: r}, p); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "one task of score requests 16 cores") {
		t.Errorf("a task that is larger than a node: %v", err)
	}
}

// By hand, of a policy with P weights in bfloat16: 2P bytes a version, and 12P of
// two moments and a master. Every fourth of 10 is 4, 8 and 10, beside version 0.
func TestStorage(t *testing.T) {
	t.Parallel()
	c := policy.Config{
		Architecture: policy.Llama, VocabSize: 10, HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 1,
		NumAttentionHeads: 2, NumKeyValueHeads: 1, HeadDim: 4, MaxPositionEmbeddings: 8, TieWordEmbeddings: true,
	}
	weights := int64(policy.ParameterCount(c))
	stored := map[safetensors.DType]int{safetensors.BF16: int(weights)}
	r := recipe.Defaults()
	r.Schedule.Iterations, r.Schedule.KeepEvery = 10, 4
	for name, test := range map[string]struct {
		change   func(r *recipe.Recipe)
		versions int
		total    int64
	}{
		"whole":    {func(*recipe.Recipe) {}, 4, 2*weights + 3*14*weights},
		"all":      {func(r *recipe.Recipe) { r.Schedule.KeepEvery = 0 }, 11, 2*weights + 10*14*weights},
		"a critic": {func(r *recipe.Recipe) { r.Policy.Critic = recipe.CriticModel }, 4, 2*weights + 3*28*weights},
		"half":     {func(r *recipe.Recipe) { r.Optimizer.State = "bfloat16" }, 4, 2*weights + 3*6*weights},
		"float32":  {func(r *recipe.Recipe) { r.Policy.DType = "float32" }, 4, 4*weights + 3*12*weights},
		"an adapter": { // of q_proj, rank 2: A of 2 by 8 and B of 8 by 2, 32 numbers in float32 with two moments
			func(r *recipe.Recipe) { r.Policy.LoRA = &recipe.LoRA{Rank: 2, Alpha: 2, Targets: []string{"q_proj"}} }, 4, 2*weights + 32*4 + 3*32*12,
		},
	} {
		changed := r
		test.change(&changed)
		if s := storageOf(changed, c, stored); s.Versions != test.versions || s.Total != test.total {
			t.Errorf("%s: %+v, want %d versions and %d bytes of %d weights", name, s, test.versions, test.total, weights)
		}
	}
}

// By hand: 10 iterations of 4 by 2 responses of at most 100 tokens, as many counted for
// the prompt: 16,000 tokens of 14 bytes, and 20 in batches. Of two evaluated versions 5
// problems by 3 samples and a greedy one, each with 2 steps after the first answer:
// 2·5·4·3 answers of 200 tokens.
func TestStorageByStage(t *testing.T) {
	t.Parallel()
	r := recipe.Defaults()
	r.Schedule.Iterations, r.Rollout.Prompts, r.Rollout.Group, r.Rollout.MaxNewTokens = 10, 4, 2, 100
	r.Evaluation.Problems, r.Evaluation.Samples, r.Evaluation.Greedy, r.Evaluation.Steps, r.Evaluation.Every = 5, 3, true, 2, 0
	got := storageByStage(graph.Graph{Recipe: r}, storage{Total: 7})
	want := map[graph.Stage]int64{
		graph.StageRollout: 16000 * 14, graph.StageBuffer: 16000 * 20, graph.StageEvalRollout: 120 * 200 * 14, graph.StageLearn: 7,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for bytes, words := range map[int64]string{0: "", 36_900_000: "36.9 MB", 2_040_000_000: "2.0 GB"} {
		if got := size(bytes); got != words {
			t.Errorf("%d bytes are %q", bytes, got)
		}
	}
}

// A policy that fits on no GPU of the site is refused with what would fit.
func TestPolicyThatDoesNotFit(t *testing.T) {
	t.Parallel()
	c := policy.Config{ // about eight billion weights
		Architecture: policy.Llama, VocabSize: 128256, HiddenSize: 4096, IntermediateSize: 14336, NumHiddenLayers: 32,
		NumAttentionHeads: 32, NumKeyValueHeads: 8, HeadDim: 128, MaxPositionEmbeddings: 8192,
	}
	stored := map[safetensors.DType]int{safetensors.BF16: policy.ParameterCount(c)}
	r := recipe.Defaults()
	r.Policy.Backend, r.Policy.Path = "cuda", "models/8B"
	var out bytes.Buffer
	err := printGPUMemory(&out, r, c, stored, site.Profile{Name: "ours", GPUMemoryGB: 39})
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `"models/8B" does not fit into the GPU memory of site "ours", 39 GiB`) {
		t.Errorf("%v", err)
	}
	if hints := exitcode.Hints(err); len(hints) != 1 || hints[0] != "it would fit with policy.lora: {rank: 64, alpha: 128}, or GPUs of 80 GiB" {
		t.Errorf("hints %q of %v: %s", hints, err, out.String())
	}
	if !strings.Contains(out.String(), "learn: does not fit") {
		t.Errorf("printed %s", out.String())
	}
	// With twice as much the optimizer's state, 12 bytes a weight, is in the host's memory, of
	// which a task requests 2 GiB.
	err = printGPUMemory(&out, r, c, stored, site.Profile{Name: "ours", GPUMemoryGB: 78})
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "resources.stages.learn.memory_gb: got 2, and a task of learn holds ") {
		t.Errorf("%v", err)
	}
}
