//go:build cgo && linux

package cuda_test

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// types are the two types of weights, with weights that suit them.
func types(t testing.TB, c policy.Config) map[safetensors.DType][]policy.Tensor {
	return map[safetensors.DType][]policy.Tensor{safetensors.F32: policytest.LoudWeights(t, c), safetensors.BF16: tuned(t, c)}
}

func samplerAndLearnerAgree(t *testing.T, c policy.Config, weights []policy.Tensor, dtype safetensors.DType, s policy.Sampling) {
	t.Helper()
	e := open(t, c, weights, cuda.Options{DType: dtype}, budgets(func(b *cuda.Budgets) { b.PassTokens, b.PassSequences = 2000, 40 }))
	requests := policytest.Requests(c, 5, 5, 70, s)
	for i := range requests {
		if i%2 == 0 {
			requests[i].StopTokens = nil
		}
	}
	completions := generate(t, e, requests)
	batch := policytest.AsBatch(requests, completions)
	logProbs, _ := forward(t, e, batch, s)
	compared := 0
	for i, r := range requests {
		from := int(batch.Offsets[i]) + len(r.Prompt)
		if !policytest.SameBits(completions[i].LogProbs, logProbs[from:int(batch.Offsets[i+1])]) {
			t.Errorf("response %d: log-probabilities %v when sampled and %v when learned", i, completions[i].LogProbs, logProbs[from:batch.Offsets[i+1]])
		}
		compared += len(completions[i].LogProbs)
	}
	if compared < 40 {
		t.Errorf("only %d tokens compared", compared)
	}
	alone := open(t, c, weights, cuda.Options{DType: dtype}, budgets(func(b *cuda.Budgets) { b.Slots, b.PrefillTokens = 1, 32 }))
	for _, i := range []int{0, 4} {
		if diff := cmp.Diff(completions[i:i+1], generate(t, alone, requests[i:i+1])); diff != "" {
			t.Errorf("request %d alone: %s", i, diff)
		}
	}
}

// The contract holds on either path of products that LATHE_GEMM chooses, in a
// model whose rows begin at multiples of 16 bytes, as wgmma wants them.
func TestProductPaths(t *testing.T) {
	c := small(func(c *policy.Config) { c.HiddenSize, c.IntermediateSize, c.HeadDim = 32, 40, 8 })
	weights := tuned(t, c)
	try := func(t *testing.T) error {
		e, err := cuda.OpenWith(policy.InMemory(c, weights), cuda.Options{Library: policytest.Library(t), DType: safetensors.BF16}, budgets(nil))
		if err != nil {
			return err
		}
		if a := e.Arithmetic(); a.Backend != "cuda" || a.Device == "" || a.Products != os.Getenv("LATHE_GEMM") {
			t.Errorf("the engine says that it is %+v", a)
		}
		return e.Close()
	}
	for _, path := range []string{"mma", "wgmma"} {
		t.Run(path, func(t *testing.T) {
			t.Setenv("LATHE_GEMM", path)
			if err := try(t); path == "wgmma" && !policytest.Emulated() && exitcode.Code(err) == exitcode.Unavailable {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			samplerAndLearnerAgree(t, c, weights, safetensors.BF16, policy.Sampling{Temperature: 0.8, TopP: 0.9})
		})
	}
	t.Setenv("LATHE_GEMM", "tensor")
	if err := try(t); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a path that there is not: %v", err)
	}
}

// Contexts of more than one split of keys (256 tokens), where decoding and
// prefill divide a row's attention among blocks and the learner does not: the
// bits are the same on both sides of a border, however the prompt is cut into
// pieces and whatever runs beside it. On a GPU the contexts are eight times as long.
func TestLongContexts(t *testing.T) {
	scale := 1
	if !policytest.Emulated() {
		scale = 8
	}
	for _, test := range []struct {
		dtype                     safetensors.DType
		heads, keyHeads, headSize int
	}{
		{safetensors.BF16, 3, 1, 64},  // tensor cores
		{safetensors.BF16, 1, 1, 128}, // wide heads, each its own
		{safetensors.F32, 2, 1, 6},    // the plain kernels
	} {
		t.Run(fmt.Sprintf("%s %d heads, %d of keys, %d wide", test.dtype, test.heads, test.keyHeads, test.headSize), func(t *testing.T) {
			c := small(func(c *policy.Config) {
				c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim, c.MaxPositionEmbeddings = test.heads, test.keyHeads, test.headSize, 640*scale
			})
			weights := types(t, c)[test.dtype]
			s := policy.Sampling{Temperature: 1}
			var requests []policy.Request
			for i, length := range []int{253, 514*scale - 4, 20} {
				requests = append(requests, policy.Request{
					Prompt: policytest.Batch(c, uint64(i), length).TokenIDs, MaxNewTokens: 6, Stream: rng.New(1, rng.PurposeSample, 0, "long", i), Sampling: s,
				})
			}
			options := cuda.Options{DType: test.dtype}
			rows := func(b *cuda.Budgets) {
				b.PassTokens, b.PassSequences, b.CachePages = 900*scale, 4, 20*scale
				b.PrefillTokens = 600 * scale // the longest in one piece
			}
			e := open(t, c, weights, options, budgets(rows))
			completions := generate(t, e, requests)
			batch := policytest.AsBatch(requests, completions)
			logProbs, _ := forward(t, e, batch, s)
			for i, r := range requests {
				from := int(batch.Offsets[i]) + len(r.Prompt)
				if len(completions[i].LogProbs) != 6 || !policytest.SameBits(completions[i].LogProbs, logProbs[from:int(batch.Offsets[i+1])]) {
					t.Errorf("response %d: log-probabilities %v when sampled and %v when learned", i, completions[i].LogProbs, logProbs[from:batch.Offsets[i+1]])
				}
			}
			pieces := open(t, c, weights, options, budgets(func(b *cuda.Budgets) {
				rows(b)
				b.Slots, b.PrefillTokens = 1, 200*scale+16
			}))
			if diff := cmp.Diff(completions[1:2], generate(t, pieces, requests[1:2])); diff != "" {
				t.Errorf("alone, its prompt in pieces: %s", diff)
			}
		})
	}
}

