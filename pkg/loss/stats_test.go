package loss

import (
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every sum is carried over by Add, and of every largest the larger.
func TestStatsAdd(t *testing.T) {
	t.Parallel()
	numbered := func(step int) (s Stats) {
		for i, v := 0, reflect.ValueOf(&s).Elem(); i < v.NumField(); i++ {
			v.Field(i).Set(reflect.ValueOf(step * (i + 1)).Convert(v.Field(i).Type()))
		}
		return s
	}
	want := numbered(3)
	want.MaxRatioDeviation = numbered(2).MaxRatioDeviation
	want.MaxSamplerDisagreement = numbered(2).MaxSamplerDisagreement
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		sum := numbered(order[0])
		sum.Add(numbered(order[1]))
		if diff := cmp.Diff(want, sum); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// A token by itself, by hand: the new policy's log-probability is -1, the old's -1.5, the
// sampler's 2 below and the reference's .5 above the new one's. Divergences k3 are exp(.5) - 1.5
// and, of the far sampler, exp(2) - 3.
func TestOneToken(t *testing.T) {
	t.Parallel()
	in := TokenInputs{
		New: []float64{-1}, Old: []float64{-1.5}, Sampler: []float64{-3.5}, Reference: []float64{-.5}, Entropy: []float64{.25},
		Advantage: []float64{-1}, Mask: []bool{true}, Weight: .5,
	}
	spec := Loss{
		Kind: "clip", ClipLow: .2, ClipHigh: .2, DualClip: 1.5, TruncatedIS: .5, SamplerKL: .1, EntropyCoef: .2,
		KL: KL{Coef: 2, Estimator: "k2", Gradient: "estimator"},
	}
	want := map[string]float64{
		"policy_loss": .375, "reference_loss": .125, "sampler_loss": .3125, "entropy_loss": -.025, "loss": .7875,
		"ratio": 1.648721270700, "ratio_deviation_max": .648721270700, "clip_dual_share": 1,
		"old_kl_k1": -.5, "old_kl_k3": .148721270700, "reference_kl": .125, "entropy": .25, "correction": .5,
		"sampler_known_share": 1, "sampler_kl_k1": -2, "sampler_kl_k3": 4.389056098931,
		"sampler_difference": 2, "sampler_difference_max": 2, "sampler_beyond_share": 1,
	}
	stats := mustCoefficients(t, spec, in).Stats
	for _, m := range stats.Metrics() {
		near(t, m.Name, m.Value, want[m.Name])
	}
	// Without a bound what is above 2 counts; a bound of 1 is one.
	in.Sampler[0] = in.Old[0] - math.Log(1.5)
	for bound, share := range map[float64]float64{0: 0, 1: 1, 1.6: 0} {
		spec.TruncatedIS = bound
		near(t, "sampler_beyond_share", metric(t, mustCoefficients(t, spec, in).Stats, "sampler_beyond_share"), share)
	}
	_, k3 := divergence(-31, -1)
	near(t, "k3 of 30, clamped to 20, / exp(20)", k3/math.Exp(20), 1-21/math.Exp(20))
}

// No tokens, no division by 0.
func TestMetricsOfNothing(t *testing.T) {
	t.Parallel()
	for _, m := range (Stats{}).Metrics() {
		if m.Value != 0 {
			t.Errorf("%s of no tokens is %v, want 0", m.Name, m.Value)
		}
	}
}

// What the loss costs beside the engine: one sequence of 1000 tokens with
// every penalty.
func BenchmarkCoefficients(b *testing.B) {
	spec := lossWithEverything()
	column := make([]float64, 1000)
	mask := make([]bool, len(column))
	for i := range column {
		column[i], mask[i] = -float64(i)/500, true
	}
	in := TokenInputs{New: column, Old: column, Reference: column, Sampler: column, Entropy: column, Advantage: column, Mask: mask, Weight: 1}
	for b.Loop() {
		if _, err := Coefficients(spec, in); err != nil {
			b.Fatal(err)
		}
	}
}
