package loss

import (
	"testing"
)

// A complete step as verl takes it by default, worked out in float64 from its
// formulas: two responses, of two and three tokens.
func completeStep(t *testing.T) []TokenInputs {
	t.Helper()
	const a, b = .707105781188, -.707105781188 // rewards 1 and 0: ±.5/(.707106781187 + 1e-6)
	return []TokenInputs{
		{
			New: []float64{-.9, -1.1}, Old: []float64{-1, -1}, Reference: []float64{-1.2, -1}, Sampler: []float64{-1.05, -1},
			Advantage: []float64{a, a}, Mask: []bool{true, true},
		},
		{
			New: []float64{-.5, -2.0, -.3}, Old: []float64{-.7, -1.5, -.3}, Reference: []float64{-.6, -1.9, -.1}, Sampler: []float64{-.7, -2.4, -.25},
			Advantage: []float64{b, b, b}, Mask: []bool{true, true, true},
		},
	}
}

// stepWeights are the weights of the complete step's sequences, of two and three tokens.
var stepWeights = map[string][]float64{
	"token_mean":              {1. / 5, 1. / 5},
	"seq_mean_token_mean":     {1. / 4, 1. / 6},
	"seq_mean_token_sum":      {1. / 2, 1. / 2},
	"seq_mean_token_sum_norm": {1. / 16, 1. / 16}, // of 8 tokens
}

// runStep computes the loss of the step, and its gradient by each token.
func runStep(t *testing.T, spec Loss, weights []float64, sequences []TokenInputs) (Stats, []float64) {
	t.Helper()
	var stats Stats
	var slopes []float64
	for i, s := range sequences {
		s.Weight = weights[i]
		gradient := mustCoefficients(t, spec, s)
		stats.Add(gradient.Stats)
		slopes = append(slopes, gradient.LogProb...)
	}
	return stats, slopes
}

func metric(t *testing.T, stats Stats, name string) float64 {
	t.Helper()
	for _, m := range stats.Metrics() {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("no metric %q", name)
	return 0
}

func TestCompleteStep(t *testing.T) {
	t.Parallel()
	vanilla := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 3, RatioClamp: 20}
	for aggregation, want := range map[string]float64{
		"token_mean":              .143032568578,
		"seq_mean_token_mean":     .000753097590,
		"seq_mean_token_sum":      .357581421446,
		"seq_mean_token_sum_norm": .044697677681, // divided by 8
	} {
		stats, _ := runStep(t, vanilla, stepWeights[aggregation], completeStep(t))
		near(t, aggregation, stats.Loss(), want)
	}

	stats, slopes := runStep(t, vanilla, stepWeights["token_mean"], completeStep(t))
	nearAll(t, "d loss / d new", slopes, []float64{-.156294549074, -.127963153866, .172732190291, 0, .141421156238})
	near(t, "clip_share", metric(t, stats, "clip_share"), .2)
	near(t, "clip_low_share", metric(t, stats, "clip_low_share"), .2)
	near(t, "clip_high_share", metric(t, stats, "clip_high_share"), 0)
	near(t, "clip_dual_share", metric(t, stats, "clip_dual_share"), 0)
	near(t, "old_kl_k1", metric(t, stats, "old_kl_k1"), .06)
	near(t, "sampler_kl_k1", metric(t, stats, "sampler_kl_k1"), -.18)
	near(t, "sampler_kl_k3", metric(t, stats, "sampler_kl_k3"), .112420726407)
	near(t, "sampler_difference_max", metric(t, stats, "sampler_difference_max"), .9)
	near(t, "sampler_difference", metric(t, stats, "sampler_difference"), (.05+0+0+.9+.05)/5)
	near(t, "sampler_beyond_share", metric(t, stats, "sampler_beyond_share"), .2) // exp(.9) = 2.46 is above 2
	near(t, "sampler_known_share", metric(t, stats, "sampler_known_share"), 1)
	near(t, "ratio_deviation_max", metric(t, stats, "ratio_deviation_max"), .393469340287)                       // 1 - exp(-.5)
	near(t, "ratio", metric(t, stats, "ratio"), (1.105170918076+.904837418036+1.221402758160+.606530659713+1)/5) // exp of .1, -.1, .2, -.5, 0
	near(t, "reference_kl without a penalty", metric(t, stats, "reference_kl"), 0)
}

