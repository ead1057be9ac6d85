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
