package cpu

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
)

// Shares by hand: of probabilities .5, .2, .2, .1 the two largest are 0 and, of equal
// ones, the first, 1; divided by their sum .7 they are 5/7 and 2/7.
func TestChoiceOfExperts(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	for _, test := range []struct {
		name          string
		probabilities []float32
		normed        bool
		experts       []int32
		shares        []float32
	}{
		{"plain", []float32{0.1, 0.2, 0.5, 0.2}, false, []int32{1, 2}, []float32{0.2, 0.5}},
		{"ties", []float32{0.5, 0.2, 0.2, 0.1}, true, []int32{0, 1}, []float32{5. / 7, 2. / 7}},
		{"all equal", []float32{0.25, 0.25, 0.25, 0.25}, true, []int32{0, 1}, []float32{0.5, 0.5}},
		{"zeros", []float32{0, 0, 0, 1}, false, []int32{0, 3}, []float32{0, 1}},
		{"not a number", []float32{nan, 0.2, nan, 0.1}, false, []int32{1, 3}, []float32{0.2, 0.1}},
		{"no number", []float32{nan, nan, nan, nan}, false, []int32{0, 1}, []float32{nan, nan}},
	} {
		c := policy.Config{Experts: 4, ExpertsPerToken: 2, ExpertsNormed: test.normed}
		var r routing
		r.allocate(c, 1)
		copy(r.probabilities, test.probabilities)
		r.choose(c, 0)
		near := slices.EqualFunc(r.shares, test.shares, func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-7 || a != a && b != b })
		if !slices.Equal(r.experts, test.experts) || !near {
			t.Errorf("%s: experts %v with shares %v, want %v with %v", test.name, r.experts, r.shares, test.experts, test.shares)
		}
	}
}

// A sequence's log-probabilities depend neither on what else is in the batch nor on
// threads, and neither do gradients on threads or on how sequences are divided among
// passes: some experts get more rows than a block has, some none.
func TestExpertsIgnoreCompany(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := policytest.Composed()["qwen3-moe"]
		c.Experts = rapid.IntRange(1, 9).Draw(rt, "experts")
		c.ExpertsPerToken = rapid.IntRange(1, c.Experts).Draw(rt, "experts of a token")
		c.ExpertSize = rapid.IntRange(1, 40).Draw(rt, "expert size")
		c.ExpertsNormed = rapid.Bool().Draw(rt, "normed")
		if rapid.Bool().Draw(rt, "all layers") {
			c.Layers = nil
		}
		weights := policytest.LoudWeights(t, c)
		lengths := rapid.SliceOfN(rapid.IntRange(1, 150), 2, 4).Draw(rt, "lengths")
		batch := policytest.Batch(c, 1, lengths...)
		coefficients := policytest.Coefficients(batch, 1)
		whole := newEngine(t, c, weights, rapid.IntRange(1, 4).Draw(rt, "threads"))
		together, _ := forward(t, whole, batch, policy.Sampling{Temperature: 1})
		backward(t, whole, coefficients)
		parts := newEngine(t, c, weights, 1)
		for s := range lengths {
			alone, _ := forward(t, parts, policytest.Part(batch, s, s+1), policy.Sampling{Temperature: 1})
			from, to := batch.Offsets[s], batch.Offsets[s+1]
			if !policytest.SameBits(alone, together[from:to]) {
				rt.Fatalf("sequence %d of %v has other log-probabilities by itself", s, lengths)
			}
			backward(t, parts, coefficients[from:to])
		}
		sums := parts.Gradients()
		for i, g := range whole.Gradients() {
			if !policytest.SameBits(g.Data, sums[i].Data) {
				rt.Fatalf("the gradient of %s depends on how %v are divided", g.Name, lengths)
			}
		}
	})
}

func backward(t *testing.T, e *Engine, ofLogProb []float32) {
	t.Helper()
	if err := e.Backward(policy.Coefficients{LogProb: ofLogProb}); err != nil {
		t.Fatal(err)
	}
}
