package cpu

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
)

// Sequences that go on from one trunk have the log-probabilities and entropies
// that they have when each is spelt out, to the last bit, and the gradients of
// weights that they add up to, whatever the threads and chunks.
func TestTrunks(t *testing.T) {
	for name, c := range map[string]policy.Config{"odd": tinyConfig(), "even": evenConfig(), "normed": normedConfig()} {
		c.MaxPositionEmbeddings = max(c.MaxPositionEmbeddings, 400)
		weights := policytest.LoudWeights(t, c)
		families := []policytest.Family{
			{Trunk: 3, Branches: []int{5, 1, 2}},
			{Trunk: 9},
			{Trunk: 70, Branches: []int{65, 3, 130, 8}},
			{Trunk: 1, Branches: []int{4}},
			{Branches: []int{6, 7}},
			{Trunk: 20, Branches: []int{0, 3}},
		}
		shared, apart, places := policytest.BatchOfFamilies(c, 1, families...)
		s := policy.Sampling{Temperature: 0.9}
		one := newEngine(t, c, weights, 1)
		wantLogProbs, wantEntropy := forward(t, one, apart, s)
		ofLogProb, ofEntropy := policytest.Coefficients(apart, 1), policytest.Coefficients(apart, 2)
		if err := one.Backward(policy.Coefficients{LogProb: ofLogProb, Entropy: ofEntropy}); err != nil {
			t.Fatal(err)
		}
		want := cloned(one.Gradients())
		var first []policy.Tensor
		for _, variant := range []struct {
			name           string
			threads, chunk int
		}{{"one thread", 1, 0}, {"three threads", 3, 0}, {"chunks", 2, 40}} {
			e := newEngine(t, c, weights, variant.threads)
			if variant.chunk > 0 {
				e.limits.chunkTokens, e.limits.sparseTokens = variant.chunk, 0
				if got := len(e.divide(shared)); got != 4 {
					t.Errorf("%s: %d chunks, want 4: 11+9, 276, 5+13, 23", name, got)
				}
			}
			logProbs, entropy := forward(t, e, shared, s)
			dLogProb, dEntropy := make([]float32, len(shared.TokenIDs)), make([]float32, len(shared.TokenIDs))
			for _, p := range places {
				if logProbs[p[0]] != wantLogProbs[p[1]] || entropy[p[0]] != wantEntropy[p[1]] {
					t.Fatalf("%s, %s: token %d has log-probability %v and entropy %v, apart %v and %v", name, variant.name,
						p[0], logProbs[p[0]], entropy[p[0]], wantLogProbs[p[1]], wantEntropy[p[1]])
				}
				dLogProb[p[0]], dEntropy[p[0]] = ofLogProb[p[1]], ofEntropy[p[1]]
			}
			if err := e.Backward(policy.Coefficients{LogProb: dLogProb, Entropy: dEntropy}); err != nil {
				t.Fatal(err)
			}
			got := e.Gradients()
			for i, g := range got {
				exact := make([]float64, len(g.Data))
				for j := range exact {
					exact[j] = float64(want[i].Data[j])
				}
				if d := difference(g.Data, exact); d > 2e-5 {
					t.Errorf("%s, %s: gradient of %s is off by %g of its largest", name, variant.name, g.Name, d)
				}
				if first != nil && !sameBits(g.Data, first[i].Data) {
					t.Errorf("%s, %s: gradient of %s has other bits", name, variant.name, g.Name)
				}
			}
			if first == nil {
				first = cloned(got)
			}
		}
	}
}

func cloned(tensors []policy.Tensor) []policy.Tensor {
	var copies []policy.Tensor
	for _, t := range tensors {
		copies = append(copies, policy.Tensor{Name: t.Name, Data: append([]float32(nil), t.Data...)})
	}
	return copies
}

func TestBadTrunks(t *testing.T) {
	c := tinyConfig()
	e := newEngine(t, c, policytest.LoudWeights(t, c), 1)
	for name, trunks := range map[string][]int32{
		"itself":        {0, -1, -1},
		"a later one":   {1, -1, -1},
		"not its own":   {-1, -1, 0},
		"of a trunk":    {-1, 0, 1},
		"too few":       {-1, 0},
		"none of these": {-1, 3, -1},
	} {
		batch := policytest.Batch(c, 1, 3, 3, 3)
		batch.Trunks = trunks
		if err := e.Forward(batch, policy.Sampling{Temperature: 1}, make([]float32, 9), make([]float32, 9)); err == nil {
			t.Errorf("a sequence that goes on from %s is taken", name)
		}
	}
	long := policytest.Batch(c, 1, c.MaxPositionEmbeddings, 2)
	long.Trunks = []int32{-1, 0}
	n := len(long.TokenIDs)
	if err := e.Forward(long, policy.Sampling{Temperature: 1}, make([]float32, n), make([]float32, n)); err == nil {
		t.Error("more positions than the policy has are taken")
	}
}
