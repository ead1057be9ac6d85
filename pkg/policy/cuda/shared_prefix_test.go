//go:build cgo && linux

package cuda_test

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cpu"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Sequences that go on from one shared prefix have the log-probabilities and entropies
// that they have when each is spelt out, to the last bit; and the gradients that
// they add up to, whose bits depend on nothing that the work is divided by but
// prefix groups.
func TestSharedPrefixes(t *testing.T) {
	groups := []policytest.PrefixGroup{
		{Prefix: 3, Branches: []int{5, 1, 2}},
		{Prefix: 9},
		{Prefix: 70, Branches: []int{65, 3}},
		{Prefix: 1, Branches: []int{4}},
		{Branches: []int{6, 7}},
		{Prefix: 20, Branches: []int{0, 3}},
	}
	for name, c := range map[string]policy.Config{
		"narrow heads": small(nil),
		"heads of 64":  small(func(c *policy.Config) { c.HeadDim = 64 }),
		"normed":       small(policytest.Normed),
	} {
		c.MaxPositionEmbeddings = max(c.MaxPositionEmbeddings, 160)
		shared, apart, places := policytest.BatchOfPrefixGroups(c, 1, groups...)
		ofLogProb, ofEntropy := policytest.Coefficients(apart, 1), policytest.Coefficients(apart, 2)
		given := policy.Coefficients{LogProb: make([]float32, len(shared.TokenIDs)), Entropy: make([]float32, len(shared.TokenIDs))}
		for _, p := range places {
			given.LogProb[p[0]], given.Entropy[p[0]] = ofLogProb[p[1]], ofEntropy[p[1]]
		}
		s := policy.Sampling{Temperature: 0.9}
		for dtype, weights := range types(t, c) {
			if policytest.Emulated() && (name == "heads of 64") != (dtype == safetensors.F32) {
				continue // package policytest's test of the same name has narrow and normed heads of float32
			}
			t.Run(fmt.Sprintf("%s %s", name, dtype), func(t *testing.T) {
				options := cuda.Options{Train: true, DType: dtype}
				plain := open(t, c, weights, options, budgets(func(b *cuda.Budgets) { b.PassTokens = 1024 }))
				wantLogProbs, wantEntropy := forward(t, plain, apart, s)
				backward(t, plain, policy.Coefficients{LogProb: ofLogProb, Entropy: ofEntropy})
				want, near := plain.Gradients(), 0.03 // what meets in a shared prefix is rounded once, not once for each branch
				if dtype == safetensors.F32 {
					reference := openCPU(t, c, weights, cpu.Options{Threads: 1, Train: true})
					forward(t, reference, shared, s)
					backward(t, reference, given)
					want, near = reference.Gradients(), closeGradients
				}
				var first []policy.Tensor
				for _, way := range []struct {
					name    string
					budgets cuda.Budgets
				}{
					{"one pass", budgets(nil)},
					{"a pass for each prefix group, blocks again", budgets(func(b *cuda.Budgets) { b.PassTokens, b.PassSequences, b.Recompute = 176, 4, cuda.RecomputeBlock })},
				} {
					e := open(t, c, weights, options, way.budgets)
					logProbs, entropy := forward(t, e, shared, s)
					for _, p := range places {
						if logProbs[p[0]] != wantLogProbs[p[1]] || entropy[p[0]] != wantEntropy[p[1]] {
							t.Fatalf("%s: token %d has log-probability %v and entropy %v, apart %v and %v", way.name,
								p[0], logProbs[p[0]], entropy[p[0]], wantLogProbs[p[1]], wantEntropy[p[1]])
						}
					}
					backward(t, e, given)
					got := e.Gradients()
					closeTensors(t, way.name+": gradient", got, want, near)
					if first == nil {
						first = got
					}
					sameTensors(t, way.name, got, first)
				}
			})
		}
	}
}

// A prefix group that no pass has room for is refused as a sequence that is too long.
func TestFamilyWithoutRoom(t *testing.T) {
	c := small(nil)
	e := open(t, c, policytest.LoudWeights(t, c), cuda.Options{}, budgets(func(b *cuda.Budgets) { b.PassTokens, b.PassSequences = 64, 4 }))
	for _, group := range []policytest.PrefixGroup{{Prefix: 17, Branches: []int{17, 1}}, {Prefix: 1, Branches: []int{1, 1, 1, 1}}} {
		batch, _, _ := policytest.BatchOfPrefixGroups(c, 1, group)
		n := len(batch.TokenIDs)
		err := e.Forward(batch, policy.Sampling{Temperature: 1}, make([]float32, n), make([]float32, n))
		if exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("%+v: %v", group, err)
		}
	}
}
