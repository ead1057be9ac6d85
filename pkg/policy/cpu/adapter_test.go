package cpu

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/vec"
)

func adaptedEngine(t testing.TB, c policy.Config, a *policy.Adapter, threads int) *Engine {
	t.Helper()
	e, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Threads: threads, Train: true, Adapter: a})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Values within 1e-5 and gradients of A and B within 1e-4 of the float64
// reference, which adds the product to the weight; the base has no gradient.
func TestAdapterAgainstReference(t *testing.T) {
	t.Parallel()
	llama := tinyConfig()
	llama.Architecture, llama.TieWordEmbeddings, llama.NumKeyValueHeads = policy.Llama, false, 1
	qwen3 := tinyConfig()
	qwen3.Architecture = policy.Qwen3
	for name, test := range map[string]struct {
		config policy.Config
		lora   policy.LoRA
	}{
		"qwen3":           {qwen3, policytest.Everywhere()},
		"everywhere":      {tinyConfig(), policytest.Everywhere()},
		"llama":           {llama, policytest.Everywhere()},
		"q and v":         {tinyConfig(), policy.LoRA{Rank: 8, Alpha: 16, Targets: []string{"q_proj", "v_proj"}}},
		"k alone":         {tinyConfig(), policy.LoRA{Rank: 1, Alpha: 1, Targets: []string{"k_proj"}}},
		"MLP":             {tinyConfig(), policy.LoRA{Rank: 2, Alpha: 4, Targets: []string{"up_proj", "down_proj"}}},
		"o and gate":      {tinyConfig(), policy.LoRA{Rank: 40, Alpha: 2, Targets: []string{"o_proj", "gate_proj"}}},
		"rank-stabilized": {tinyConfig(), policy.LoRA{Rank: 4, Alpha: 3, Targets: []string{"q_proj", "down_proj"}, RankStabilized: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.config
			adapter := policytest.LoudAdapter(t, c, test.lora)
			e := adaptedEngine(t, c, adapter, 2)
			batch := policytest.Batch(c, 3, 1, 7, 70, 0, 2, 130)
			coef, ofEntropy := policytest.Coefficients(batch, 1), policytest.Coefficients(batch, 2)
			s := policy.Sampling{Temperature: 0.9}
			logProbs, entropy := forward(t, e, batch, s)
			if err := e.Backward(policy.Coefficients{LogProb: coef, Entropy: ofEntropy}); err != nil {
				t.Fatal(err)
			}
			r := newReference(c, append(policytest.LoudWeights(t, c), adapter.Tensors...))
			r.scale = test.lora.Alpha / float64(test.lora.Rank)
			if test.lora.RankStabilized {
				r.scale = test.lora.Alpha / math.Sqrt(float64(test.lora.Rank))
			}
			wantLogProbs, wantEntropy := r.run(batch, s, coef, ofEntropy)
			if d := difference(logProbs, wantLogProbs); d > 1e-5 {
				t.Errorf("log-probabilities differ by %.2g", d)
			}
			if d := difference(entropy, wantEntropy); d > 1e-5 {
				t.Errorf("entropies differ by %.2g", d)
			}
			layout := policy.LoRALayout(c, test.lora)
			for i, g := range e.Gradients() {
				if g.Name != layout[i].Name || e.Weights()[i].Name != g.Name {
					t.Fatalf("tensor %d is %s and %s, want %s", i, e.Weights()[i].Name, g.Name, layout[i].Name)
				}
				if d := difference(g.Data, r.tensors[g.Name].g); d > 1e-4 {
					t.Errorf("gradient of %s differs by %.2g", g.Name, d)
				}
			}
			if len(e.Gradients()) != len(layout) {
				t.Errorf("%d gradients for %d tensors", len(e.Gradients()), len(layout))
			}
		})
	}
}

