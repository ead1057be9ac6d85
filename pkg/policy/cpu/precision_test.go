package cpu

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// precisions are the ways to hold weights and optimizer state.
var precisions = map[string]Options{
	"float32":                                  {},
	"bfloat16 and float32 masters":             {DType: safetensors.BF16},
	"bfloat16 and bfloat16 state":              {DType: safetensors.BF16, State: safetensors.BF16},
	"float16 and float32 masters":              {DType: safetensors.F16},
	"float32 and bfloat16 moments":             {State: safetensors.BF16},
	"float16 with masters, bfloat16 moments":   {DType: safetensors.F16, State: safetensors.BF16},
	"as the source has it, each in a way":      {},
	"as the source has it, and bfloat16 state": {State: safetensors.BF16},
	"bfloat16 products":                        {Compute: safetensors.BF16},
	"bfloat16 weights, state and products":     {DType: safetensors.BF16, State: safetensors.BF16, Compute: safetensors.BF16},
	"float16 and bfloat16 products":            {DType: safetensors.F16, Compute: safetensors.BF16},
	"as the source has it, bfloat16 products":  {Compute: safetensors.BF16},
}

// precise makes an engine of loud weights. In two of the precisions, tensors
// that are multiplied by together differ in their types.
func precise(t testing.TB, c policy.Config, precision string, threads int, train bool) *Engine {
	t.Helper()
	weights := policytest.LoudWeights(t, c)
	if o := precisions[precision]; strings.HasPrefix(precision, "as the source") || o.State != "" && o.DType == "" {
		for i := range weights {
			weights[i].DType = []safetensors.DType{safetensors.BF16, safetensors.F32, safetensors.F16}[i*i%3]
			weights[i].DType.Round(weights[i].Data)
		}
	}
	o := precisions[precision]
	o.Threads, o.Train = threads, train
	e, err := New(policy.InMemory(c, weights), o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// eachPrecision runs f for all of them.
func eachPrecision(t *testing.T, f func(t *testing.T, precision string)) {
	for precision := range precisions {
		t.Run(precision, func(t *testing.T) { f(t, precision) })
	}
}

// An engine of bfloat16 weights computes the same bits as one in float32 that
// is given the rounded values, and writes these values.
func TestRoundedWeights(t *testing.T) {
	t.Parallel()
	for _, c := range []policy.Config{tinyConfig(), normedConfig()} {
		for _, dtype := range []safetensors.DType{safetensors.BF16, safetensors.F16} {
			weights := policytest.LoudWeights(t, c)
			half, err := New(policy.InMemory(c, weights), Options{Threads: 2, Train: true, DType: dtype})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range weights {
				dtype.Round(w.Data)
			}
			full := newEngine(t, c, weights, 1)
			for i, w := range half.Weights() {
				if w.DType != dtype || !policytest.SameBits(w.Data, full.Weights()[i].Data) {
					t.Fatalf("%s: %s is not rounded", dtype, w.Name)
				}
			}
			batch := policytest.Batch(c, 3, 40, 7, 65)
			s := policy.Sampling{Temperature: 0.8}
			want, _ := forward(t, full, batch, s)
			got, _ := forward(t, half, batch, s)
			if !policytest.SameBits(got, want) {
				t.Fatalf("%s: log-probabilities differ from those of rounded weights", dtype)
			}
			for _, e := range []*Engine{half, full} {
				if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}); err != nil {
					t.Fatal(err)
				}
			}
			for i, g := range half.Gradients() {
				if !policytest.SameBits(g.Data, full.Gradients()[i].Data) {
					t.Fatalf("%s: the gradient of %s differs from that of rounded weights", dtype, g.Name)
				}
			}
		}
	}
}