// A sequence whose sampler is unknown counts in the loss, and not in the gap:
// what is left is the second sequence, old -.7, -1.5, -.3 and sampler -.7, -2.4, -.25.
func TestUnknownSamplerIsNoGap(t *testing.T) {
	t.Parallel()
	spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 3, RatioClamp: 20, TruncatedIS: 2.5}
	batch := completeStep(t)
	batch[0].Sampler, batch[0].SamplerUnknown = nil, true
	stats, _ := runStep(t, spec, stepWeights["token_mean"], batch)
	near(t, "sampler_known_share", metric(t, stats, "sampler_known_share"), 3./5)
	near(t, "sampler_difference", metric(t, stats, "sampler_difference"), (.9+.05)/3)
	near(t, "sampler_kl_k1", metric(t, stats, "sampler_kl_k1"), (-.9+.05)/3)
	near(t, "sampler_beyond_share", metric(t, stats, "sampler_beyond_share"), 0) // 2.46 is below 2.5
	near(t, "correction", metric(t, stats, "correction"), (1+1+1+2.459603111157+.951229424501)/5)
	batch[1].Sampler, batch[1].SamplerUnknown = nil, true
	stats, _ = runStep(t, spec, stepWeights["token_mean"], batch)
	for _, name := range []string{"sampler_known_share", "sampler_difference", "sampler_kl_k1", "sampler_kl_k3", "sampler_beyond_share"} {
		near(t, name, metric(t, stats, name), 0)
	}
	near(t, "correction", metric(t, stats, "correction"), 1)
}

func TestCompleteStepWithPenalty(t *testing.T) {
	t.Parallel()
	spec := Loss{
		Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 3, RatioClamp: 20,
		KL: KL{Coef: .001, Estimator: "k3", Gradient: "estimator", InputClamp: 20, OutputClamp: 10},
	}
	stats, _ := runStep(t, spec, stepWeights["token_mean"], completeStep(t))
	near(t, "reference_kl", metric(t, stats, "reference_kl"), .015480046606)
	near(t, "reference_loss", metric(t, stats, "reference_loss"), .000015480046606)
	near(t, "loss", stats.Loss(), .143048048625)
}

func TestCompleteStepWithTruncatedImportance(t *testing.T) {
	t.Parallel()
	for aggregation, want := range map[string]float64{"token_mean": .241258909502, "seq_mean_token_mean": .079269467990} {
		spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 3, RatioClamp: 20, TruncatedIS: 2}
		stats, _ := runStep(t, spec, stepWeights[aggregation], completeStep(t))
		near(t, aggregation, stats.Loss(), want)
		near(t, "correction", metric(t, stats, "correction"), (1.051271096376+1+1+2+.951229424501)/5)
	}
}

// Logits 2, 1, 0 have entropy .832395581840. Two tokens of it
// under a token mean, beside a policy term of 0.
func TestEntropyTerm(t *testing.T) {
	t.Parallel()
	const entropy = .832395581840
	spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, EntropyCoef: .01}
	in := TokenInputs{
		New: []float64{-1, -1, 0}, Old: []float64{-1, -1, 0}, Entropy: []float64{entropy, entropy, 99},
		Advantage: []float64{0, 0, 0}, Mask: []bool{true, true, false}, Weight: .5,
	}
	gradient := mustCoefficients(t, spec, in)
	near(t, "loss", gradient.Stats.Loss(), -.01*entropy)
	nearAll(t, "d loss / d H", gradient.Entropy, []float64{-.005, -.005, 0})
	near(t, "entropy", metric(t, gradient.Stats, "entropy"), entropy)

	in.Weight, in.Weights = 9, []float64{.25, .75, 9}
	gradient = mustCoefficients(t, spec, in)
	near(t, "loss by weights of tokens", gradient.Stats.Loss(), -.01*entropy)
	nearAll(t, "d loss / d H by weights of tokens", gradient.Entropy, []float64{-.0025, -.0075, 0})

	spec.EntropyCoef = 0
	if gradient = mustCoefficients(t, spec, in); gradient.Entropy != nil {
		t.Errorf("without a coefficient d loss / d H = %v, want nil", gradient.Entropy)
	}
}
