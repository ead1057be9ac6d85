package loss

import (
	"testing"

	"pgregory.net/rapid"
)

// A sequence whose tokens are computed in two parts has the statistics of
// the whole: every sum is carried over by Add.
func TestStatsAdd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := drawLoss(t)
		if spec.Kind == "gspo" {
			spec.Kind = "clip" // the ratio of gspo is that of the whole sequence
		}
		in := drawSequence(t)
		whole, err := Coefficients(spec, in)
		if err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(in.Mask)).Draw(t, "cut")
		var sum Stats
		for _, first := range []bool{true, false} {
			part := in
			part.Mask = make([]bool, len(in.Mask))
			for i, learned := range in.Mask {
				part.Mask[i] = learned && (i < cut) == first
			}
			gradient, err := Coefficients(spec, part)
			if err != nil {
				t.Fatal(err)
			}
			sum.Add(gradient.Stats)
		}
		want := whole.Stats.Metrics()
		for i, got := range sum.Metrics() {
			if !close64(got.Value, want[i].Value) {
				t.Fatalf("%s is %v in two parts, %v in one", got.Name, got.Value, want[i].Value)
			}
		}
	})
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
