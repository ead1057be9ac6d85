package loss

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// gapped is a sequence on policy, of advantage 1, with the log ratios d of old
// policy to sampler: the slope of a token is minus its weight.
func gapped(d ...float64) TokenInputs {
	in := TokenInputs{Weight: 1}
	for _, gap := range d {
		in.New, in.Old, in.Sampler = append(in.New, -1), append(in.Old, -1), append(in.Sampler, -1-gap)
		in.Advantage, in.Mask = append(in.Advantage, 1), append(in.Mask, true)
	}
	return in
}

// Log ratios .5, -.3 and 1.2 have the ratios 1.648721, .740818 and 3.320117;
// their sum 1.4 is the ratio 4.055200 of the sequence and a third of it the
// geometric mean 1.594670. The settings are those of the frameworks.
func TestMismatchVectors(t *testing.T) {
	t.Parallel()
	const first, second, third, product, geometric = 1.648721270700, .740818220682, 3.320116922737, 4.055199966845, 1.594669758228
	const untruncated = 1e9
	for _, test := range []struct {
		name      string
		truncated float64
		mismatch  Mismatch
		want      []float64
	}{
		{"TIS of tokens", 2, Mismatch{Weight: "token", Mask: "none"}, []float64{first, second, 2}},
		{"TIS of the sequence", 2, Mismatch{Weight: "sequence", Mask: "none"}, []float64{2, 2, 2}},
		{"TIS of the sequence, not reached", 5, Mismatch{Weight: "sequence", Mask: "none"}, []float64{product, product, product}},
		{"TIS of the geometric mean", 2, Mismatch{Weight: "geometric", Mask: "none"}, []float64{geometric, geometric, geometric}},
		{"TIS of the geometric mean, reached", 1.5, Mismatch{Weight: "geometric", Mask: "none"}, []float64{1.5, 1.5, 1.5}},
		{"IcePop", 2, Mismatch{Weight: "token", Mask: "token", Low: .5, High: 2}, []float64{first, second, 0}},
		{"IcePop, lower bound", 2, Mismatch{Weight: "token", Mask: "token", Low: .8, High: 2}, []float64{first, 0, 0}},
		{"sequence_mask of TRL, cap 3", 3, Mismatch{Weight: "sequence", Mask: "sequence", High: 3}, []float64{0, 0, 0}},
		{"sequence_mask of TRL, cap 5", 5, Mismatch{Weight: "sequence", Mask: "sequence", High: 5}, []float64{product, product, product}},
		{"geometric mask", 0, Mismatch{Weight: "token", Mask: "geometric", High: 1.5}, []float64{0, 0, 0}},
		{"seq-mask-tis", untruncated, Mismatch{Weight: "token", Mask: "geometric", Low: .999, High: 1.002}, []float64{0, 0, 0}},
		{"seq-mask-tis, wider", untruncated, Mismatch{Weight: "token", Mask: "geometric", Low: .5, High: 1.6}, []float64{first, second, third}},
		{"token_k1", 0, Mismatch{Weight: "token", Mask: "token", Low: .5, High: 5, Inverse: true}, []float64{1, 1, 0}},
		{"the same bounds on the ratio itself", 0, Mismatch{Weight: "token", Mask: "token", Low: .5, High: 5}, []float64{1, 1, 1}},
		{"token_k1 and TIS", 2, Mismatch{Weight: "token", Mask: "token", Low: .5, High: 5, Inverse: true}, []float64{first, second, 0}},
		{"seq_sum_k1", 0, Mismatch{Weight: "token", Mask: "sequence", Low: .24, Inverse: true}, []float64{1, 1, 1}}, // 1/4.055 = .2466
		{"seq_sum_k1, above", 0, Mismatch{Weight: "token", Mask: "sequence", Low: .25, Inverse: true}, []float64{0, 0, 0}},
		{"seq_mean_k1", 0, Mismatch{Weight: "token", Mask: "geometric", Low: .65, Inverse: true}, []float64{0, 0, 0}}, // 1/1.5947 = .6271
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, TruncatedIS: test.truncated, Mismatch: test.mismatch}
			gradient := mustCoefficients(t, spec, gapped(.5, -.3, 1.2))
			masked, sum := 0, 0.0
			for i, w := range test.want {
				near(t, "weight", -gradient.LogProb[i], w)
				if sum += w; w == 0 {
					masked++
				}
			}
			near(t, "mismatch_masked_share", metric(t, gradient.Stats, "mismatch_masked_share"), float64(masked)/3)
			near(t, "correction", metric(t, gradient.Stats, "correction"), sum/3)
			near(t, "loss", gradient.Stats.Loss(), -sum)
		})
	}
}