// The sampler's log-probabilities are the learner's in every precision, after
// a step too, from whatever engine.
func TestSamplerAndLearnerAgreeInAnyPrecision(t *testing.T) {
	t.Parallel()
	eachPrecision(t, func(t *testing.T, precision string) {
		for _, c := range []policy.Config{tinyConfig(), normedConfig()} {
			learner := precise(t, c, precision, 2, true)
			trainSteps(t, learner, policytest.Batch(c, 2, 20, 24), 1)
			sampler, err := New(policy.InMemory(c, learner.Weights()), Options{Threads: 3, Compute: precisions[precision].Compute})
			if err != nil {
				t.Fatal(err)
			}
			s := policy.Sampling{Temperature: 0.8, TopP: 0.95}
			requests := policytest.Requests(c, 5, 16, 80, s)
			completions := generate(t, sampler, requests)
			batch := policytest.AsBatch(requests, completions)
			for _, e := range []*Engine{learner, sampler} {
				logProbs, _ := forward(t, e, batch, s)
				for i, r := range requests {
					from := int(batch.Offsets[i]) + len(r.Prompt)
					if !policytest.SameBits(completions[i].LogProbs, logProbs[from:from+len(completions[i].LogProbs)]) {
						t.Fatalf("response %d has other log-probabilities when sampled than when learned", i)
					}
				}
			}
			if diff := cmp.Diff(completions, generate(t, learner, requests)); diff != "" {
				t.Fatalf("the learner samples otherwise: %s", diff)
			}
		}
	})
}

// preciseDigest is what three steps of training and sampling give.
func preciseDigest(t *testing.T, c policy.Config, precision string, threads int) string {
	t.Helper()
	e := precise(t, c, precision, threads, true)
	trainSteps(t, e, policytest.Batch(c, 2, 20, 3, 65, 24), 3)
	tensors, _ := policytest.State(t, e)
	return digest(e.Weights()) + digest(tensors) + fmt.Sprint(generate(t, e, policytest.Requests(c, 2, 6, 80, policy.Sampling{Temperature: 1})))
}

func TestPrecisionIgnoresThreadsAndInstructionSet(t *testing.T) {
	t.Parallel()
	c := normedConfig()
	eachPrecision(t, func(t *testing.T, precision string) {
		want, threads := preciseDigest(t, c, precision, 1), 3
		for isa := range vec.EachISA {
			if got := preciseDigest(t, c, precision, threads); got != want {
				t.Errorf("%s with %d threads differs", isa, threads)
			}
			threads = 4 - threads
		}
	})
}

// Four steps at once, and two, saved and loaded, and two more: the same bits of
// weights and state, in every precision.
func TestPrecisionGoesOn(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	batch := policytest.Batch(c, 2, 20, 24)
	eachPrecision(t, func(t *testing.T, precision string) {
		straight := precise(t, c, precision, 1, true)
		trainSteps(t, straight, batch, 4)
		first := precise(t, c, precision, 2, true)
		trainSteps(t, first, batch, 2)
		folder := t.TempDir()
		if err := checkpoint.Save(folder, c, first.Weights()); err != nil {
			t.Fatal(err)
		}
		state, steps := first.OptimizerState()
		if err := checkpoint.SaveOptimizer(folder, state, steps); err != nil {
			t.Fatal(err)
		}
		source, err := checkpoint.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		options := precisions[precision]
		options.Threads, options.Train = 3, true
		second, err := New(source, options)
		if err != nil {
			t.Fatal(err)
		}
		kept := must.Get(checkpoint.OpenState(folder, nil))(t)
		must.Do(t, second.LoadOptimizerState(kept, kept.Steps))
		must.Do(t, kept.Close())
		trainSteps(t, second, batch, 2)
		if digest(second.Weights()) != digest(straight.Weights()) {
			t.Error("the weights differ")
		}
		got, _ := policytest.State(t, second)
		want, _ := policytest.State(t, straight)
		if digest(got) != digest(want) {
			t.Error("the state differs")
		}
	})
}

