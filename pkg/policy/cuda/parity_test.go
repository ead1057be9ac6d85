//go:build cgo && linux

package cuda_test

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cpu"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// In float32 both engines round at 6e-8 and add up in other orders: sums have a
// few hundred terms, and a block's result goes through a few dozen of them. The
// CPU engine is itself within 1e-5 and 1e-4 of a float64 reference.
const (
	closeValues    = 2e-5
	closeGradients = 2e-4
)

var adamW = policy.AdamW{LearningRate: 1e-3, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: 0.1, MaxGradNorm: 1}

// One forward and backward pass, and one and ten optimizer steps, against the
// CPU engine in float32.
func TestAgainstCPU(t *testing.T) {
	for name, c := range policytest.Families() {
		t.Run(name, func(t *testing.T) {
			weights := policytest.LoudWeights(t, c)
			gpu := open(t, c, weights, cuda.Options{Train: true}, budgets(nil))
			reference := openCPU(t, c, weights, cpu.Options{Threads: 1, Train: true})
			batch := policytest.Batch(c, 3, 1, 7, 70, 0, 2, 31)
			given := policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}
			s := policy.Sampling{Temperature: 0.8}
			steps := 10
			if !core(name) {
				steps = 1
			}
			for step := 1; step <= steps; step++ {
				logProbs, entropy := forward(t, gpu, batch, s)
				wantLogProbs, wantEntropy := forward(t, reference, batch, s)
				// Adam's first steps move each weight by the learning rate whatever its
				// gradient's size, so that rounding in gradients near zero grows.
				loose := 1.0
				if step > 1 {
					loose = 50
				}
				if d := difference(logProbs, wantLogProbs); d > loose*closeValues {
					t.Errorf("step %d: log-probabilities differ by %.2g", step, d)
				}
				if d := difference(entropy, wantEntropy); d > loose*closeValues {
					t.Errorf("step %d: entropies differ by %.2g", step, d)
				}
				for _, e := range []policy.Trainer{gpu, reference} {
					e.ZeroGradients()
					backward(t, e, given)
				}
				if step == 1 {
					closeTensors(t, "gradient", gpu.Gradients(), reference.Gradients(), closeGradients)
				}
				stats, err := gpu.Step(adamW)
				if err != nil {
					t.Fatal(err)
				}
				want, err := reference.Step(adamW)
				if err != nil {
					t.Fatal(err)
				}
				if d := stats.GradNorm/want.GradNorm - 1; d > loose*closeGradients || d < -loose*closeGradients || stats.Skipped || stats.Scale >= 1 {
					t.Errorf("step %d: %+v, want %+v", step, stats, want)
				}
				if step == 1 || step == steps {
					// A weight moves by at most about the learning rate a step.
					for i, w := range gpu.Weights() {
						for j, x := range w.Data {
							if d := float64(x - reference.Weights()[i].Data[j]); d > 0.3e-3 || d < -0.3e-3 {
								t.Fatalf("step %d: %s[%d] is %g, want %g", step, w.Name, j, x, reference.Weights()[i].Data[j])
							}
							if j > 200 {
								break
							}
						}
						if d := difference(w.Data, reference.Weights()[i].Data); d > 1e-3 {
							t.Errorf("step %d: weights of %s differ by %.2g", step, w.Name, d)
						}
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// Every way of sampling gives the CPU engine's log-probabilities, entropies and
// gradients. A logit that lies at the edge of the truncated support of top-p within
// rounding would fall on either side; with these weights none does.
func TestSamplingsAgainstCPU(t *testing.T) {
	c := small(nil)
	weights := policytest.LoudWeights(t, c)
	for name, s := range map[string]policy.Sampling{
		"greedy": {}, "hot": {Temperature: 1.7}, "top-k": {Temperature: 1, TopK: 5}, "top-p": {Temperature: 1.3, TopP: 0.6},
		"top-k and top-p": {Temperature: 0.9, TopK: 9, TopP: 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := open(t, c, weights, cuda.Options{Train: true}, budgets(nil))
			reference := openCPU(t, c, weights, cpu.Options{Threads: 1, Train: true})
			batch := policytest.Batch(c, 4, 40, 9)
			given := policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}
			logProbs, entropy := forward(t, gpu, batch, s)
			wantLogProbs, wantEntropy := forward(t, reference, batch, s)
			if d := difference(logProbs, wantLogProbs); d > closeValues {
				t.Errorf("log-probabilities differ by %.2g", d)
			}
			if d := difference(entropy, wantEntropy); d > closeValues {
				t.Errorf("entropies differ by %.2g", d)
			}
			backward(t, gpu, given)
			backward(t, reference, given)
			closeTensors(t, "gradient", gpu.Gradients(), reference.Gradients(), closeGradients)
		})
	}
}

// In bfloat16 activations are rounded at 2^-9 = 2e-3 of their size after every
// operation, in the CPU engine weights alone are: a log-probability then is
// within a few of these roundings of the largest, a gradient within a few more.
func TestBFloat16AgainstCPU(t *testing.T) {
	for name, c := range policytest.Families() {
		t.Run(name, func(t *testing.T) {
			weights := tuned(t, c)
			gpu := open(t, c, weights, cuda.Options{Train: true, DType: safetensors.BF16}, budgets(nil))
			reference := openCPU(t, c, weights, cpu.Options{Threads: 1, Train: true, DType: safetensors.BF16})
			batch := policytest.Batch(c, 3, 1, 7, 70, 2)
			s := policy.Sampling{Temperature: 1}
			logProbs, entropy := forward(t, gpu, batch, s)
			wantLogProbs, wantEntropy := forward(t, reference, batch, s)
			if d := difference(logProbs, wantLogProbs); d > 0.01 {
				t.Errorf("log-probabilities differ by %.2g", d)
			}
			if d := difference(entropy, wantEntropy); d > 0.01 {
				t.Errorf("entropies differ by %.2g", d)
			}
			given := policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2)}
			backward(t, gpu, given)
			backward(t, reference, given)
			closeTensors(t, "gradient", gpu.Gradients(), reference.Gradients(), 0.06)
			if _, err := gpu.Step(adamW); err != nil {
				t.Fatal(err)
			}
			if _, err := reference.Step(adamW); err != nil {
				t.Fatal(err)
			}
			tensors, steps := policytest.State(t, gpu)
			want, wantSteps := policytest.State(t, reference)
			if steps != 1 || wantSteps != 1 || len(tensors) != len(want) {
				t.Fatalf("%d tensors after %d steps, want %d after %d", len(tensors), steps, len(want), wantSteps)
			}
			for i, m := range tensors {
				if m.Name != want[i].Name || m.DType != want[i].DType {
					t.Errorf("state %d is %s %s, want %s %s", i, m.Name, m.DType, want[i].Name, want[i].DType)
				}
			}
		})
	}
}

// Heads of 64 and 128, which published policies have, go through attention's tiles for them:
// over more than two blocks of keys, against the CPU engine, which computes attention by
// another program.
func TestWideHeadsAgainstCPU(t *testing.T) {
	for _, width := range []int{64, 128} {
		for _, c := range []struct {
			dtype             safetensors.DType
			values, gradients float64
		}{{safetensors.F32, closeValues, closeGradients}, {safetensors.BF16, 0.01, 0.06}} {
			t.Run(fmt.Sprintf("%s %d", c.dtype, width), func(t *testing.T) {
				shape := small(func(c *policy.Config) {
					c.NumHiddenLayers, c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim, c.MaxPositionEmbeddings = 1, 2, 1, width, 256
				})
				weights := tuned(t, shape)
				gpu := open(t, shape, weights, cuda.Options{Train: true, DType: c.dtype}, budgets(nil))
				reference := openCPU(t, shape, weights, cpu.Options{Threads: 1, Train: true, DType: c.dtype})
				batch := policytest.Batch(shape, 3, 5, 150)
				s := policy.Sampling{Temperature: 1}
				logProbs, _ := forward(t, gpu, batch, s)
				want, _ := forward(t, reference, batch, s)
				if d := difference(logProbs, want); d > c.values {
					t.Errorf("log-probabilities differ by %.2g", d)
				}
				given := policy.Coefficients{LogProb: policytest.Coefficients(batch, 1)}
				backward(t, gpu, given)
				backward(t, reference, given)
				closeTensors(t, "gradient", gpu.Gradients(), reference.Gradients(), c.gradients)
			})
		}
	}
}

// A low-rank adapter with the value head is trained and the base is not; off,
// the engine is the base's.
func TestAdapterAgainstCPU(t *testing.T) {
	for name, c := range policytest.Families() {
		t.Run(name, func(t *testing.T) {
			weights := policytest.LoudWeights(t, c)
			adapter, err := policy.InitAdapter(c, policy.LoRA{Rank: 3, Alpha: 5, Targets: policy.LoRATargets()}, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range adapter.Tensors {
				stream := rng.New(6, rng.PurposeTest, 0, w.Name, 0)
				for i := range w.Data {
					w.Data[i] += 0.1 * float32(stream.Normal(uint64(i)))
				}
			}
			head := make([]float32, c.HiddenSize)
			for i := range head {
				head[i] = float32(i%5) / 8
			}
			gpu := open(t, c, weights, cuda.Options{Train: true, Adapter: &adapter, ValueHead: head}, budgets(nil))
			reference := openCPU(t, c, weights, cpu.Options{Threads: 1, Train: true, Adapter: &adapter, ValueHead: head})
			batch := policytest.Batch(c, 3, 1, 7, 70, 2)
			s := policy.Sampling{Temperature: 1}
			compare := func(what string) {
				t.Helper()
				logProbs, _ := forward(t, gpu, batch, s)
				want, _ := forward(t, reference, batch, s)
				if d := difference(logProbs, want); d > closeValues {
					t.Errorf("%s: log-probabilities differ by %.2g", what, d)
				}
				values, wantValues := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
				for e, dst := range map[policy.Scorer][]float32{gpu: values, reference: wantValues} {
					if err := e.Values(dst); err != nil {
						t.Fatal(err)
					}
				}
				if d := difference(values, wantValues); d > closeValues {
					t.Errorf("%s: values differ by %.2g", what, d)
				}
			}
			gpu.SetAdapter(false)
			reference.SetAdapter(false)
			compare("without the adapter")
			gpu.SetAdapter(true)
			reference.SetAdapter(true)
			compare("with the adapter")
			given := policy.Coefficients{LogProb: policytest.Coefficients(batch, 1), Entropy: policytest.Coefficients(batch, 2), Value: policytest.Coefficients(batch, 3)}
			for _, e := range []policy.Trainer{gpu, reference} {
				backward(t, e, given)
			}
			closeTensors(t, "gradient", gpu.Gradients(), reference.Gradients(), closeGradients)
			for _, e := range []policy.Trainer{gpu, reference} {
				if _, err := e.Step(adamW); err != nil {
					t.Fatal(err)
				}
			}
			closeTensors(t, "weights", gpu.Weights(), reference.Weights(), 1e-3)
		})
	}
}

// Greedy responses are the CPU engine's, token by token, in float32.
func TestGreedyAgainstCPU(t *testing.T) {
	for name, c := range policytest.Families() {
		t.Run(name, func(t *testing.T) {
			weights := policytest.LoudWeights(t, c)
			gpu := open(t, c, weights, cuda.Options{}, budgets(nil))
			reference := openCPU(t, c, weights, cpu.Options{Threads: 1})
			requests := policytest.Requests(c, 5, 6, 30, policy.Sampling{})
			got, want := generate(t, gpu, requests), generate(t, reference, requests)
			for i := range requests {
				if fmt.Sprint(got[i].TokenIDs, got[i].FinishReason) != fmt.Sprint(want[i].TokenIDs, want[i].FinishReason) {
					t.Errorf("request %d: got %v (%s), want %v (%s)", i, got[i].TokenIDs, got[i].FinishReason, want[i].TokenIDs, want[i].FinishReason)
				}
				if d := difference(got[i].LogProbs, want[i].LogProbs); d > closeValues {
					t.Errorf("request %d: log-probabilities differ by %.2g", i, d)
				}
			}
		})
	}
}
