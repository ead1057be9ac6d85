package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// logsOf gives logits whose softmax at temperature 1 is p.
func logsOf(p ...float64) []float32 {
	logits := make([]float32, len(p))
	for i, x := range p {
		logits[i] = float32(math.Log(x))
	}
	return logits
}

// Worked by hand from p = (.1, .4, .1, .3, .1).
func TestKeptSet(t *testing.T) {
	t.Parallel()
	logits := logsOf(.1, .4, .1, .3, .1)
	tests := []struct {
		name   string
		s      policy.Sampling
		target int32
		want   []int32
	}{
		{"all", policy.Sampling{Temperature: 1}, -1, []int32{0, 1, 2, 3, 4}},
		{"k above the vocabulary", policy.Sampling{Temperature: 1, TopK: 9}, -1, []int32{0, 1, 2, 3, 4}},
		{"k = 1", policy.Sampling{Temperature: 1, TopK: 1}, -1, []int32{1}},
		{"k = 3, a tie to the lowest id", policy.Sampling{Temperature: 1, TopK: 3}, -1, []int32{0, 1, 3}},
		{"p = 1", policy.Sampling{Temperature: 1, TopP: 1}, -1, []int32{0, 1, 2, 3, 4}},
		{"p = .39", policy.Sampling{Temperature: 1, TopP: .39}, -1, []int32{1}},
		{"p = .41", policy.Sampling{Temperature: 1, TopP: .41}, -1, []int32{1, 3}},
		{"p = .75, a tie to the lowest id", policy.Sampling{Temperature: 1, TopP: .75}, -1, []int32{0, 1, 3}},
		{"p = .85", policy.Sampling{Temperature: 1, TopP: .85}, -1, []int32{0, 1, 2, 3}},
		// Of the top two, 4/7 = .571 and 3/7: .6 needs both, .56 the first.
		{"k = 2, p = .6", policy.Sampling{Temperature: 1, TopK: 2, TopP: .6}, -1, []int32{1, 3}},
		{"k = 2, p = .56", policy.Sampling{Temperature: 1, TopK: 2, TopP: .56}, -1, []int32{1}},
		// At temperature 1/2 the masses are squares: .01 .16 .01 .09 .01 of .28; .16/.28 = .571.
		{"T = .5, p = .56", policy.Sampling{Temperature: .5, TopP: .56}, -1, []int32{1}},
		{"T = .5, p = .58", policy.Sampling{Temperature: .5, TopP: .58}, -1, []int32{1, 3}},
		{"target outside", policy.Sampling{Temperature: 1, TopK: 1}, 4, []int32{1, 4}},
		{"target inside", policy.Sampling{Temperature: 1, TopK: 2}, 3, []int32{1, 3}},
		{"greedy keeps all", policy.Sampling{}, -1, []int32{0, 1, 2, 3, 4}},
	}
	for _, test := range tests {
		var d distribution
		d.set(logits, test.s, test.target)
		var kept []int32
		total := 0.0
		for i, e := range d.exps {
			if e > 0 {
				kept = append(kept, int32(i))
				total += math.Exp(float64(d.logProb(logits, int32(i))))
			}
		}
		if diff := cmp.Diff(test.want, kept); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if math.Abs(total-1) > 1e-6 {
			t.Errorf("%s: the probabilities add up to %v", test.name, total)
		}
	}
}

// With p = (e², e, 1)/(e² + e + 1), -Σ p_j ln p_j is 0.832395581840.
func TestEntropy(t *testing.T) {
	t.Parallel()
	var d distribution
	logits := []float32{2, 1, 0}
	d.set(logits, policy.Sampling{Temperature: 1}, -1)
	if got := d.entropy(logits); math.Abs(float64(got)-0.832395581840) > 1e-6 {
		t.Errorf("entropy %v", got)
	}
	if got := d.logProb(logits, 1); math.Abs(float64(got)+1.407605964) > 1e-6 {
		t.Errorf("log-probability %v, want 1 - ln(e²+e+1) = -1.407606", got)
	}
}

// The inverse of the cumulative distribution .1 .5 .6 .9 1, at and between its steps.
func TestSampleInverts(t *testing.T) {
	t.Parallel()
	var d distribution
	d.set(logsOf(.1, .4, .1, .3, .1), policy.Sampling{Temperature: 1}, -1)
	for u, want := range map[float64]int32{0: 0, .0999: 0, .1001: 1, .4999: 1, .5001: 2, .5999: 2, .6001: 3, .8999: 3, .9001: 4, 1 - 0x1p-53: 4} {
		if got := d.sample(u); got != want {
			t.Errorf("u = %v: token %d, want %d", u, got, want)
		}
	}
	d.set(logsOf(.1, .4, .1, .3, .1), policy.Sampling{Temperature: 1, TopK: 2}, -1)
	for u, want := range map[float64]int32{0: 1, .57: 1, .572: 3, 1 - 0x1p-53: 3} {
		if got := d.sample(u); got != want {
			t.Errorf("top 2, u = %v: token %d, want %d", u, got, want)
		}
	}
}