// Log-probabilities with an adapter have the same bits alone, and at any place
// of any batch, on any number of threads.
func TestAdaptedForwardIgnoresCompany(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]policy.Config{"odd": tinyConfig(), "even": evenConfig()} {
		t.Run(name, func(t *testing.T) {
			adapter := policytest.LoudAdapter(t, c, policytest.Everywhere())
			engines := []*Engine{adaptedEngine(t, c, adapter, 1), adaptedEngine(t, c, adapter, 2), adaptedEngine(t, c, adapter, 3)}
			s := policy.Sampling{Temperature: 0.9}
			rapid.Check(t, func(rt *rapid.T) {
				lengths := rapid.SliceOfN(rapid.IntRange(1, 150), 1, 6).Draw(rt, "lengths")
				which := rapid.IntRange(0, len(lengths)-1).Draw(rt, "which")
				e := engines[rapid.IntRange(0, 2).Draw(rt, "engine")]
				batch := policytest.Batch(c, uint64(rapid.IntRange(0, 1000).Draw(rt, "seed")), lengths...)
				logProbs, entropy := forward(t, e, batch, s)
				from, to := batch.Offsets[which], batch.Offsets[which+1]
				alone := policy.Batch{TokenIDs: batch.TokenIDs[from:to], Targets: batch.Targets[from:to], Offsets: []int32{0, to - from}}
				wantLogProbs, wantEntropy := forward(t, engines[0], alone, s)
				if !policytest.SameBits(logProbs[from:to], wantLogProbs) || !policytest.SameBits(entropy[from:to], wantEntropy) {
					rt.Fatalf("sequence %d of %v differs from itself alone", which, lengths)
				}
			})
		})
	}
}

// adaptedDigest is the sha256 of an adapter after three steps and of what it
// then samples.
func adaptedDigest(t *testing.T, c policy.Config, threads int, change func(e *Engine)) string {
	t.Helper()
	e := adaptedEngine(t, c, policytest.LoudAdapter(t, c, policytest.Everywhere()), threads)
	base := digest(e.base.read(1))
	if change != nil {
		change(e)
	}
	for step := range 3 {
		batch := policytest.Batch(c, uint64(step), 40, 3, 90, 150, 7, 64, 65)
		forward(t, e, batch, policy.Sampling{Temperature: 1, TopP: 0.95})
		e.ZeroGradients()
		if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}); err != nil {
			t.Fatal(err)
		}
		stats, err := e.Step(policy.AdamW{LearningRate: 1e-3, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: 0.1, MaxGradNorm: 1})
		if err != nil || stats.Skipped || stats.Scale >= 1 {
			t.Fatalf("step %d: %+v, %v", step, stats, err)
		}
	}
	if digest(e.base.read(1)) != base {
		t.Error("the base has changed")
	}
	return digest(e.Weights()) + fmt.Sprint(generate(t, e, policytest.Requests(c, 2, 6, 80, policy.Sampling{Temperature: 1})))
}

func TestAdaptedTrainingIgnoresThreadsAndInstructionSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]policy.Config{"odd": tinyConfig(), "even": evenConfig()} {
		want := adaptedDigest(t, c, 1, nil)
		for _, threads := range []int{2, 3, 7} {
			if got := adaptedDigest(t, c, threads, nil); got != want {
				t.Errorf("%s: %d threads give another adapter than one", name, threads)
			}
		}
		// Nothing is added up in another order when activations and logits
		// are worked off in chunks: no embedding is trained.
		chunked := func(e *Engine) {
			e.limits.chunkTokens, e.limits.sparseTokens, e.limits.logits, e.limits.keptLogits = 100, 0, 1, 1
		}
		if got := adaptedDigest(t, c, 2, chunked); got != want {
			t.Errorf("%s: chunks give another adapter", name)
		}
	}
	c := tinyConfig()
	want := adaptedDigest(t, c, 1, nil)
	for isa := range vec.EachISA {
		if got := adaptedDigest(t, c, 1, nil); got != want {
			t.Errorf("%s gives another adapter", isa)
		}
	}
}

// A policy with its adapter merged gives the log-probabilities of the two
// apart, within rounding.
func TestMergedAndUnmergedAgree(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	dir := t.TempDir()
	base, adapted, merged := filepath.Join(dir, "base"), filepath.Join(dir, "adapter"), filepath.Join(dir, "merged")
	for _, folder := range []string{base, adapted, merged} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	adapter := policytest.LoudAdapter(t, c, policytest.Everywhere())
	adapter.Base = "../base"
	if err := checkpoint.Save(base, c, policytest.LoudWeights(t, c)); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.SaveAdapter(adapted, c, *adapter); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Merge(adapted, "", merged); err != nil {
		t.Fatal(err)
	}
	source, err := checkpoint.Open(merged)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	one, err := New(source, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	batch := policytest.Batch(c, 3, 40, 130)
	s := policy.Sampling{Temperature: 1}
	want, _ := forward(t, adaptedEngine(t, c, adapter, 1), batch, s)
	got, _ := forward(t, one, batch, s)
	if d := difference(got, widened(want)); d > 2e-5 {
		t.Errorf("log-probabilities differ by %.2g", d)
	}
}
