package compare

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/rng"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s is %v, want %v within %v", what, got, want, within)
	}
}

// By hand: 1, 2, 3, 6 have the mean 3 and the variance (4+1+0+9)/3; the 97.5 % point
// of Student's t with 3 degrees of freedom is 3.1824463.
func TestSpread(t *testing.T) {
	t.Parallel()
	s := SpreadOf([]float64{1, 2, 3, 6})
	std := math.Sqrt(14. / 3)
	near(t, "mean", s.Mean, 3, 0)
	near(t, "std", *s.Std, std, 1e-15)
	near(t, "low", *s.Low, 3-3.1824463*std/2, 1e-6)
	near(t, "high", *s.High, 3+3.1824463*std/2, 1e-6)
	if one := SpreadOf([]float64{4}); one.Mean != 4 || one.Std != nil || one.Low != nil || one.High != nil || one.Seeds != 1 {
		t.Errorf("of one seed: %+v", one)
	}
}

// By hand, with tables of t: of the differences 1, 2 and 3 of three seeds t = 2/(1/√3) =
// 3.464 with 2 degrees of freedom, for which p = 1 - t/√(t² + 2) = 0.0742; of 1 and 2 it is 3
// with 1, for which p = 1 - (2/π) atan t = 0.2048, wherever the mean lies.
func TestOverSeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bySeed []float64
		want   float64
	}{{[]float64{1, 2, 3}, 0.0741799}, {[]float64{-2, -3, -1}, 0.0741799}, {[]float64{1, 2}, 0.2048328}, {[]float64{-1, 1}, 1}} {
		var d Difference
		d.overSeeds(c.bySeed)
		near(t, "p", *d.POverSeeds, c.want, 1e-7)
		if decided := *d.OverSeeds.Low > 0 || *d.OverSeeds.High < 0; decided {
			t.Errorf("%v: the interval %+v is without 0, at p %v", c.bySeed, d.OverSeeds, *d.POverSeeds)
		}
	}
	for _, bySeed := range [][]float64{{1}, {1, 1}, {0, 0}} {
		var d Difference
		if d.overSeeds(bySeed); d.POverSeeds != nil || d.OverSeeds.Mean != bySeed[0] {
			t.Errorf("%v: %+v", bySeed, d)
		}
	}
}

// By hand: of the differences 0 and 1 a resample of two has the mean 0, ½ or 1 with
// probability ¼, ½, ¼, so the interval is [0, 1], and a quarter is not above 0.
func TestBootstrapByHand(t *testing.T) {
	t.Parallel()
	const resamples = 40_000
	d := bootstrap([][]float64{{0, 1}}, false, resamples, stream(1))
	near(t, "mean", d.Mean, .5, 0)
	near(t, "low", d.Low, 0, 0)
	near(t, "high", d.High, 1, 0)
	near(t, "p", d.P, .5, 4*2*math.Sqrt(.25*.75/resamples))
	near(t, "d_z", *d.EffectSize, .5/math.Sqrt(.5), 1e-15)
	constant := bootstrap([][]float64{{.25, .25}, {.25}}, false, 100, stream(1))
	if constant.Mean != .25 || constant.Low != .25 || constant.High != .25 || constant.EffectSize != nil || constant.P != 2./101 || constant.Seeds != 2 || constant.Problems != 3 {
		t.Errorf("of equal differences: %+v", constant)
	}
	if none := bootstrap([][]float64{{0, 0, 0}}, false, 100, stream(1)); none.P != 1 {
		t.Errorf("of no difference: p %v, want 1", none.P)
	}
	// Two seeds of one problem each, 0 and 1: as two problems of one seed.
	seeds := bootstrap([][]float64{{0}, {1}}, false, resamples, stream(2))
	near(t, "p over seeds", seeds.P, .5, 4*2*math.Sqrt(.25*.75/resamples))
}

// testdata/bootstrap.py has the numbers, of scipy 1.17.1: the paired bootstrap of
// twenty problems with 200,000 resamples, and Cliff's delta by its definition.
func TestBootstrapOfSciPy(t *testing.T) {
	t.Parallel()
	method := []float64{.75, 1, .5, .25, 1, .75, 0, .5, 1, 1, .25, .75, .5, 1, .75, .25, .5, 1, .75, .5}
	baseline := []float64{.5, 1, .25, .5, .75, .75, 0, .25, 1, .5, .25, .5, .75, .75, .5, .25, .25, .75, 1, 0}
	differences := make([]float64, len(method))
	for i := range method {
		differences[i] = method[i] - baseline[i]
	}
	d := bootstrap([][]float64{differences}, false, 200_000, stream(3))
	near(t, "mean", d.Mean, .125, 1e-12)
	near(t, "low", d.Low, .025, .0126) // the means are multiples of 0.0125
	near(t, "high", d.High, .2125, .0126)
	near(t, "p", d.P, .01506, .002)
	near(t, "d_z", *d.EffectSize, .5627314338711377, 1e-9)
	near(t, "Cliff's delta", dominance(method, baseline), .2275, 1e-12)
}

