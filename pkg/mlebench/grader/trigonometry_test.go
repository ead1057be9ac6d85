package grader

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Against 300 bits of the series, not reduced: both are the nearest float.
func TestSincos(t *testing.T) {
	t.Parallel()
	series := func(x float64, odd bool) float64 {
		const bits = 300
		value := func(v float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(v) }
		square := value(x)
		square.Mul(square, square)
		term, k := value(1), 1.0
		if odd {
			term, k = value(x), 2.0
		}
		sum := new(big.Float).SetPrec(bits).Set(term)
		for range 120 {
			term.Mul(term, square)
			term.Quo(term, value(-k*(k+1)))
			sum.Add(sum, term)
			k += 2
		}
		nearest, _ := sum.Float64()
		return nearest
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-20, 20).Draw(t, "x")
		sin, cos := sincos(x)
		if wantSin, wantCos := series(x, true), series(x, false); sin != wantSin || cos != wantCos {
			t.Fatalf("sincos(%v) = %v, %v; want %v, %v", x, sin, cos, wantSin, wantCos)
		}
	})
	for _, x := range []float64{0, math.Pi, -math.Pi / 2, 3 * math.Pi / 2} {
		if sin, cos := sincos(x); sin != series(x, true) || cos != series(x, false) {
			t.Errorf("sincos(%v) = %v, %v", x, sin, cos)
		}
	}
}

// Sums of two floats carry 106 bits, of which rounding takes a few: against 300 bits.
func TestDouble(t *testing.T) {
	t.Parallel()
	exact := func(a double) *big.Float {
		sum := new(big.Float).SetPrec(300).SetFloat64(a.high)
		return sum.Add(sum, new(big.Float).SetFloat64(a.low))
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) double {
			high := rapid.Float64Range(0.5, 2).Draw(t, label) * rapid.SampledFrom([]float64{-1, 1}).Draw(t, "sign")
			return double{high, high * 0x1p-54 * rapid.Float64Range(-1, 1).Draw(t, "rest")}
		}
		a, b := draw("a"), draw("b")
		of := func() *big.Float { return new(big.Float).SetPrec(300) }
		for what, c := range map[string]struct {
			got  double
			want *big.Float
		}{
			"sum":      {a.plus(b), of().Add(exact(a), exact(b))},
			"product":  {a.times(b), of().Mul(exact(a), exact(b))},
			"quotient": {a.over(b.high), of().Quo(exact(a), of().SetFloat64(b.high))},
		} {
			if off, _ := of().Sub(exact(c.got), c.want).Float64(); math.Abs(off) > 0x1p-99 || c.got.high+c.got.low != c.got.high {
				t.Fatalf("the %s of %v and %v is off by %v", what, a, b, off)
			}
		}
	})
}