// A state of another precision, or of other weights, is refused.
func TestStateOfAnotherPolicy(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	batch := policytest.Batch(c, 2, 20, 24)
	mastered := precise(t, c, "bfloat16 and float32 masters", 1, true)
	trainSteps(t, mastered, batch, 1)
	withMasters, _ := policytest.State(t, mastered)
	bare, _ := policytest.State(t, precise(t, c, "bfloat16 and bfloat16 state", 1, true))
	for name, test := range map[string]struct {
		precision string
		state     policy.StateInMemory
	}{
		"no masters":          {"bfloat16 and float32 masters", bare},
		"masters of float32":  {"float32", withMasters},
		"masters of bf16":     {"bfloat16 and bfloat16 state", withMasters},
		"masters of the past": {"bfloat16 and float32 masters", withMasters},
	} {
		e := precise(t, c, test.precision, 2, true)
		if err := e.LoadOptimizerState(test.state, 1); exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := mastered.LoadOptimizerState(withMasters, 1); err != nil {
		t.Errorf("its own state: %v", err)
	}
}

// Training reaches the same loss in every precision, so that masters and random
// rounding keep steps that are smaller than a bfloat16's last place.
func TestOverfitInAnyPrecision(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	weights, err := policy.Init(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range precisions {
		options.Train, options.Threads = true, 2
		e, err := New(policy.InMemory(c, weights), options)
		if err != nil {
			t.Fatal(err)
		}
		losses := trainSteps(t, e, policytest.Batch(c, 2, 20, 24), 150)
		if last := losses[len(losses)-1]; last > 0.1 {
			t.Errorf("%s: loss went from %.3f to %.3f, want below 0.1", name, losses[0], last)
		}
	}
}

// The moments of a constant gradient: with β₂ = 0.999 the second moment moves by
// a thousandth of its distance, less than half of a bfloat16's last place, so
// rounding to nearest would never bring it to its limit. Rounded randomly, its
// mean over many elements follows the exact value.
func TestRandomRoundingFollowsSmallSteps(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	e := precise(t, c, "bfloat16 and bfloat16 state", 1, true)
	for i := range e.grads.data {
		e.grads.data[i] = 1
	}
	for _, w := range e.trained.weights {
		w.blank = false
	}
	const steps = 400
	for step := range steps {
		if _, err := e.Step(policy.AdamW{
			LearningRate: 1e-6, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Rounding: rng.New(9, rng.PurposeRounding, step, "", 0),
		}); err != nil {
			t.Fatal(err)
		}
	}
	var second []float32
	tensors, _ := policytest.State(t, e)
	for _, tensor := range tensors[len(e.trained.tensors) : 2*len(e.trained.tensors)] {
		second = append(second, tensor.Data...)
	}
	mean := 0.0
	for _, v := range second {
		mean += float64(v) / float64(len(second))
	}
	// 1 - 0.999^400 = 0.3298. The error of a mean of 9,000 elements, each some
	// 0.01 off, is below 0.001.
	if want := 1 - math.Pow(0.999, steps); math.Abs(mean-want) > 0.002 {
		t.Errorf("the second moment's mean is %.4f, want %.4f", mean, want)
	}
}

// The gradients of a batch have the same bits however it is divided among
// passes at the ends of sequences, and however many of its activations and
// logits are kept.
func TestGradientsIgnoreDivision(t *testing.T) {
	t.Parallel()
	tied, untied, normed := tinyConfig(), tinyConfig(), normedConfig()
	untied.TieWordEmbeddings = false
	for name, c := range map[string]policy.Config{"tied": tied, "untied": untied, "normed": normed} {
		for _, precision := range []string{"float32", "bfloat16 and float32 masters"} {
			t.Run(name+" "+precision, func(t *testing.T) {
				whole, divided := precise(t, c, precision, 1, true), precise(t, c, precision, 2, true)
				rapid.Check(t, func(rt *rapid.T) {
					lengths := rapid.SliceOfN(rapid.IntRange(0, 70), 1, 6).Draw(rt, "lengths")
					batch := policytest.Batch(c, uint64(rapid.IntRange(0, 1000).Draw(rt, "seed")), lengths...)
					gradients(t, whole, batch, policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}, len(lengths))
					divided.limits = limits{
						chunkTokens:  rapid.IntRange(1, 100).Draw(rt, "chunk tokens"),
						sparseTokens: rapid.IntRange(0, 300).Draw(rt, "sparse tokens"),
						headRows:     rapid.IntRange(1, 40).Draw(rt, "head rows"),
						keptLogits:   rapid.IntRange(0, 3000).Draw(rt, "kept logits"),
					}
					per := rapid.IntRange(1, len(lengths)).Draw(rt, "sequences a pass")
					gradients(t, divided, batch, policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}, per)
					for i, g := range divided.Gradients() {
						if !policytest.SameBits(g.Data, whole.Gradients()[i].Data) {
							rt.Fatalf("the gradient of %s differs", g.Name)
						}
					}
				})
			})
		}
	}
}

