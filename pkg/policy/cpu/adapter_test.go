package cpu

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// loudAdapter has A and B far from their initial values.
func loudAdapter(t testing.TB, c policy.Config, l policy.LoRA) *policy.Adapter {
	t.Helper()
	a, err := policy.InitAdapter(c, l, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range a.Tensors {
		stream := rng.New(6, rng.PurposeTest, 0, w.Name, 0)
		for i := range w.Data {
			w.Data[i] = 0.3 * float32(stream.Normal(uint64(i)))
		}
	}
	return &a
}

func adaptedEngine(t testing.TB, c policy.Config, a *policy.Adapter, threads int) *Engine {
	t.Helper()
	e, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Threads: threads, Train: true, Adapter: a})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// everywhere adapts every projection, with a rank that fills no vector.
func everywhere() policy.LoRA {
	return policy.LoRA{Rank: 3, Alpha: 5, Targets: policy.LoRATargets()}
}

// Values within 1e-5 and gradients of A and B within 1e-4 of the float64
// reference, which adds the product to the weight; the base has no gradient.
func TestAdapterAgainstReference(t *testing.T) {
	llama := tinyConfig()
	llama.Architecture, llama.TieWordEmbeddings, llama.NumKeyValueHeads = policy.Llama, false, 1
	qwen3 := tinyConfig()
	qwen3.Architecture = policy.Qwen3
	for name, test := range map[string]struct {
		config policy.Config
		lora   policy.LoRA
	}{
		"qwen3":           {qwen3, everywhere()},
		"everywhere":      {tinyConfig(), everywhere()},
		"llama":           {llama, everywhere()},
		"q and v":         {tinyConfig(), policy.LoRA{Rank: 8, Alpha: 16, Targets: []string{"q_proj", "v_proj"}}},
		"k alone":         {tinyConfig(), policy.LoRA{Rank: 1, Alpha: 1, Targets: []string{"k_proj"}}},
		"MLP":             {tinyConfig(), policy.LoRA{Rank: 2, Alpha: 4, Targets: []string{"up_proj", "down_proj"}}},
		"o and gate":      {tinyConfig(), policy.LoRA{Rank: 40, Alpha: 2, Targets: []string{"o_proj", "gate_proj"}}},
		"rank-stabilized": {tinyConfig(), policy.LoRA{Rank: 4, Alpha: 3, Targets: []string{"q_proj", "down_proj"}, RankStabilized: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.config
			adapter := loudAdapter(t, c, test.lora)
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

// Switched off, an adapter leaves the bits of the policy without it; a new one
// does too, as its B is zero.
func TestAdapterOff(t *testing.T) {
	c := tinyConfig()
	batch := policytest.Batch(c, 3, 30, 90)
	s := policy.Sampling{Temperature: 1}
	requests := randomRequests(c, 2, 6, s)
	bare := newEngine(t, c, policytest.LoudWeights(t, c), 1)
	wantLogProbs, wantEntropy := forward(t, bare, batch, s)
	wantCompletions := generate(t, bare, requests)

	fresh, err := policy.InitAdapter(c, everywhere(), 3)
	if err != nil {
		t.Fatal(err)
	}
	logProbs, _ := forward(t, adaptedEngine(t, c, &fresh, 1), batch, s)
	if !sameBits(logProbs, wantLogProbs) {
		t.Error("a new adapter changes log-probabilities")
	}

	e := adaptedEngine(t, c, loudAdapter(t, c, everywhere()), 1)
	on, _ := forward(t, e, batch, s)
	if sameBits(on, wantLogProbs) {
		t.Error("the adapter changes nothing")
	}
	e.SetAdapter(false)
	off, entropy := forward(t, e, batch, s)
	if !sameBits(off, wantLogProbs) || !sameBits(entropy, wantEntropy) {
		t.Error("switched off, the adapter still changes log-probabilities")
	}
	if diff := cmp.Diff(wantCompletions, generate(t, e, requests)); diff != "" {
		t.Errorf("switched off, the adapter still changes responses: %s", diff)
	}
	if err := e.Backward(policy.Coefficients{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a backward pass with the adapter off: %v", err)
	}
	e.SetAdapter(true)
	if again, _ := forward(t, e, batch, s); !sameBits(again, on) {
		t.Error("switched on again, the adapter gives other log-probabilities")
	}
}

// Log-probabilities with an adapter have the same bits alone, and at any place
// of any batch, on any number of threads.
func TestAdaptedForwardIgnoresCompany(t *testing.T) {
	for name, c := range map[string]policy.Config{"odd": tinyConfig(), "even": evenConfig()} {
		t.Run(name, func(t *testing.T) {
			adapter := loudAdapter(t, c, everywhere())
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
				if !sameBits(logProbs[from:to], wantLogProbs) || !sameBits(entropy[from:to], wantEntropy) {
					rt.Fatalf("sequence %d of %v differs from itself alone", which, lengths)
				}
			})
		})
	}
}

// The contract of one log-probability holds with an adapter, for an engine
// that samples only and one that learns.
func TestAdaptedSamplerAndLearnerAgree(t *testing.T) {
	for _, c := range []policy.Config{tinyConfig(), evenConfig()} {
		adapter := loudAdapter(t, c, everywhere())
		sampler, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Threads: 2, Adapter: adapter})
		if err != nil {
			t.Fatal(err)
		}
		s := policy.Sampling{Temperature: 0.8, TopP: 0.95}
		requests := randomRequests(c, 5, 40, s)
		completions := generate(t, sampler, requests)
		batch := asBatch(requests, completions)
		logProbs, _ := forward(t, adaptedEngine(t, c, adapter, 1), batch, s)
		for i, r := range requests {
			from := int(batch.Offsets[i]) + len(r.Prompt)
			if !sameBits(completions[i].LogProbs, logProbs[from:from+len(completions[i].LogProbs)]) {
				t.Fatalf("response %d has other log-probabilities when sampled than when learned", i)
			}
		}
	}
}

// adaptedDigest is the sha256 of an adapter after three steps and of what it
// then samples.
func adaptedDigest(t *testing.T, c policy.Config, threads int, change func(e *Engine)) string {
	t.Helper()
	e := adaptedEngine(t, c, loudAdapter(t, c, everywhere()), threads)
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
	return digest(e.Weights()) + fmt.Sprint(generate(t, e, randomRequests(c, 2, 6, policy.Sampling{Temperature: 1})))
}

func TestAdaptedTrainingIgnoresThreadsAndInstructionSet(t *testing.T) {
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
	isa, err := vec.ISA()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := vec.SelectISA(isa); err != nil {
			t.Error(err)
		}
	}()
	c := tinyConfig()
	want := adaptedDigest(t, c, 1, nil)
	for _, isa := range vec.AvailableISAs() {
		if err := vec.SelectISA(isa); err != nil {
			t.Fatal(err)
		}
		if got := adaptedDigest(t, c, 1, nil); got != want {
			t.Errorf("%s gives another adapter", isa)
		}
	}
}

