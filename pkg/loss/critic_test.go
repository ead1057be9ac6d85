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
		"beyond the bound, further off":  {.2, 1, .5, .2, .32, .8},  // ½·.8² against ½·(.7 - .2)²
		"beyond the bound, nearer":       {.2, .3, 1, .2, .18, 0},   // ½·.1² against ½·(.8 - .2)²
		"inside the bound":               {.2, .6, .5, .2, .08, .4}, // both ½·.4²
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

// Returns 1 and 3, values 2 and 3: Var(R) = 1, R - V = -1 and 0, Var = ¼.
func TestExplainedVariance(t *testing.T) {
	t.Parallel()
	var one, two ValueStats
	one.Record(2, 1, .5, 1)
	two.Record(3, 3, 0, 0)
	one.Add(two)
	if got := one.ExplainedVariance(); got != 0.75 || one.Loss != 0.5 || one.Held != 0 || one.Tokens != 2 {
		t.Errorf("explained variance %g of %+v", got, one)
	}
	if got := two.ExplainedVariance(); got != 0 {
		t.Errorf("one token explains %g", got)
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