// verl's token_k1 with "0.5_5.0" keeps log ratios from -log 5 = -1.609 to
// -log 0.5 = .693.
func TestTokenK1Bounds(t *testing.T) {
	t.Parallel()
	spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, Mismatch: Mismatch{Mask: "token", Low: .5, High: 5, Inverse: true}}
	gradient := mustCoefficients(t, spec, gapped(-1.62, -1.60, .69, .70))
	nearAll(t, "slope", gradient.LogProb, []float64{0, -1, -1, 0})
}

// seq-mask-tis of a sequence that it keeps: log ratios .3, -.3 and .0015 have
// the geometric mean exp(.0005), and the tokens their own ratios.
func TestSequenceMaskKeepsTokenWeights(t *testing.T) {
	t.Parallel()
	spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, TruncatedIS: 1e9, Mismatch: Mismatch{Weight: "token", Mask: "geometric", Low: .999, High: 1.002}}
	gradient := mustCoefficients(t, spec, gapped(.3, -.3, .0015))
	nearAll(t, "slope", gradient.LogProb, []float64{-1.349858807576, -.740818220682, -1.001501125563})
}

// The complete step, whose log ratios of old policy to sampler are .05, 0 and
// 0, .9, -.05: the sequences' ratios are exp(.05) = 1.051271 and exp(.85) = 2.339647,
// their geometric means exp(.025) and exp(.85/3). What is masked stays in the
// divisor, 5 tokens or 2 sequences.
func TestCompleteStepWithMismatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, aggregation string
		truncated         float64
		mismatch          Mismatch
		loss, masked      float64
	}{
		// ((-.781473 - .639816)·1.051271 + (.863661 + .565685 + .707106)·2) / 5
		{"TIS of the sequence", "token_mean", 2, Mismatch{Weight: "sequence", Mask: "none"}, .555748636014, 0},
		// (-1.421289·1.025315 + 2.136452·1.327548) / 5
		{"TIS of the geometric mean", "token_mean", 2, Mismatch{Weight: "geometric", Mask: "none"}, .275794455191, 0},
		// (-.781473 - .639816) / 5
		{"mask", "token_mean", 0, Mismatch{Weight: "token", Mask: "sequence", High: 2}, -.28425770294, .6},
		// (-.781473 - .639816) / 2 / 2
		{"mask of a mean of means", "seq_mean_token_mean", 0, Mismatch{Weight: "token", Mask: "sequence", High: 2}, -.355322128675, .6},
	} {
		spec := Loss{
			Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 3, RatioClamp: 20,
			TruncatedIS: test.truncated, Mismatch: test.mismatch,
		}
		stats, _ := runStep(t, spec, stepWeights[test.aggregation], completeStep(t))
		near(t, test.name, stats.Loss(), test.loss)
		near(t, test.name+", mismatch_masked_share", metric(t, stats, "mismatch_masked_share"), test.masked)
	}
}

// A masked token keeps its penalty and its entropy: d = .2 of k2 is .02.
func TestMaskedTokenKeepsItsPenalty(t *testing.T) {
	t.Parallel()
	spec := Loss{
		Kind: "clip", ClipLow: .2, ClipHigh: .2, EntropyCoef: .5, Mismatch: Mismatch{Mask: "token", High: 2},
		KL: KL{Coef: 1, Estimator: "k2", Gradient: "estimator"},
	}
	in := gapped(1)
	in.Reference, in.Entropy = []float64{-1.2}, []float64{.1}
	gradient := mustCoefficients(t, spec, in)
	near(t, "loss", gradient.Stats.Loss(), .02-.05)
	near(t, "slope", gradient.LogProb[0], .2)
	near(t, "slope of the entropy", gradient.Entropy[0], -.5)
}

// Ratios beyond float64 are bounds reached, not infinities.
func TestMismatchOfFarSamplers(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"token", "sequence", "geometric"} {
		for _, test := range []struct {
			d    float64
			mask Mismatch
			want float64
		}{
			{.5, Mismatch{Mask: "none"}, math.Exp(.5)},
			{1, Mismatch{Mask: "none", High: 1.5}, 2}, // no mask has no bounds
			{1, Mismatch{High: 1.5}, 2},
			{.5, Mismatch{Mask: level, High: 1}, 0},
			{900, Mismatch{Mask: "none"}, 2},
			{900, Mismatch{Mask: level, High: 3}, 0},
			{900, Mismatch{Mask: level, Low: .5, Inverse: true}, 0},
			{-900, Mismatch{Mask: "none"}, 0},
			{-900, Mismatch{Mask: level, Low: .5}, 0},
			{-900, Mismatch{Mask: level, High: 3, Inverse: true}, 0},
		} {
			spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, TruncatedIS: 2, Mismatch: test.mask}
			spec.Mismatch.Weight = level
			near(t, level, -mustCoefficients(t, spec, gapped(test.d)).LogProb[0], test.want)
		}
	}
}

