package cpu

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// The set is that of sorting everything, however the logits lie: near each
// other, far away, equal.
func TestKeptSetAgainstSorting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		spread := rapid.SampledFrom([]float64{1e-6, 0.01, 1, 30, 1000}).Draw(rt, "spread")
		steps := rapid.SampledFrom([]int{2, 10, 1000}).Draw(rt, "steps")
		logits := make([]float32, rapid.IntRange(1, 300).Draw(rt, "vocabulary"))
		for i := range logits {
			logits[i] = float32(spread * float64(rapid.IntRange(-steps, steps).Draw(rt, "logit")) / float64(steps))
		}
		if rapid.Bool().Draw(rt, "impossible token") {
			logits[len(logits)/2] = float32(math.Inf(-1))
			logits[0] = 0
		}
		s := policy.Sampling{
			Temperature: rapid.Float32Range(0.1, 3).Draw(rt, "temperature"),
			TopK:        rapid.IntRange(0, 310).Draw(rt, "k"), TopP: rapid.Float32Range(0, 1).Draw(rt, "p"),
		}
		order := make([]int32, len(logits))
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
		if s.TopK > 0 && s.TopK < len(order) {
			order = order[:s.TopK]
		}
		mass := func(ids []int32) (sum float64) {
			for _, id := range ids {
				sum += math.Exp(float64(logits[id]-logits[order[0]]) / float64(s.Temperature))
			}
			return sum
		}
		got := slices.Clone(new(chooser).choose(logits, make([]float32, len(logits)), s))
		slices.SortStableFunc(got, func(a, b int32) int { return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b)) })
		if len(got) == 0 || len(got) > len(order) || !slices.Equal(got, order[:len(got)]) {
			rt.Fatalf("kept %v of %v", got, order)
		}
		if s.TopP <= 0 || s.TopP >= 1 {
			if len(got) != len(order) {
				rt.Fatalf("kept %d of %d", len(got), len(order))
			}
			return
		}
		const rounding = 1e-5
		total := mass(order)
		if with := mass(got) / total; with < float64(s.TopP)-rounding {
			rt.Fatalf("kept the mass %v, want %v", with, s.TopP)
		}
		if without := mass(got[:len(got)-1]) / total; without >= float64(s.TopP)+rounding {
			rt.Fatalf("the mass %v would do for %v", without, s.TopP)
		}
	})
}

// BenchmarkSample draws from a large vocabulary.
func BenchmarkSample(b *testing.B) {
	stream := rng.New(1, rng.PurposeTest, 0, "logits", 0)
	logits := make([]float32, 151936)
	for i := range logits {
		logits[i] = float32(2 * stream.Normal(uint64(i)))
	}
	for _, s := range []policy.Sampling{{Temperature: 1}, {Temperature: 1, TopK: 50}, {Temperature: 0.7, TopP: 0.95}, {Temperature: 1, TopK: 1000, TopP: 0.9}} {
		b.Run(fmt.Sprintf("T=%g/k=%d/p=%g", s.Temperature, s.TopK, s.TopP), func(b *testing.B) {
			var d distribution
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.set(logits, s, -1)
				d.sample(stream.Float64(uint64(i)))
			}
		})
	}
}