// Five seeds with the same differences of the same problems say no more of the problems
// than one: the same interval, p and d_z. Were each seed to draw problems of its own, the
// interval would be narrower by √5, and p 0.0007 in place of 0.16.
func TestSharedProblemsStayUncertain(t *testing.T) {
	t.Parallel()
	one := []float64{0, 0, .5, 1, -.5, 0, .5, 0, 1, 0, -.5, .5}
	same := [][]float64{one, one, one, one, one}
	alone, together := bootstrap(same[:1], true, 10_000, stream(1)), bootstrap(same, true, 10_000, stream(2))
	near(t, "low", together.Low, alone.Low, .042) // a step of the means
	near(t, "high", together.High, alone.High, .042)
	near(t, "p", together.P, alone.P, .03)
	near(t, "d_z", *together.EffectSize, *alone.EffectSize, 1e-12)
	if together.Problems != len(one) || together.Seeds != 5 {
		t.Errorf("%d problems of %d seeds", together.Problems, together.Seeds)
	}
	if apart := bootstrap(same, false, 10_000, stream(1)); apart.Problems != 5*len(one) || apart.High-apart.Low > .6*(together.High-together.Low) {
		t.Errorf("with problems of each seed: %+v", apart)
	}
}

// testdata/shared.py has the numbers, of NumPy: three seeds of the same ten problems,
// 200,000 resamples of seeds and, once for all seeds, of problems.
func TestSharedProblemsOfNumPy(t *testing.T) {
	t.Parallel()
	d := bootstrap([][]float64{
		{.5, 0, .25, 1, -.25, 0, .75, .5, 0, -.5},
		{.25, 0, 0, .75, -.5, .25, .5, .25, .25, -.25},
		{.5, -.25, .5, 1, 0, .25, .5, .75, 0, 0},
	}, true, 100_000, stream(5))
	near(t, "mean", d.Mean, 0.23333333333333334, 1e-12)
	near(t, "low", d.Low, 0, .0085) // a step of the means
	near(t, "high", d.High, 0.48333333333333334, .0085)
	near(t, "p", d.P, 0.06108, .003)
	near(t, "d_z", *d.EffectSize, 0.6165812304904388, 1e-9)
}

func stream(n int) rng.Stream { return rng.New(1, rng.PurposeBootstrap, n, "test", 0) }

// With the methods changed round, everything has the other sign, to the resample.
func TestBootstrapIsAntisymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bySeed := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 6), 1, 4).Draw(t, "differences")
		negative := make([][]float64, len(bySeed))
		for i, problems := range bySeed {
			for _, x := range problems {
				negative[i] = append(negative[i], -x)
			}
		}
		a, b := bootstrap(bySeed, false, 200, stream(4)), bootstrap(negative, false, 200, stream(4))
		if math.Abs(a.Mean+b.Mean) > 1e-12 || math.Abs(a.Low+b.High) > 1e-12 || math.Abs(a.High+b.Low) > 1e-12 || math.Abs(a.P-b.P) > 1e-12 {
			t.Errorf("%+v and %+v", a, b)
		}
		if a.Low > a.High || a.P <= 0 || a.P > 1 {
			t.Errorf("%+v is no interval or no probability", a)
		}
	})
}

func TestDominance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, baseline []float64
		want             float64
	}{{[]float64{2, 3}, []float64{0, 1}, 1}, {[]float64{0, 1}, []float64{2}, -1}, {[]float64{1, 2}, []float64{1, 2}, 0}, {[]float64{1, 2}, []float64{1}, .5}} {
		near(t, "delta", dominance(c.method, c.baseline), c.want, 0)
		slices.Reverse(c.method)
		near(t, "delta, in another order", dominance(c.method, c.baseline), c.want, 0)
	}
}

// numpy.quantile([1, 2, 4, 8], p): 1, 1.75 at ¼, 3 at ½, 8.
func TestQuantile(t *testing.T) {
	t.Parallel()
	for p, want := range map[float64]float64{0: 1, .25: 1.75, .5: 3, 1: 8} {
		near(t, "quantile", quantile([]float64{1, 2, 4, 8}, p), want, 1e-15)
	}
}