func TestUnknownLevels(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]Mismatch{
		`loss.mismatch.weight: unknown value "none"`: {Weight: "none"},
		`loss.mismatch.mask: unknown value "icepop"`: {Mask: "icepop"},
	} {
		_, err := Coefficients(Loss{Kind: "clip", Mismatch: m}, gapped(0))
		if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// drawMismatch draws a correction that a recipe may have: its bounds leave the
// ratio 1 alone.
func drawMismatch(t *rapid.T) (truncated float64, m Mismatch) {
	m.Weight = rapid.SampledFrom([]string{"token", "sequence", "geometric"}).Draw(t, "weight of")
	m.Mask = rapid.SampledFrom([]string{"none", "token", "sequence", "geometric"}).Draw(t, "mask of")
	m.Low = rapid.SampledFrom([]float64{0, .2, .7, .999, 1}).Draw(t, "low")
	m.High = rapid.SampledFrom([]float64{0, 1, 1.002, 1.5, 4}).Draw(t, "high")
	m.Inverse = rapid.Bool().Draw(t, "inverse")
	return rapid.SampledFrom([]float64{0, 1, 1.1, 2, 1e9}).Draw(t, "truncated_is"), m
}

// Where sampler and old policy agree, every correction of every kind of loss is
// exactly the identity; on policy, every ratio is exactly 1.
func TestMismatchOfNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawSequence(t)
		in.Sampler = in.Old
		onPolicy := rapid.Bool().Draw(t, "on policy")
		if onPolicy {
			in.New = in.Old
		}
		plain := drawLoss(t)
		plain.Kind = rapid.SampledFrom([]string{plain.Kind, "gmpo"}).Draw(t, "kind or gmpo")
		corrected := plain
		plain.TruncatedIS, plain.Mismatch = 0, Mismatch{}
		corrected.TruncatedIS, corrected.Mismatch = drawMismatch(t)
		want, err := Coefficients(plain, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Coefficients(corrected, in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%+v changes what agrees:\n%s", corrected.Mismatch, diff)
		}
		if s := got.Stats; s.CorrectionSum != float64(s.Tokens) || s.Masked != 0 || onPolicy && s.MaxRatioDeviation != 0 {
			t.Fatalf("weights of %d tokens sum to %v, %d are masked, ratios deviate by %v", s.Tokens, s.CorrectionSum, s.Masked, s.MaxRatioDeviation)
		}
	})
}

// GMPO by hand, with log ratios .1, -.2 and .4 and bounds of .15 and .3. For A = 1
// the last is held at .3: r = exp((.1 - .2 + .3)/3). For A = -1 the second is held at
// -.15: r = exp((.1 - .15 + .4)/3). What is held has no gradient, and the others that
// of the mean.
func TestGMPOVector(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		advantage, ratio float64
		held             int
		mark             string
	}{
		{1, 1.068939105747, 2, "clip_high_share"},
		{-1, 1.123744785658, 1, "clip_low_share"},
	} {
		in := TokenInputs{
			New: []float64{-.9, -1.2, -.6, 7}, Old: []float64{-1, -1, -1, -9}, Mask: []bool{true, true, true, false}, Weight: 1. / 3,
		}
		want := make([]float64, 4)
		for i := range in.Mask {
			in.Advantage = append(in.Advantage, test.advantage)
			if i < 3 && i != test.held {
				want[i] = -test.advantage * test.ratio / 3
			}
		}
		spec := Loss{Kind: "gmpo", ClipLow: .15, ClipHigh: .3}
		gradient := mustCoefficients(t, spec, in)
		near(t, "loss", gradient.Stats.Loss(), -test.advantage*test.ratio)
		nearAll(t, "slope", gradient.LogProb, want)
		near(t, test.mark, metric(t, gradient.Stats, test.mark), 1./3)
		for i := range in.Mask[:3] {
			ahead, behind := in, in
			ahead.New, behind.New = append([]float64(nil), in.New...), append([]float64(nil), in.New...)
			ahead.New[i] += differenceStep
			behind.New[i] -= differenceStep
			slope := (mustCoefficients(t, spec, ahead).Stats.Loss() - mustCoefficients(t, spec, behind).Stats.Loss()) / (2 * differenceStep)
			if math.Abs(slope-want[i]) > 1e-9 {
				t.Errorf("A %v, token %d: finite difference %v, want %v", test.advantage, i, slope, want[i])
			}
		}
	}
}
