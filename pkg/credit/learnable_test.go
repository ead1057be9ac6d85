package credit

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestUnlearnable: what cannot be learned from is dropped, alone, and by name.
func TestUnlearnable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		spec    AdvantageSettings
		rewards []float64
		dropped []string
		want    []float64 // advantages
		factor  float64   // after whitening; 0 for none
	}{
		{"a factor that is no number", AdvantageSettings{Name: "none"}, []float64{1, math.NaN()}, []string{ReasonUnlearnable, ReasonUnlearnable}, []float64{0, 0}, math.NaN()},
		{"the largest factor", AdvantageSettings{Name: "none"}, []float64{1}, []string{""}, []float64{1}, 1e9},
		{"a larger one", AdvantageSettings{Name: "none"}, []float64{1}, []string{ReasonUnlearnable}, []float64{0}, 1.1e9},
		{"a reward beyond what can be squared", AdvantageSettings{Name: "group", Baseline: "mean", Scale: "none"}, []float64{1, -1e306, 0}, []string{"", ReasonUnlearnable, ""}, []float64{.5, 0, -.5}, 0},
		{"one that is no number", AdvantageSettings{Name: "group", Baseline: "mean", Scale: "none"}, []float64{1, math.NaN(), 0}, []string{"", ReasonUnlearnable, ""}, []float64{.5, 0, -.5}, 0},
		{"no baseline", AdvantageSettings{Name: "none"}, []float64{1, math.Inf(1), -2e9}, []string{"", ReasonUnlearnable, ReasonUnlearnable}, []float64{1, 0, 0}, 0},
		{"the largest", AdvantageSettings{Name: "none"}, []float64{shard.MaxReward, -shard.MaxReward}, []string{"", ""}, []float64{1e9, -1e9}, 0},
		// The mean of 1 and -1 is 0, and nothing is divided by it.
		{"a scale of 0", AdvantageSettings{Name: "group", Baseline: "leave_one_out", Scale: "mean", ZeroScale: "divide"}, []float64{1, -1}, []string{ReasonUnlearnable, ReasonUnlearnable}, []float64{0, 0}, 0},
	} {
		composition := plain(t, func(r *sections) { r.Advantage = c.spec })
		if c.factor != 0 {
			composition.Factors = []Factor{times{c.factor, true}}
		}
		var traces []Trace
		for _, reward := range c.rewards {
			traces = append(traces, said(shard.OutcomeOK, reward, 1))
		}
		for i, s := range assign(t, composition, Group{Traces: traces})[0] {
			s.Raw = 0
			unlearned := Segment{Trace: i, Factor: 1, Weight: 1, Dropped: ReasonUnlearnable} // of which nothing is left
			if s.Dropped != c.dropped[i] || s.Advantage != c.want[i] || s.Dropped != "" && !cmp.Equal(s, unlearned) {
				t.Errorf("%s: segment %d has the advantage %v and is dropped for %q, want %v and %q", c.what, i, s.Advantage, s.Dropped, c.want[i], c.dropped[i])
			}
		}
	}
}
