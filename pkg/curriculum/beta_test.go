package curriculum

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/rng"
)

func draws(b Beta, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = b.Draw(rng.New(1, rng.PurposeSelect, i, "", 0))
	}
	return all
}

// Beta(2, 3) has the mean 2/5 and the variance 2·3/(5²·6) = 1/25.
func TestBetaDraw(t *testing.T) {
	t.Parallel()
	const n = 4000
	mean, variance := MeanVariance(draws(Beta{2, 3}, n))
	if math.Abs(mean-.4) > 4*math.Sqrt(.04/n) || math.Abs(variance-.04) > .003 {
		t.Errorf("mean %v, variance %v of draws from Beta(2, 3)", mean, variance)
	}
	// A run must be repeatable: a stream always gives the same draw.
	if got := fmt.Sprintf("%.12f", draws(Beta{2, 3}, 3)); got != "[0.176332703233 0.193573131742 0.611706941420]" {
		t.Errorf("drawn are %s", got)
	}
}

// Without one of its parameters all of the distribution is at one end; where both are tiny
// nearly all of it is at both, three quarters at 1 if α is three times β.
func TestBetaDrawAtTheEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   Beta
		want float64
	}{{Beta{0, 1}, 0}, {Beta{1, 0}, 1}} {
		if got := c.of.Draw(rng.Stream{}); got != c.want {
			t.Errorf("%+v: a draw of %v, want %v", c.of, got, c.want)
		}
	}
	ones := 0
	for _, x := range draws(Beta{3e-300, 1e-300}, 1000) {
		if x != 0 && x != 1 {
			t.Fatalf("a draw of %v", x)
		}
		ones += int(x)
	}
	if math.Abs(float64(ones)-750) > 60 {
		t.Errorf("%d of 1000 draws are 1, want about 750", ones)
	}
}

// By hand. A draw from Beta(1, 1) is within d of 1/2 with the probability 2d, and one from
// Beta(2, 2) with 3d - 4d³: the first is the nearer one with ∫ 2 (1 - 3d + 4d³) dd from 0 to
// 1/2, which is 3/8; both are nearer than another uniform draw with ∫ 2 · 2d (3d - 4d³) dd,
// which is 2/5. A grid of 1000 distances is as good as 1/2000.
func TestAmongNearest(t *testing.T) {
	t.Parallel()
	uniform := Beta{1, 1}
	for _, c := range []struct {
		target float64
		n      int
		betas  []Beta
		want   float64 // of the first
	}{
		{.5, 1, []Beta{uniform, {2, 2}}, 3. / 8},
		{.5, 1, []Beta{{2, 2}, uniform}, 5. / 8},
		{.5, 2, []Beta{uniform, {2, 2}}, 1},
		{.5, 2, []Beta{uniform, uniform, uniform}, 2. / 3},
		{.5, 2, []Beta{uniform, uniform, {2, 2}, {0, 1}}, 3. / 5},
		{.25, 1, []Beta{uniform, uniform, uniform, uniform}, 1. / 4},
		{.5, 1, slices.Repeat([]Beta{uniform}, 400), 1. / 400},
		{.5, 1, []Beta{uniform, {0, 1}}, 1},
		{.5, 1, []Beta{{1, 0}, uniform}, 0},
		{0, 1, []Beta{{0, 1}, uniform}, 1},
		{1, 1, []Beta{{1, 0}, uniform}, 1},
		{1, 1, []Beta{{0, 1}, uniform}, 0},
	} {
		tolerance := 1e-5
		if c.want == 0 || c.want == 1 { // where all mass is at one distance
			tolerance = 6e-4
		}
		if got := AmongNearest(c.n, c.target, c.betas[0], c.betas[1:]); math.Abs(got-c.want) > tolerance {
			t.Errorf("target %v, the nearest %d of %d: %v, want %v", c.target, c.n, len(c.betas), got, c.want)
		}
	}
}
