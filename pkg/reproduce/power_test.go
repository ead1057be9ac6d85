package reproduce

import (
	"math"
	"testing"
)

// Powers of a two-sided paired t-test at 95 %, by scipy 1.17.1: stats.nct.sf(c, n-1, δ) +
// stats.nct.cdf(-c, n-1, δ) with c = stats.t.ppf(0.975, n-1) and δ = √n·mean.
func TestPower(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n          int
		mean, want float64
	}{{2, 18.3, 0.957697}, {3, 2.5, 0.619152}, {3, 1, 0.179255}, {5, 1.8, 0.847413}, {10, 1, 0.803097}, {20, 0.3, 0.247089}, {100, 0.2, 0.508265}} {
		if got := powerWith(c.n, c.mean, 1); math.Abs(got-c.want) > 2e-4 {
			t.Errorf("%d differences of mean %v: power %v, want %v", c.n, c.mean, got, c.want)
		}
	}
}

// The numbers of pairs of Cohen's tables for d = 0.2, 0.5, 0.8 at 80 %: 199, 34 and 15.
func TestSeedsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect, std float64
		want        int // 0 for none
	}{{0.2, 1, 199}, {0.5, 1, 34}, {0.8, 1, 15}, {-1.6, 2, 15}, {1e-9, 1, 0}, {0, 1, 0}, {1, 0, 2}} {
		got := seedsFor(c.effect, c.std)
		if got == nil && c.want != 0 || got != nil && *got != c.want {
			t.Errorf("effect %v, spread %v: %v, want %d", c.effect, c.std, got, c.want)
		}
	}
}
