package loss_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// The tokens that each choice treats apart, in two sequences of which the last token of the
// first is not learned from. Worked by hand: the mean advantage is 0 and the mean
// log-probability -2, so the covariances are those of the comment.
func TestChoose(t *testing.T) {
	t.Parallel()
	unit := []loss.TokenInputs{
		// covariances 1·(-1+2) = 1, 1·(-4+2) = -2
		{New: []float64{-1, -4, math.NaN()}, Old: []float64{-1, -4, 0}, Advantage: []float64{1, 1, 9}, Entropy: []float64{.1, .5, 9}, Mask: []bool{true, true, false}},
		// covariances -1·(-1+2) = -1, -1·(-2+2) = 0, 0·(-2+2) = 0
		{New: []float64{-1, -2, -2}, Old: []float64{-1, -2, -2}, Advantage: []float64{-1, -1, 0}, Entropy: []float64{.2, .3, .4}, Mask: []bool{true, true, true}},
	}
	for name, c := range map[string]struct {
		tokens loss.Tokens
		want   [][]bool
	}{
		// The 0.6-quantile of 0.1 … 0.5 is at place 2.4 of five, 0.34.
		"entropy":                {loss.Tokens{Name: "entropy", Share: .4}, [][]bool{{true, false, false}, {true, true, false}}},
		"all by entropy":         {loss.Tokens{Name: "entropy", Share: 1}, [][]bool{{false, false, false}, {false, false, false}}},
		"kl_cov, at least one":   {loss.Tokens{Name: "kl_cov", Share: 2e-4}, [][]bool{{true, false, false}, {false, false, false}}},
		"kl_cov, 3 of 5":         {loss.Tokens{Name: "kl_cov", Share: .6}, [][]bool{{true, false, false}, {false, true, true}}},
		"clip_cov, all between":  {loss.Tokens{Name: "clip_cov", Share: 1, Low: -1.5, High: -.5}, [][]bool{{false, false, false}, {true, false, false}}},
		"clip_cov, none between": {loss.Tokens{Name: "clip_cov", Share: 1, Low: 1, High: 5}, [][]bool{{false, false, false}, {false, false, false}}},
		"clip_cov, one of one":   {loss.Tokens{Name: "clip_cov", Share: .1, Low: .5, High: 5}, [][]bool{{true, false, false}, {false, false, false}}},
	} {
		spec := loss.Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, Tokens: c.tokens}
		if diff := cmp.Diff(c.want, loss.Choose(spec, unit, rng.Stream{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := loss.Choose(loss.Loss{Tokens: loss.Tokens{Name: "entropy", Share: .5}}, []loss.TokenInputs{{Mask: []bool{false}, Entropy: []float64{1}, Advantage: []float64{1}, New: []float64{1}}}, rng.Stream{}); got[0][0] {
		t.Error("a token that is not learned from is chosen")
	}
}

// What becomes of a token that is treated apart: no policy loss, or a penalty. With
// new - old = 0.1, A = 2 and no clip the term is -2·exp(0.1) = -2.2103418; kl_cov adds 0.5·0.1.
func TestTokensApart(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]float64{
		"entropy":  {0, 0},
		"clip_cov": {0, 0},
		"kl_cov":   {-2*math.Exp(.1) + .05, -2*math.Exp(.1) + .5},
	} {
		spec := loss.Loss{Kind: "clip", ClipLow: 1, ClipHigh: 1e9, Tokens: loss.Tokens{Name: name, KLCoef: .5}}
		got, err := loss.Coefficients(spec, loss.TokenInputs{New: []float64{-1}, Old: []float64{-1.1}, Advantage: []float64{2}, Mask: []bool{true}, Apart: []bool{true}, Weight: 1})
		if err != nil || math.Abs(got.Stats.PolicyLoss-want[0]) > 1e-12 || math.Abs(got.LogProb[0]-want[1]) > 1e-12 || got.Stats.Apart != 1 {
			t.Errorf("%s: loss %v, slope %v, %d apart, %v; want %v", name, got.Stats.PolicyLoss, got.LogProb[0], got.Stats.Apart, err, want)
		}
	}
}

// The soft gate of SAPO, with the numbers of TRL 1.16's formula
// -A·sigmoid(τ(r - 1))·4/τ; where r is 1 the gradient is that of REINFORCE.
func TestSAPO(t *testing.T) {
	t.Parallel()
	spec := loss.Loss{Kind: "sapo", TauPositive: 1, TauNegative: 1.05}
	for _, c := range []struct{ advantage, ratio, loss, slope float64 }{
		{1, 1.1, -2.09991674991576, -1.0972545768487246},
		{-1, .8, 1.7054936778120944, 0.7912444243070855},
		{3, 1, -6, -3},
		{-3, 1, 3 * 2 / 1.05, 3},
	} {
		got, err := loss.Coefficients(spec, loss.TokenInputs{New: []float64{math.Log(c.ratio)}, Old: []float64{0}, Advantage: []float64{c.advantage}, Mask: []bool{true}, Weight: 1})
		if err != nil || math.Abs(got.Stats.PolicyLoss-c.loss) > 1e-9 || math.Abs(got.LogProb[0]-c.slope) > 1e-9 {
			t.Errorf("A %v, r %v: loss %.16g, slope %.16g, %v; want %v and %v", c.advantage, c.ratio, got.Stats.PolicyLoss, got.LogProb[0], err, c.loss, c.slope)
		}
	}
}

// Skywork-OR1's control, with its target of 0.2 and its step of 0.005.
func TestAdaptEntropy(t *testing.T) {
	t.Parallel()
	spec := loss.Loss{EntropyTarget: .2, EntropyStep: .005}
	for _, c := range []struct{ before, entropy, coefficient, acting float64 }{
		{0, .1, .005, .005}, {.01, .3, .005, 0}, {0, .3, 0, 0}, {.01, .2, .01, .01}, {.01, math.NaN(), .01, .01},
	} {
		coefficient, acting := loss.AdaptEntropy(spec, c.before, c.entropy)
		if math.Abs(coefficient-c.coefficient) > 1e-15 || math.Abs(acting-c.acting) > 1e-15 {
			t.Errorf("%v at entropy %v: %v and %v, want %v and %v", c.before, c.entropy, coefficient, acting, c.coefficient, c.acting)
		}
	}
}

// The share of tokens that are learned from is as asked, where entropies differ.
func TestShareOfEntropy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "tokens")
		share := rapid.Float64Range(.01, 1).Draw(t, "share")
		in := loss.TokenInputs{New: make([]float64, n), Old: make([]float64, n), Advantage: make([]float64, n), Entropy: make([]float64, n), Mask: make([]bool, n)}
		for i := range n {
			in.Entropy[i], in.Mask[i] = float64((i*7919)%n)+float64(i)/1000, true
		}
		kept := 0
		for _, apart := range loss.Choose(loss.Loss{Tokens: loss.Tokens{Name: "entropy", Share: share}}, []loss.TokenInputs{in}, rng.Stream{})[0] {
			if !apart {
				kept++
			}
		}
		if want := share * float64(n-1); float64(kept) < want-1e-9 || float64(kept) > want+1+1e-9 {
			t.Fatalf("%d of %d tokens are learned from, asked for a share of %v", kept, n, share)
		}
	})
}
