package cpu

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// With products in bfloat16 log-probabilities and gradients are those in float32 but
// for the rounding of inputs: a bfloat16 has 8 bits, so a product of two is off by up to
// 2⁻⁸ of itself, and sums of many by less. An engine of rounded weights has the same
// weights rounded again.
func TestBFloat16ProductsAreNearFloat32(t *testing.T) {
	t.Parallel()
	for _, c := range []policy.Config{tinyConfig(), normedConfig()} {
		weights, err := policy.Init(c, 3)
		if err != nil {
			t.Fatal(err)
		}
		batch := policytest.Batch(c, 3, 40, 7, 65)
		var logProbs [2][]float32
		var grads [2][]policy.Tensor
		for i, compute := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
			e, err := New(policy.InMemory(c, weights), Options{Threads: 1, Train: true, Compute: compute})
			if err != nil {
				t.Fatal(err)
			}
			logProbs[i], _ = forward(t, e, batch, policy.Sampling{Temperature: 1})
			if err := e.Backward(policy.Coefficients{LogProb: policytest.Coefficients(batch, 1)}); err != nil {
				t.Fatal(err)
			}
			grads[i] = e.Gradients()
			for j, w := range e.Weights() {
				if !policytest.SameBits(w.Data, weights[j].Data) {
					t.Errorf("%s: the weights of %s are not what was loaded", compute, w.Name)
				}
			}
		}
		if policytest.SameBits(logProbs[0], logProbs[1]) {
			t.Error("nothing is rounded")
		}
		for i, want := range logProbs[0] {
			if d := math.Abs(float64(want - logProbs[1][i])); d > 0.01 {
				t.Errorf("the log-probability of token %d is %g off", i, d)
			}
		}
		for i, g := range grads[0] {
			var off, norm float64
			for j, x := range g.Data {
				off += math.Pow(float64(x-grads[1][i].Data[j]), 2)
				norm += math.Pow(float64(x), 2)
			}
			if share := math.Sqrt(off / norm); share > 0.02 {
				t.Errorf("the gradient of %s is off by %.4f of its length", g.Name, share)
			}
		}
	}
}
