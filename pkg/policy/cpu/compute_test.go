package cpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

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

// Gradients with products in bfloat16 against float64 that rounds what products read in
// the same places: off by less than a fifth of what they are off without that rounding.
// What is left are values in the middle of two bfloat16 ones, which float32 and float64
// round to different sides.
func TestBFloat16AgainstRoundedReference(t *testing.T) {
	t.Parallel()
	for _, c := range []policy.Config{tinyConfig(), normedConfig()} {
		weights := policytest.LoudWeights(t, c)
		e, err := New(policy.InMemory(c, weights), Options{Threads: 1, Train: true, Compute: safetensors.BF16})
		if err != nil {
			t.Fatal(err)
		}
		// 70 and 130 tokens go over several blocks of queries, and of keys.
		batch, s := policytest.Batch(c, 3, 1, 7, 70, 0, 2, 130), policy.Sampling{Temperature: 1}
		coef, ofEntropy := policytest.Coefficients(batch, 1), policytest.Coefficients(batch, 2)
		forward(t, e, batch, s)
		if err := e.Backward(policy.Coefficients{LogProb: coef, Entropy: ofEntropy}); err != nil {
			t.Fatal(err)
		}
		off := map[bool]float64{} // of all gradients, by whether the reference rounds
		for _, round := range []bool{false, true} {
			r := newReference(c, weights)
			r.round = round
			r.run(batch, s, coef, ofEntropy)
			for _, g := range e.Gradients() {
				var apart, length float64
				for i, want := range r.tensors[g.Name].g {
					apart += math.Pow(float64(g.Data[i])-want, 2)
					length += want * want
				}
				share := math.Sqrt(apart / length)
				if round && share > 0.01 {
					t.Errorf("the gradient of %s is off by %.2g of its length", g.Name, share)
				}
				off[round] += share
			}
		}
		if off[true] > off[false]/5 {
			t.Errorf("gradients are off by %.2g of their lengths in sum, by %.2g without rounding", off[true], off[false])
		}
	}
}

// What attention mixes has the same bits for a sequence that goes on from a shared prefix,
// wherever in a block of keys that ends, and spelt out. The log-probabilities after it
// hardly tell: what is mixed is rounded for the next product.
func TestTrunksEndAnywhereInABlock(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	weights := policytest.LoudWeights(t, c)
	rapid.Check(t, func(rt *rapid.T) {
		group := policytest.PrefixGroup{
			Prefix: rapid.IntRange(1, 100).Draw(rt, "prefix"), Branches: rapid.SliceOfN(rapid.IntRange(1, 100), 1, 3).Draw(rt, "branches"),
		}
		shared, apart, places := policytest.BatchOfPrefixGroups(c, 1, group)
		var mixed [2][]float32
		for i, batch := range []policy.Batch{shared, apart} {
			e, err := New(policy.InMemory(c, weights), Options{Threads: 1, Train: true, Compute: safetensors.BF16})
			if err != nil {
				rt.Fatal(err)
			}
			forward(t, e, batch, policy.Sampling{Temperature: 1})
			mixed[i] = e.pass.layers[0].mixed
		}
		width := c.QueryWidth()
		for _, p := range places {
			if a, b := mixed[0][p[0]*width:(p[0]+1)*width], mixed[1][p[1]*width:(p[1]+1)*width]; !policytest.SameBits(a, b) {
				rt.Fatalf("token %d: with the prefix %v, spelt out %v", p[0], a, b)
			}
		}
	})
}
