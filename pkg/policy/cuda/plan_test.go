package cuda

import (
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// qwen05B and qwen7B are the shapes of Qwen2.5-0.5B and -7B as in their
// config.json.
func qwen05B() policy.Config {
	return policy.Config{
		Architecture: policy.Qwen2, QKVBias: true, VocabSize: 151936, HiddenSize: 896, IntermediateSize: 4864, NumHiddenLayers: 24,
		NumAttentionHeads: 14, NumKeyValueHeads: 2, HeadDim: 64, MaxPositionEmbeddings: 32768,
		RMSNormEps: 1e-6, RopeTheta: 1e6, TieWordEmbeddings: true, BOSTokenID: -1,
	}
}

func qwen7B() policy.Config {
	return policy.Config{
		Architecture: policy.Qwen2, QKVBias: true, VocabSize: 152064, HiddenSize: 3584, IntermediateSize: 18944, NumHiddenLayers: 28,
		NumAttentionHeads: 28, NumKeyValueHeads: 4, HeadDim: 128, MaxPositionEmbeddings: 32768,
		RMSNormEps: 1e-6, RopeTheta: 1e6, BOSTokenID: -1,
	}
}

const gib = 1 << 30

// The parts of a plan that can be worked out by hand: 494,032,768 parameters in
// bfloat16 with float32 gradients, masters and moments, and a tied embedding
// whose use as a table has a gradient of its own; keys and values of 2·24·2·64
// numbers a token.
func TestPlanByHand(t *testing.T) {
	c := qwen05B()
	const parameters, table = 494032768, 151936 * 896
	p, err := PlanFor(c, Case{DType: safetensors.BF16, Train: true, Workload: policy.Workload{Longest: 4096}}, 80*gib)
	if err != nil {
		t.Fatal(err)
	}
	near := func(name string, got, want int64) {
		t.Helper()
		if got < want || got > want+512*300 { // each of some 300 tensors is rounded up to 256 bytes, thrice at most
			t.Errorf("%s: %d bytes, want %d and a little", name, got, want)
		}
	}
	near("weights", p.WeightBytes, 2*parameters)
	near("gradients", p.GradientBytes, 4*(parameters+table))
	near("state", p.StateBytes, 12*parameters)
	if p.Recompute != KeepAll || p.PassTokens != bestPassTokens || p.CacheBytes != 0 {
		t.Errorf("%+v", p.Budgets)
	}
	// What a backward pass needs of each of 24 blocks and 16,384 rows: the residual stream
	// twice, two norms, queries, keys and values, attention's output, gate and up
	// and their product.
	kept := int64(24 * 16384 * 2 * (4*896 + (896 + 256) + 896 + 3*4864))
	if p.ActivationBytes < kept || p.ActivationBytes > kept*11/10 {
		t.Errorf("activations: %d bytes, want %d and up to a tenth more", p.ActivationBytes, kept)
	}
	g, err := PlanFor(c, Case{DType: safetensors.BF16, Workload: policy.Workload{Generate: true, Responses: 64}}, 80*gib)
	if err != nil {
		t.Fatal(err)
	}
	near("keys and values", g.CacheBytes, int64(g.CachePages)*64*2*24*2*64*2)
	if g.Slots != 64 || g.GradientBytes != 0 || g.StateBytes != 0 {
		t.Errorf("%+v", g)
	}
}

// A plan fits, uses what there is, and computes less again with more memory.
func TestPlansFit(t *testing.T) {
	shapes := []policy.Config{qwen05B(), qwen7B()}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(shapes).Draw(t, "shape")
		k := Case{
			DType: rapid.SampledFrom([]safetensors.DType{safetensors.F32, safetensors.BF16}).Draw(t, "dtype"),
			State: rapid.SampledFrom([]safetensors.DType{safetensors.F32, safetensors.BF16}).Draw(t, "state"),
			Train: rapid.Bool().Draw(t, "train"), ValueHead: rapid.Bool().Draw(t, "value head"),
			Workload: policy.Workload{
				Generate: rapid.Bool().Draw(t, "generate"), Longest: rapid.IntRange(0, 40000).Draw(t, "longest"),
				PassTokens: rapid.IntRange(0, 40000).Draw(t, "pass"), Responses: rapid.IntRange(0, 1000).Draw(t, "responses"),
				Gradients: rapid.Bool().Draw(t, "gradients"), Sums: rapid.IntRange(0, 5).Draw(t, "sums"),
				Shared: rapid.IntRange(0, 20000).Draw(t, "shared"),
			},
		}
		if rapid.Bool().Draw(t, "adapter") {
			k.LoRA = &policy.LoRA{Rank: 16, Alpha: 32, Targets: policy.LoRATargets()}
		}
		bytes := rapid.Int64Range(1<<20, 200*gib).Draw(t, "bytes")
		p, err := PlanFor(c, k, bytes)
		if exitcode.Code(err) == exitcode.Unavailable {
			if !strings.Contains(err.Error(), "needs at least") {
				t.Fatalf("no number in %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		longest := c.MaxPositionEmbeddings
		if k.Longest > 0 {
			longest = min(longest, k.Longest)
		}
		if p.TotalBytes > bytes-besideBytes {
			t.Fatalf("%d bytes of %d", p.TotalBytes, bytes)
		}
		if k.Train && p.PassTokens < longest || k.Generate && p.CacheTokens() < longest || p.HeadTokens%rowAlign != 0 || p.PassTokens%rowAlign != 0 {
			t.Fatalf("sequences of %d tokens have no room: %+v", longest, p.Budgets)
		}
		// The prefix group with the most sequences, and the one with the most tokens.
		if n := k.Shared / rowAlign; k.Train && (!p.holds(content{n * rowAlign, n}) || !p.holds(contentOf([]int{k.Shared / rowAlign * rowAlign}))) {
			t.Fatalf("a prefix group of %d tokens has no room: %+v", k.Shared, p.Budgets)
		}
		more, err := PlanFor(c, k, bytes+gib)
		if err != nil {
			t.Fatalf("with a gigabyte more: %v", err)
		}
		if k.Train && p.GradientSums+p.SpilledSums != k.Sums || !k.Train && p.GradientSums+p.SpilledSums > 0 {
			t.Fatalf("%d partial sums: %+v", k.Sums, p.Budgets)
		}
		if cmp.Or(cmp.Compare(p.Recompute, more.Recompute), cmp.Compare(more.GradientSums, p.GradientSums), cmp.Compare(more.PassTokens, p.PassTokens)) < 0 {
			t.Fatalf("with a gigabyte more, %+v instead of %+v", more.Budgets, p.Budgets)
		}
	})
}

// Inputs of blocks go to the host's memory where the longest sequence fits no other way: an
// adapter of 32 billion weights at 20,000 tokens takes 62.0 GiB for weights, and 12 GiB for
// the inputs of 63 blocks, of 5,120 numbers in bfloat16.
func TestInputsAreOffloadedLast(t *testing.T) {
	c := policy.Config{
		Architecture: policy.Qwen2, BOSTokenID: -1, VocabSize: 152064, HiddenSize: 5120, IntermediateSize: 27648, NumHiddenLayers: 64, NumAttentionHeads: 40, NumKeyValueHeads: 8, HeadDim: 128,
		MaxPositionEmbeddings: 40960, RMSNormEps: 1e-5, RopeTheta: 1e6, QKVBias: true,
	}
	lora := policy.LoRA{Rank: 64, Alpha: 64, Targets: policy.LoRATargets()}
	k := Case{DType: safetensors.BF16, Train: true, LoRA: &lora, Workload: policy.Workload{Longest: 20000, Gradients: true}}
	for gigabytes, want := range map[int64]Recompute{78: Offload, 90: RecomputeBlock} {
		p, err := PlanFor(c, k, gigabytes*gib)
		if err != nil {
			t.Fatal(err)
		}
		spilled := int64(0)
		if want == Offload {
			spilled = 63 * int64(p.PassTokens) * 5120 * 2
		}
		if p.Recompute != want || p.PassTokens < 20000 || p.SpilledBytes != spilled {
			t.Errorf("%d GiB: %s, passes of %d, %d bytes on the host, want %s and %d", gigabytes, p.Recompute, p.PassTokens, p.SpilledBytes, want, spilled)
		}
	}
}

// Partial sums are on the device as far as a pass of a good size leaves room, and
// the others on the host: 0.5 billion gradients take 1.84 GiB.
func TestSumsArePlanned(t *testing.T) {
	const sum = 4 * 494032768
	k := Case{DType: safetensors.BF16, Train: true, Workload: policy.Workload{Longest: 2048, Sums: 3}}
	for _, test := range []struct {
		free            int64
		device, spilled int
	}{
		{80 * gib, 3, 0},
		{16 * gib, 1, 2},
	} {
		p, err := PlanFor(qwen05B(), k, test.free)
		if err != nil {
			t.Fatal(err)
		}
		if p.GradientSums != test.device || p.SpilledSums != test.spilled {
			t.Errorf("%d GiB: %+v", test.free/gib, p)
		}
		if rest := p.SumBytes - int64(test.device)*sum; rest < 0 || rest > 1<<20 {
			t.Errorf("%d sums take %d bytes", test.device, p.SumBytes)
		}
		if rest := p.SpilledBytes - int64(test.spilled)*sum; rest < 0 || rest > 1<<20 {
			t.Errorf("%d sums take %d bytes of the host", test.spilled, p.SpilledBytes)
		}
	}
}

// A policy that cannot be trained on a GPU is refused with what it needs and
// what there is; with a smaller optimizer, or an adapter, it is not.
func TestPlanRefuses(t *testing.T) {
	k := Case{DType: safetensors.BF16, Train: true, Workload: policy.Workload{Longest: 4096}}
	p, err := PlanFor(qwen7B(), k, 80*gib)
	if err != nil || !p.HostState || p.Recompute == Offload || p.StateBytes != 0 || p.SpilledBytes < 85*gib || !strings.Contains(p.String(), "the optimizer's state in the host's memory (85") {
		t.Fatalf("7.6 billion weights at 18 bytes each in 80 GiB, 12 of them in the host's: %s, %v", p, err)
	}
	if p, err := PlanFor(qwen7B(), k, 144*gib); err != nil || p.HostState {
		t.Errorf("and in 144 GiB: %s, %v", p, err)
	}
	_, err = PlanFor(qwen7B(), k, 40*gib)
	if exitcode.Code(err) != exitcode.Unavailable {
		t.Fatalf("7.6 billion weights and gradients at 6 bytes each in 40 GiB: %v", err)
	}
	for _, words := range []string{"needs at least", "gradients 28.37 GiB", "40.00 GiB are free"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
	k.State = safetensors.BF16
	if p, err := PlanFor(qwen7B(), k, 80*gib); err != nil || p.Recompute == KeepAll || p.HostState {
		t.Errorf("bfloat16 state: %+v, %v", p.Budgets, err)
	}
	k.LoRA = &policy.LoRA{Rank: 16, Alpha: 32, Targets: policy.LoRATargets()}
	if p, err := PlanFor(qwen7B(), k, 80*gib); err != nil || p.GradientBytes > gib {
		t.Errorf("an adapter: %+v, %v", p, err)
	}
}

// What computes gradients alone holds no moments and no masters: 7.6 billion float32
// weights, 56.7 GiB with their gradients, and then train on a GPU of 80 GB, where a task
// that takes optimizer steps would need 113.5 GiB before its first activation, and leaves 56.7
// of them in the host's memory.
func TestGradientsHoldNoState(t *testing.T) {
	c := qwen7B()
	const parameters = 7615616512
	k := Case{DType: safetensors.F32, Train: true, Workload: policy.Workload{Longest: 9216, Sums: 1, Gradients: true}}
	p, err := PlanFor(c, k, 80e9)
	if err != nil {
		t.Fatal(err)
	}
	if near := int64(4 * parameters); p.StateBytes != 0 || p.WeightBytes < near || p.GradientBytes < near || p.WeightBytes > near+512*300 {
		t.Errorf("%+v", p.Footprint)
	}
	t.Logf("gradients: %s; %s", p.Footprint, p)
	k.Gradients = false
	if p, err := PlanFor(c, k, 80e9); err != nil || !p.HostState || p.StateBytes != 0 || p.OptimizerBytes() < 8*parameters || p.SpilledBytes < p.OptimizerBytes() {
		t.Errorf("with steps, whose state is in the host's memory: %s, %v", p, err)
	}
	whole, err := PlanFor(c, k, 400e9)
	if err != nil || whole.StateBytes < 8*parameters {
		t.Errorf("%+v, %v", whole.Footprint, err)
	}
}