// A sampled token always has a positive probability and lies where the
// float64 cumulative distribution says, up to rounding.
func TestSampleAgainstDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-30, 5), 1, 300).Draw(t, "logits")
		u := rapid.Float64Range(0, 1-0x1p-53).Draw(t, "u")
		s := policy.Sampling{Temperature: 1, TopK: rapid.IntRange(0, 20).Draw(t, "k")}
		var d distribution
		d.set(logits, s, -1)
		got := d.sample(u)
		if d.exps[got] == 0 {
			t.Fatalf("token %d is not in the kept set", got)
		}
		total, below := 0.0, 0.0
		for i, e := range d.exps {
			total += float64(e)
			if i < int(got) {
				below += float64(e)
			}
		}
		const slack = 1e-12
		if u*total < below-slack*total || u*total > below+float64(d.exps[got])+slack*total {
			t.Fatalf("u·total = %v is not in [%v, %v]", u*total, below, below+float64(d.exps[got]))
		}
	})
}

// Chi-square over 20,000 draws from a known distribution of eight tokens at
// temperature 2. With 7 degrees of freedom, 24.3 is exceeded once in 1,000.
func TestSamplingDistribution(t *testing.T) {
	t.Parallel()
	logits := logsOf(.3, .05, .2, .1, .05, .15, .1, .05)
	s := policy.Sampling{Temperature: 2}
	weights, total := make([]float64, len(logits)), 0.0
	for i, x := range logits {
		weights[i] = math.Exp(float64(x) / 2)
		total += weights[i]
	}
	const draws = 20_000
	counts := make([]float64, len(logits))
	var d distribution
	d.set(logits, s, -1)
	for i := range draws {
		stream := rng.New(77, rng.PurposeSample, 1, "chi", i)
		counts[d.sample(stream.Float64(12))]++
	}
	chi := 0.0
	for i, n := range counts {
		expected := draws * weights[i] / total
		chi += (n - expected) * (n - expected) / expected
	}
	if chi > 24.3 {
		t.Errorf("chi-square is %.1f over 7 degrees of freedom", chi)
	}
}

func TestGreedyTies(t *testing.T) {
	t.Parallel()
	if got := argmax([]float32{1, 3, 2, 3, 3}); got != 1 {
		t.Errorf("argmax is %d, want the lowest of 1, 3 and 4", got)
	}
}

// Logits that are not numbers are no distribution.
func TestNotFinite(t *testing.T) {
	t.Parallel()
	bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}
	for _, s := range []policy.Sampling{{}, {Temperature: 1, TopK: 2}, {Temperature: 1, TopP: 0.5}, {Temperature: 1, TopK: 2, TopP: 0.5}} {
		for i, x := range bad {
			var d distribution
			logits := slices.Repeat([]float32{x}, 5)
			d.set(logits, s, -1)
			if d.finite() {
				t.Errorf("%+v: case %d counts as finite", s, i)
			}
		}
		var d distribution
		d.set([]float32{1, 2, float32(math.NaN()), 0}, s, -1)
		if d.finite() && s.TopK == 0 && s.TopP == 0 {
			t.Errorf("%+v: one logit that is not a number passed", s)
		}
	}
}

// Down to the least temperature that is taken, logits of the size that large
// models have make a distribution.
func TestLowTemperature(t *testing.T) {
	t.Parallel()
	s := policy.Sampling{Temperature: policy.MinTemperature}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	stream := rng.New(1, rng.PurposeTest, 0, "low temperature", 0)
	logits := make([]float32, 100)
	for trial := range 300 {
		for i := range logits {
			logits[i] = float32(5 * stream.Normal(uint64(200*trial+i)))
		}
		best := int32(trial % len(logits))
		logits[best] = float32(25 + 100*stream.Float64(uint64(200*trial+150)))
		var d distribution
		d.set(logits, s, -1)
		if p := d.logProb(logits, best); !d.finite() || d.sample(.5) != best || math.Abs(float64(p)) > 1e-6 {
			t.Fatalf("the best of logits up to %g has log-probability %g", logits[best], p)
		}
	}
}
