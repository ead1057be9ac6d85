package credit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var close9 = cmpopts.EquateApprox(0, 1e-9)

// A_2 = 1 - .7 = .3; A_1 = (.7 - .6) + .95·.3 = .385; A_0 = (.6 - .5) +
// .95·.385 = .46575.
func TestGAE(t *testing.T) {
	t.Parallel()
	advantages, returns, err := GAE([]float64{0, 0, 1}, []float64{.5, .6, .7}, 1, .95)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{.46575, .385, .3}, advantages, close9); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{.96575, .985, 1}, returns, close9); diff != "" {
		t.Error(diff)
	}
	if _, _, err := GAE([]float64{1}, nil, 1, 1); err == nil || !strings.Contains(err.Error(), "1 rewards and 0 values") {
		t.Errorf("a missing value: %v", err)
	}
}

// The numbers of TestGAE with the middle token masked, and others around. Skipped,
// A_0 = (.7 - .5) + .95·.3 = .485. With its own value it is TestGAE's. With a value
// of 0, A_1 = .7 + .95·.3 = .985 and A_0 = -.5 + .95·.985 = .43575.
func TestTokenGAE(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	mask := []bool{false, true, false, true, false}
	for masked, first := range map[string]float64{"skip": .485, "value": .46575, "zero": .43575} {
		spec := AdvantageSettings{Gamma: 1, Lambda: .95, Masked: masked}
		middle := none
		if masked == "value" {
			middle = .6
		}
		advantages, returns, err := TokenGAE(spec, mask, []float64{none, 0, none, 1, none}, []float64{none, .5, middle, .7, none})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float64{0, first, 0, .3, 0}, advantages, close9); diff != "" {
			t.Errorf("%s: advantages: %s", masked, diff)
		}
		if diff := cmp.Diff([]float64{0, first + .5, 0, 1, 0}, returns, close9); diff != "" {
			t.Errorf("%s: returns: %s", masked, diff)
		}
		advantages, _, err = TokenGAE(spec, []bool{false, false}, []float64{none, none}, []float64{none, none})
		if diff := cmp.Diff([]float64{0, 0}, advantages); err != nil || diff != "" {
			t.Errorf("%s: nothing is learned: %v %s", masked, err, diff)
		}
	}
	if _, _, err := TokenGAE(AdvantageSettings{}, mask, make([]float64, 5), make([]float64, 4)); err == nil || !strings.Contains(err.Error(), "5 rewards and 4 values for 5 tokens") {
		t.Errorf("a missing value: %v", err)
	}
}

func TestLearnedSpan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mask       []bool
		first, end int
	}{{[]bool{false, true, false, true, true, false}, 1, 5}, {[]bool{true}, 0, 1}, {[]bool{false}, 0, 0}} {
		if first, end := LearnedSpan(c.mask); first != c.first || end != c.end {
			t.Errorf("%v: %d to %d, want %d to %d", c.mask, first, end, c.first, c.end)
		}
	}
}

// Masked tokens before the first learned one and after the last change nothing,
// and where no others are masked the setting does not either.
func TestTokenGAEOfOneTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(rt, "tokens")
		number := rapid.Float64Range(-3, 3)
		rewards, values := rapid.SliceOfN(number, n, n).Draw(rt, "rewards"), rapid.SliceOfN(number, n, n).Draw(rt, "values")
		before, after := rapid.IntRange(0, 3).Draw(rt, "before"), rapid.IntRange(0, 3).Draw(rt, "after")
		around := func(x []float64) []float64 {
			return append(append(slices.Repeat([]float64{math.NaN()}, before), x...), slices.Repeat([]float64{math.NaN()}, after)...)
		}
		mask := make([]bool, before+n+after)
		for i := range n {
			mask[before+i] = true
		}
		want, _, _ := GAE(rewards, values, .9, .8)
		for _, masked := range []string{"skip", "value", "zero"} {
			got, _, err := TokenGAE(AdvantageSettings{Gamma: .9, Lambda: .8, Masked: masked}, mask, around(rewards), around(values))
			if err != nil || !slices.Equal(got[before:before+n], want) {
				rt.Fatalf("%s: %v, %v, want %v", masked, got, err, want)
			}
		}
	})
}

// With lambda 1 and gamma 1 a return is the sum of what comes, whatever the
// critic says; with lambda 0 it is one step of reward and the next value.
func TestGAEExtremes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(rt, "tokens")
		number := rapid.Float64Range(-3, 3)
		rewards, values := make([]float64, n), make([]float64, n)
		for i := range n {
			rewards[i], values[i] = number.Draw(rt, "reward"), number.Draw(rt, "value")
		}
		_, all, _ := GAE(rewards, values, 1, 1)
		_, one, _ := GAE(rewards, values, 0.9, 0)
		rest := 0.0
		for i := n - 1; i >= 0; i-- {
			rest += rewards[i]
			next := 0.0
			if i+1 < n {
				next = values[i+1]
			}
			if math.Abs(all[i]-rest) > 1e-9 || math.Abs(one[i]-rewards[i]-0.9*next) > 1e-9 {
				rt.Fatalf("token %d: %v, %v", i, all, one)
			}
		}
	})
}