// A plan for the memory that is free opens: what CUDA takes for an engine before
// it counts what is free again is planned for.
func TestPlanOpensInWhatIsFree(t *testing.T) {
	library := policytest.Library(t)
	if !policytest.Emulated() {
		t.Skip("only the emulated device has as much memory as it is told")
	}
	c := small(nil)
	source := policy.InMemory(c, policytest.LoudWeights(t, c))
	for _, options := range []cuda.Options{
		{Library: library, Workload: policy.Workload{Longest: 100}},
		{Library: library, Workload: policy.Workload{Generate: true, Responses: 2}},
		{Library: library, Train: true, Workload: policy.Workload{Longest: 100}},
	} {
		planned := func(bytes int) bool {
			_, err := cuda.PlanFor(c, cuda.Case{DType: safetensors.F32, Train: options.Train, Workload: options.Workload}, int64(bytes))
			return err == nil
		}
		least := sort.Search(4<<30, planned)
		t.Setenv("LATHE_HOST_MEMORY", strconv.Itoa(least))
		e, err := cuda.New(source, options)
		if err != nil {
			t.Errorf("%+v, planned in %d bytes: %v", options.Workload, least, err)
			continue
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What the plan says of memory is what the engine says of itself.
func TestPlanIsWhatEnginesTake(t *testing.T) {
	adapter := func(c policy.Config, targets ...string) *policy.Adapter {
		a, err := policy.InitAdapter(c, policy.LoRA{Rank: 5, Alpha: 5, Targets: targets}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return &a
	}
	for name, c := range policytest.Families() {
		if !core(name) {
			continue
		}
		weights := policytest.LoudWeights(t, c)
		for i, options := range []cuda.Options{
			{},
			{DType: safetensors.BF16},
			{Train: true},
			{Train: true, DType: safetensors.BF16},
			{Train: true, DType: safetensors.BF16, State: safetensors.BF16},
			{Train: true, State: safetensors.BF16, ValueHead: make([]float32, c.HiddenSize)},
			{Train: true, DType: safetensors.BF16, Adapter: adapter(c, policy.LoRATargets()...), ValueHead: make([]float32, c.HiddenSize)},
			{Train: true, Adapter: adapter(c, "q_proj", "v_proj", "down_proj")},
			{DType: safetensors.BF16, Adapter: adapter(c, "o_proj")},
		} {
			for j, b := range []cuda.Budgets{
				budgets(nil),
				{PassTokens: 80, PassSequences: 3, HeadTokens: 32, Recompute: cuda.RecomputeMLP},
				{PassTokens: 336, PassSequences: 1, HeadTokens: 16, Recompute: cuda.RecomputeBlock},
				{PassTokens: 96, PassSequences: 2, MLPTokens: 32, HeadTokens: 16, Recompute: cuda.Offload, SpilledSums: 1},
				{PassTokens: 96, PassSequences: 2, MLPTokens: 32, HeadTokens: 16},
				{PassTokens: 80, PassSequences: 1, HeadTokens: 16, GradientSums: 2, SpilledSums: 3},
				{PassTokens: 80, PassSequences: 1, HeadTokens: 16, SpilledSums: 1, HostState: true},
				{Slots: 3, CachePages: 5, PrefillTokens: 50},
			} {
				if b.GradientSums+b.SpilledSums > 0 && !options.Train {
					continue
				}
				e := open(t, c, weights, options, b)
				stats, err := e.Stats()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(e.Predicted(), stats.Footprint); diff != "" {
					t.Errorf("%s, options %d, budgets %d: the plan against the engine: %s", name, i, j, diff)
				}
			}
		}
	}
}
