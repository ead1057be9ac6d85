package policytest

import (
	"context"
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Options are what Conform asks of an engine, as package backend means them.
type Options struct {
	Train        bool
	DType, State safetensors.DType // empty is F32
	Adapter      *policy.Adapter
	ValueHead    []float32 // (hidden)
}

// Backend is what Conform tests. Its engines have room for the keys and values
// of 1,200 tokens, and for two partial sums of gradients.
type Backend struct {
	// Ways name how an engine may be opened that changes no bit: threads, the
	// size of a pass, what is computed again. The first one has room for
	// sequences of 200 tokens and batches of 500 in one pass.
	Ways []string
	Open func(t testing.TB, way string, source policy.Source, options Options) (*policy.Engine, error)
	// Slow leaves out the shapes and types that add least.
	Slow bool
	// Rounds says that products round their inputs. Finite differences do not apply
	// then, and gradients depend on how a batch is divided among passes.
	Rounds bool
	// Takes says which of the shapes of Composed the backend takes; nil for all.
	Takes func(c policy.Config) bool
}

// Conform tests that a backend does what [policy.Engine] says: one
// log-probability for sampler and learner, the same bits in any company and any
// way, gradients that are those of its own forward pass, AdamW, state that is
// saved and goes on, and errors of the right kind.
func Conform(t *testing.T, b Backend) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b Backend)
	}{
		{"tensors", testTensors},
		{"empty batches", testEmptyBatches},
		{"wrong batches", testWrongBatches},
		{"one log-probability", testOneLogProbability},
		{"company", testCompany},
		{"shared prefixes", testSharedPrefixes},
		{"finish reasons", testFinishReasons},
		{"wrong requests", testWrongRequests},
		{"weights that are not finite", testDiverged},
		{"finite differences", testFiniteDifferences},
		{"gradients add up", testAccumulation},
		{"partial sums", testPartialSums},
		{"wrong training", testWrongTraining},
		{"AdamW", testAdamW},
		{"skipped steps", testSkippedSteps},
		{"division", testDivision},
		{"saved state", testSavedState},
		{"adapter", testAdapter},
		{"value head", testValueHead},
		{"value head with settings of its own", testOwnValueHead},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b) })
	}
}

// optimizer has every part of AdamW at work.
var optimizer = policy.AdamW{LearningRate: 3e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxGradNorm: 1}

// plain opens an engine in the first way.
func (b Backend) plain(t testing.TB, c policy.Config, weights []policy.Tensor, options Options) *policy.Engine {
	t.Helper()
	return b.open(t, b.Ways[0], c, weights, options)
}

func (b Backend) open(t testing.TB, way string, c policy.Config, weights []policy.Tensor, options Options) *policy.Engine {
	t.Helper()
	e, err := b.Open(t, way, policy.InMemory(c, weights), options)
	if err != nil {
		t.Fatalf("opening an engine, %s: %v", way, err)
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

// precision is a type of weights, with weights that suit it: in bfloat16 not so
// loud that rounding is all that is left of a log-probability.
type precision struct {
	dtype   safetensors.DType
	weights []policy.Tensor
}

func precisions(t testing.TB, c policy.Config) []precision {
	t.Helper()
	half := Weights(t, c, 0.05)
	for _, w := range half {
		safetensors.BF16.Round(w.Data)
	}
	return []precision{{safetensors.F32, LoudWeights(t, c)}, {safetensors.BF16, half}}
}

// must ends a test that cannot go on.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forward returns one element for each token of the batch.
func forward(t testing.TB, e policy.Scorer, batch policy.Batch, s policy.Sampling) (logProbs, entropy []float32) {
	t.Helper()
	logProbs, entropy = make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
	must(t, e.Forward(batch, s, logProbs, entropy))
	return logProbs, entropy
}

func backward(t testing.TB, e policy.Trainer, c policy.Coefficients) {
	t.Helper()
	must(t, e.Backward(c))
}

func generate(t testing.TB, e policy.Sampler, requests ...policy.Request) []policy.Completion {
	t.Helper()
	completions, err := e.Generate(context.Background(), requests)
	must(t, err)
	return completions
}

// step takes one step of the optimizer.
func step(t testing.TB, e policy.Trainer, number int) policy.StepStats {
	t.Helper()
	settings := optimizer
	settings.Rounding = rng.New(7, rng.PurposeRounding, number, "", 0)
	stats, err := e.Step(settings)
	if err != nil || stats.Skipped {
		t.Fatalf("step %d: %+v, %v", number, stats, err)
	}
	return stats
}

// learn takes steps on one batch, from step number first on.
func learn(t testing.TB, e *policy.Engine, batch policy.Batch, first, steps int, ofValues bool) {
	t.Helper()
	given := policy.Coefficients{LogProb: Coefficients(batch, 1), Entropy: Coefficients(batch, 2)}
	if ofValues {
		given.Value = Coefficients(batch, 3)
	}
	for i := range steps {
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		e.ZeroGradients()
		backward(t, e, given)
		step(t, e, first+i)
	}
}

// SameBits compares float32 values by their bits.
func SameBits(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// sameTensors wants tensors of the same names and bits.
func sameTensors(t testing.TB, what string, got, want []policy.Tensor) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d tensors, want %d", what, len(got), len(want))
		return
	}
	for i, g := range got {
		if g.Name != want[i].Name || !SameBits(g.Data, want[i].Data) {
			t.Errorf("%s: %s has other bits", what, g.Name)
		}
	}
}

// difference is the largest |a-b| relative to the largest |b|.
func difference[T float32 | float64](a []float32, b []T) float64 {
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

// wantZeros wants every element of tensors to be 0.
func wantZeros(t testing.TB, what string, tensors []policy.Tensor) {
	t.Helper()
	for _, g := range tensors {
		for i, x := range g.Data {
			if x != 0 {
				t.Errorf("%s: %s[%d] is %g, want 0", what, g.Name, i, x)
				break
			}
		}
	}
}

// cloned copies tensors that an engine may change.
func cloned(tensors []policy.Tensor) []policy.Tensor {
	copies := make([]policy.Tensor, len(tensors))
	for i, w := range tensors {
		copies[i] = policy.Tensor{Name: w.Name, Shape: w.Shape, DType: w.DType, Data: append([]float32(nil), w.Data...)}
	}
	return copies
}