// gradients runs a batch forward and backward, a number of sequences at a time.
func gradients(t *testing.T, e *Engine, batch policy.Batch, coef policy.Coefficients, per int) {
	t.Helper()
	e.ZeroGradients()
	for s := 0; s < len(batch.Offsets)-1; s += per {
		end := min(len(batch.Offsets)-1, s+per)
		from, to := batch.Offsets[s], batch.Offsets[end]
		part := policy.Batch{TokenIDs: batch.TokenIDs[from:to], Targets: batch.Targets[from:to]}
		for _, offset := range batch.Offsets[s : end+1] {
			part.Offsets = append(part.Offsets, offset-from)
		}
		forward(t, e, part, policy.Sampling{Temperature: 1})
		if err := e.Backward(policy.Coefficients{LogProb: coef.LogProb[from:to], Entropy: coef.Entropy[from:to]}); err != nil {
			t.Fatal(err)
		}
	}
}

// allocated is the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// With a vocabulary of 151,936 the logits of 700 targets would take 425 MB;
// what a pass forward and backward allocates stays far below.
func TestHeadNeverHoldsAllLogits(t *testing.T) {
	c := tinyConfig()
	c.VocabSize = 151936
	c.HiddenSize, c.MaxPositionEmbeddings = 8, 1000
	e := precise(t, c, "bfloat16 and float32 masters", 2, true)
	batch := policytest.Batch(c, 1, 500, 550)
	targets := 0
	for _, target := range batch.Targets {
		if target {
			targets++
		}
	}
	bytes := allocated(func() {
		gradients(t, e, batch, policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}, 2)
	})
	if all := 4 * targets * c.VocabSize; targets < 650 || bytes > uint64(all)/5 {
		t.Errorf("%d MB were allocated; the logits of all %d targets take %d MB", bytes>>20, targets, all>>20)
	}
}

// An engine that only samples holds bfloat16 weights in two bytes each, and
// reads them from its source piece by piece.
func TestInferenceHoldsNoFloat32Copy(t *testing.T) {
	c := tinyConfig()
	c.VocabSize, c.HiddenSize, c.IntermediateSize = 4096, 256, 1024
	weights, err := policy.Init(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	parameters := policy.ParameterCount(c)
	for _, dtype := range []safetensors.DType{safetensors.BF16, safetensors.F32} {
		bytes := allocated(func() {
			if _, err := New(policy.InMemory(c, weights), Options{Threads: 1, DType: dtype}); err != nil {
				t.Fatal(err)
			}
		})
		// Two units of scratch, vectors and the sizes of panels come on top.
		if room := uint64(int(parameters)*dtype.Bytes()) * 12 / 10; bytes > room+2*4*unitElements {
			t.Errorf("%s: %d kB were allocated for %d thousand parameters", dtype, bytes>>10, parameters/1000)
		}
	}
}

// The activations of a long sequence are bounded: those before each block, and
// all of one block.
func TestLongSequencesKeepLittle(t *testing.T) {
	c := tinyConfig()
	c.NumHiddenLayers, c.HiddenSize, c.IntermediateSize, c.MaxPositionEmbeddings = 24, 64, 256, 2048
	const n = 2048
	e := precise(t, c, "float32", 2, true)
	dense := layerBytesPerToken(c) * c.NumHiddenLayers * n
	e.limits.chunkTokens = 500
	batch := policytest.Batch(c, 1, n)
	bytes := allocated(func() {
		gradients(t, e, batch, policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}, 1)
	})
	if bytes > uint64(dense)/3 {
		t.Errorf("%d MB were allocated; all activations take %d MB", bytes>>20, dense>>20)
	}
}
