package loss

import (
	"math"
	"testing"
)

func TestValueLoss(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		clip, value, old, target, loss, slope float64
	}{
		"beyond the bound, further off":  {.2, 1, .5, .2, .32, .8},           // ½·.8² against ½·(.7 - .2)²
		"beyond the bound, nearer":       {.2, .3, 1, .2, .18, 0},            // ½·.1² against ½·(.8 - .2)²
		"inside the bound":               {.2, .6, .5, .2, .08, .4},          // both ½·.4²
		"as far with the clip":           {.25, 1, .5, .875, .0078125, .125}, // ½·.125² on both sides
		"no clip":                        {0, .3, 1, .2, .005, .1},
		"the return itself":              {.2, .5, .5, .5, 0, 0},
		"below the bound, further off":   {.2, 0, .5, .8, .32, -.8},
		"below the bound, return beyond": {.2, -.4, .5, -.5, .32, 0}, // ½·.1² against ½·(.3 + .5)²
	} {
		loss, slope := ValueLoss(Value{Clip: test.clip}, test.value, test.old, test.target)
		if math.Abs(loss-test.loss) > 1e-12 || math.Abs(slope-test.slope) > 1e-12 {
			t.Errorf("%s: loss %g slope %g, want %g and %g", name, loss, slope, test.loss, test.slope)
		}
	}
}

// Returns 1, 2, 3 and 6: Var(R) = 12.5 - 3² = 3.5. Values 0, 2, 4 and 4 are off by 1, 0,
// -1 and 2: Var(R - V) = 1.5 - .5² = 1.25. A return that is met is not held.
func TestExplainedVariance(t *testing.T) {
	t.Parallel()
	var one, two ValueStats
	one.Record(0, 1, .5, 0)
	one.Record(2, 2, 0, 0)
	two.Record(4, 3, .5, 1)
	two.Record(4, 6, 2, 0)
	sum := one
	sum.Add(two)
	want := ValueStats{Tokens: 4, Loss: 3, Held: 2, ReturnSum: 12, ReturnSquares: 50, DifferenceSum: 2, DifferenceSquares: 6}
	if got := sum.ExplainedVariance(); sum != want || math.Abs(got-9./14) > 1e-12 {
		t.Errorf("explained variance %g of %+v, want 9/14 of %+v", got, sum, want)
	}
	small := ValueStats{Tokens: 4, ReturnSum: 12e-9, ReturnSquares: 50e-18, DifferenceSum: 2e-9, DifferenceSquares: 6e-18}
	if got := small.ExplainedVariance(); math.Abs(got-9./14) > 1e-12 {
		t.Errorf("explained variance %g in a small unit", got)
	}
	var zero ValueStats
	zero.Record(0, 0, 0, 0)
	for _, stats := range []ValueStats{{}, zero, {Tokens: 1, ReturnSum: 6, ReturnSquares: 36, DifferenceSum: 2, DifferenceSquares: 4}} {
		if got := stats.ExplainedVariance(); got != 0 {
			t.Errorf("%+v explains %g", stats, got)
		}
	}
}

// Equal returns that rounding has made unequal explain nothing.
func TestExplainedVarianceOfEqualReturns(t *testing.T) {
	t.Parallel()
	values := []float64{0.013, -0.021, 0.37, 0.11, -0.3, 0.77, 0.123}
	for _, reward := range []float64{0, 1} {
		var stats ValueStats
		// The returns of generalised advantages with gamma and lambda 1: the reward at the
		// end, but for rounding.
		var advantage, next float64
		for i := len(values) - 1; i >= 0; i-- {
			delta := next - values[i]
			if i == len(values)-1 {
				delta += reward
			}
			advantage += delta
			stats.Record(values[i], advantage+values[i], 0, 1)
			next = values[i]
		}
		if got := stats.ExplainedVariance(); got != 0 {
			t.Errorf("all rewards %g: explained variance %g", reward, got)
		}
	}
}