// A saved adapter and optimizer state go on to the same bits, with the state
// of the adapter's tensors alone.
func TestAdapterResumes(t *testing.T) {
	c := tinyConfig()
	batch := policytest.Batch(c, 2, 20, 24)
	straight := adaptedEngine(t, c, loudAdapter(t, c, everywhere()), 1)
	trainSteps(t, straight, batch, 4)

	first := adaptedEngine(t, c, loudAdapter(t, c, everywhere()), 1)
	trainSteps(t, first, batch, 2)
	folder := t.TempDir()
	tensors, steps := first.OptimizerState()
	if want := 2 * len(policy.LoRALayout(c, everywhere())); len(tensors) != want {
		t.Errorf("the optimizer's state has %d tensors, want %d", len(tensors), want)
	}
	if err := checkpoint.SaveOptimizer(folder, tensors, steps); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.SaveAdapter(folder, c, policy.Adapter{LoRA: *first.Adapter(), Base: "../base", Tensors: first.Weights()}); err != nil {
		t.Fatal(err)
	}
	saved, err := checkpoint.LoadAdapter(folder, c, true)
	if err != nil {
		t.Fatal(err)
	}
	second := adaptedEngine(t, c, &saved, 1)
	if tensors, steps, err = checkpoint.LoadOptimizer(folder); err != nil {
		t.Fatal(err)
	}
	if err := second.LoadOptimizerState(tensors, steps); err != nil {
		t.Fatal(err)
	}
	trainSteps(t, second, batch, 2)
	if digest(second.Weights()) != digest(straight.Weights()) {
		t.Error("the adapters differ")
	}
}

func TestAdapterOfAnotherShape(t *testing.T) {
	c := tinyConfig()
	a := loudAdapter(t, c, everywhere())
	a.Tensors = a.Tensors[1:]
	if _, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Adapter: a}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a missing tensor: %v", err)
	}
	a.Rank = 0
	if _, err := New(policy.InMemory(c, policytest.LoudWeights(t, c)), Options{Adapter: a}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("rank 0: %v", err)
	}
}

// A policy with its adapter merged gives the log-probabilities of the two
// apart, within rounding.
func TestMergedAndUnmergedAgree(t *testing.T) {
	c := tinyConfig()
	dir := t.TempDir()
	base, adapted, merged := filepath.Join(dir, "base"), filepath.Join(dir, "adapter"), filepath.Join(dir, "merged")
	for _, folder := range []string{base, adapted, merged} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	adapter := loudAdapter(t, c, everywhere())
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
