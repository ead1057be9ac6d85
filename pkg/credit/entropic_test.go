package credit

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// The first is the vector of the issue that asked for it: β is 2.553244909, and e^β less 1
// and 1/((e^β + 2)/3) less 1 are 11.848729 and −0.797963. Where half or more are the largest
// it is the limit: (n − m)/(m − 1) and −1. Rewards move and scale without a change.
func TestEntropicAdvantages(t *testing.T) {
	t.Parallel()
	lone := []float64{11.848729, -0.797963, -0.797963, -0.797963}
	for name, c := range map[string]struct{ rewards, want []float64 }{
		"none":                {nil, nil},
		"two":                 {[]float64{1, 0}, []float64{0, 0}},
		"equal":               {[]float64{.5, .5, .5, .5}, []float64{0, 0, 0, 0}},
		"one of four":         {[]float64{1, 0, 0, 0}, lone},
		"moved and scaled":    {[]float64{7, 3, 3, 3}, lone},
		"a large spread":      {[]float64{1e9, 0, 0, 0}, lone},
		"half are largest":    {[]float64{1, 1, 0, 0}, []float64{2, 2, -1, -1}},
		"more than half":      {[]float64{1, 1, 1, 0}, []float64{.5, .5, .5, -1}},
		"and another is near": {[]float64{1, 1, .5, 0}, []float64{2, 2, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := EntropicAdvantages(c.rewards)
			if len(got) != len(c.want) {
				t.Fatalf("%v", got)
			}
			for i := range got {
				if !(math.Abs(got[i]-c.want[i]) < 1e-6) {
					t.Fatalf("%v, want %v", got, c.want)
				}
			}
		})
	}
	if beta := entropicBeta([]float64{0, -1, -1, -1}); math.Abs(beta-2.553244909) > 1e-9 {
		t.Errorf("β is %v", beta)
	}
}

// Whatever the rewards, advantages are finite and −1 or more, have the order of the rewards,
// and β diverges by ln 2 unless it is as large as it may be.
func TestEntropicAdvantagesRandomly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rewards := rapid.SliceOfN(rapid.Float64Range(-1, 1), 3, 16).Draw(t, "rewards")
		got := EntropicAdvantages(rewards)
		below := slices.Clone(rewards)
		floats.AddConst(-floats.Max(rewards), below)
		if beta := entropicBeta(below); beta < largestBeta && math.Abs(divergence(below, beta)-math.Ln2) > 1e-9 {
			t.Fatalf("rewards %v: β %v diverges by %v", rewards, beta, divergence(below, beta))
		}
		for i := range got {
			if math.IsNaN(got[i]) || math.IsInf(got[i], 0) || got[i] < -1 {
				t.Fatalf("rewards %v: advantages %v", rewards, got)
			}
			for j := range got {
				if rewards[i] == rewards[j] && got[i] != got[j] || rewards[i] < rewards[j] && got[i] > got[j] {
					t.Fatalf("rewards %v: advantages %v", rewards, got)
				}
			}
		}
	})
}
