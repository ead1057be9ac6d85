//go:build cgo && linux

package cuda_test

import (
	"context"
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cpu"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// core says whether a family of models is one of the two that emulated kernels take in
// full: the others then take what costs less.
func core(name string) bool {
	return !policytest.Emulated() || name == "qwen2 tied" || name == "qwen3 untied"
}

// small is a model of odd sizes: widths that fill no vector and no tile.
func small(change func(c *policy.Config)) policy.Config {
	c := policytest.Tiny()
	if change != nil {
		change(&c)
	}
	return c
}

// tuned are weights for bfloat16: rounded, and not so loud that rounding is all
// that is left of a log-probability.
func tuned(t testing.TB, c policy.Config) []policy.Tensor {
	t.Helper()
	weights := policytest.Weights(t, c, 0.05)
	for _, w := range weights {
		safetensors.BF16.Round(w.Data)
	}
	return weights
}

// budgets have room for the tests' batches in one pass.
func budgets(change func(b *cuda.Budgets)) cuda.Budgets {
	b := cuda.Budgets{
		PassTokens: 512, PassSequences: 32, HeadTokens: 48, Slots: 5, CachePages: 24, PrefillTokens: 96,
	}
	if change != nil {
		change(&b)
	}
	return b
}

func open(t testing.TB, c policy.Config, weights []policy.Tensor, options cuda.Options, b cuda.Budgets) *cuda.Engine {
	t.Helper()
	options.Library = policytest.Library(t)
	e, err := cuda.OpenWith(policy.InMemory(c, weights), options, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Err(); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func openCPU(t testing.TB, c policy.Config, weights []policy.Tensor, options cpu.Options) *cpu.Engine {
	t.Helper()
	e, err := cpu.New(policy.InMemory(c, weights), options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func forward(t testing.TB, e policy.Scorer, batch policy.Batch, s policy.Sampling) (logProbs, entropy []float32) {
	t.Helper()
	logProbs, entropy = make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
	if err := e.Forward(batch, s, logProbs, entropy); err != nil {
		t.Fatal(err)
	}
	return logProbs, entropy
}

func backward(t testing.TB, e policy.Trainer, c policy.Coefficients) {
	t.Helper()
	if err := e.Backward(c); err != nil {
		t.Fatal(err)
	}
}

func generate(t testing.TB, e policy.Sampler, requests []policy.Request) []policy.Completion {
	t.Helper()
	completions, err := e.Generate(context.Background(), requests)
	if err != nil {
		t.Fatal(err)
	}
	return completions
}

// difference is the largest |a-b| relative to the largest |b|.
func difference(a, b []float32) float64 {
	worst, scale := 0.0, 1e-30
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		worst, scale = max(worst, d), max(scale, math.Abs(float64(b[i])))
	}
	return worst / scale
}

// closeTensors compares tensors of the same names.
func closeTensors(t *testing.T, what string, got, want []policy.Tensor, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d tensors, want %d", what, len(got), len(want))
	}
	for i, g := range got {
		if g.Name != want[i].Name {
			t.Fatalf("%s: tensor %d is %q, want %q", what, i, g.Name, want[i].Name)
		}
		if d := difference(g.Data, want[i].Data); d > tolerance {
			t.Errorf("%s of %s differs by %.2g, more than %.2g", what, g.Name, d, tolerance)
		}
	}
}

func sameTensors(t *testing.T, what string, got, want []policy.Tensor) {
	t.Helper()
	for i, g := range got {
		if g.Name != want[i].Name || !policytest.SameBits(g.Data, want[i].Data) {
			t.Errorf("%s: the bits of %s differ", what, g.Name)
		}
	}
}

func TestLibraryVariable(t *testing.T) {
	if policytest.LibraryVariable != cuda.LibraryVariable {
		t.Errorf("the tests look at %s, the engine at %s", policytest.LibraryVariable, cuda.LibraryVariable)
	}
}
