package loss

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// near fails the test unless got is want to the nine decimals with which
// the frameworks' vectors were written down.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("%s = %.12f, want %.12f", what, got, want)
	}
}

func nearAll(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-9) {
			t.Errorf("%s[%d] = %.12f, want %.12f", what, i, got[i], want[i])
		}
	}
}

// one is a sequence of one token with the given ratio to the old policy.
func one(newLogProb, ratio, advantage float64) TokenInputs {
	return TokenInputs{
		New: []float64{newLogProb}, Old: []float64{newLogProb - math.Log(ratio)},
		Advantage: []float64{advantage}, Mask: []bool{true}, Weight: 1,
	}
}

func mustCoefficients(t *testing.T, spec Loss, in TokenInputs) TokenGradient {
	t.Helper()
	gradient, err := Coefficients(spec, in)
	if err != nil {
		t.Fatal(err)
	}
	return gradient
}

// Clip-higher and dual clip as verl has them, and TRL, which has no dual clip
// but may bound the ratio; worked out by hand.
func TestClipVectors(t *testing.T) {
	t.Parallel()
	verl := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 3, RatioClamp: 20}
	plain := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .28}
	delta := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 4} // TRL's delta of 4
	for _, test := range []struct {
		name      string
		spec      Loss
		advantage float64
		ratio     float64
		loss      float64
		slope     float64
		mark      string
	}{
		{"verl", verl, +1, .5, -.5, -.5, ""},
		{"verl", verl, +1, .9, -.9, -.9, ""},
		{"verl", verl, +1, 1.1, -1.1, -1.1, ""},
		{"verl", verl, +1, 1.35, -1.28, 0, "high"},
		{"verl", verl, +1, 5.0, -1.28, 0, "high"},
		{"verl", verl, -1, .5, .8, 0, "low"},
		{"verl", verl, -1, .9, .9, .9, ""},
		{"verl", verl, -1, 1.1, 1.1, 1.1, ""},
		{"verl", verl, -1, 1.35, 1.35, 1.35, ""},
		{"verl", verl, -1, 5.0, 3.0, 0, "dual"},
		{"TRL without delta", plain, -1, 5.0, 5.0, 5.0, ""},
		{"TRL, delta 4", delta, -1, 5.0, 4.0, 0, "dual"},
	} {
		gradient := mustCoefficients(t, test.spec, one(-1, test.ratio, test.advantage))
		near(t, test.name+" loss", gradient.Stats.Loss(), test.loss)
		near(t, test.name+" slope", gradient.LogProb[0], test.slope)
		s := gradient.Stats
		got := strings.Repeat("high", s.ClippedHigh) + strings.Repeat("low", s.ClippedLow) + strings.Repeat("dual", s.ClippedDual)
		if got != test.mark {
			t.Errorf("%s, A %v, r %v: counted as %q, want %q", test.name, test.advantage, test.ratio, got, test.mark)
		}
	}
}

// The bound of ±20 keeps a ratio finite and takes its gradient away; without
// it the overflow is an error and not an infinite coefficient.
func TestRatioClamp(t *testing.T) {
	t.Parallel()
	far := TokenInputs{New: []float64{0}, Old: []float64{-800}, Advantage: []float64{-1}, Mask: []bool{true}, Weight: 1}
	gradient := mustCoefficients(t, Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, RatioClamp: 20}, far)
	near(t, "loss / exp(20)", gradient.Stats.Loss()/math.Exp(20), 1)
	near(t, "slope", gradient.LogProb[0], 0)

	_, err := Coefficients(Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2}, far)
	var input *InputError
	if !errors.As(err, &input) || input.Input != "importance ratio" || input.Token != 0 || !strings.Contains(err.Error(), "set loss.ratio_clamp") {
		t.Errorf("overflow: error %v, want an InputError about the importance ratio", err)
	}
}

// CISPO by hand: A = 1, lp = -1, r = 1.5. verl, slime and NeMo clip to
// 1+0.28; TRL's bound is absolute; the ratio carries no gradient.
func TestCISPOVectors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spec  Loss
		ratio float64
		loss  float64
	}{
		{"verl, slime, NeMo", Loss{Kind: "cispo", ClipLow: .2, ClipHigh: .28}, 1.5, 1.28},
		{"verl below", Loss{Kind: "cispo", ClipLow: .2, ClipHigh: .28}, .5, .8},
		{"no lower bound", Loss{Kind: "cispo", ClipLow: 1, ClipHigh: .28}, .5, .5},
		{"TRL, epsilon_high 5", Loss{Kind: "cispo", ClipLow: .2, ClipHigh: 5, ClipAbsolute: true}, 1.5, 1.5},
		{"TRL, epsilon_high 0.28 means 0.28", Loss{Kind: "cispo", ClipLow: .2, ClipHigh: .28, ClipAbsolute: true}, 1.5, .28},
		{"TRL has no lower bound", Loss{Kind: "cispo", ClipLow: .2, ClipHigh: 5, ClipAbsolute: true}, .5, .5},
	} {
		gradient := mustCoefficients(t, test.spec, one(-1, test.ratio, 1))
		near(t, test.name+" loss", gradient.Stats.Loss(), test.loss)
		near(t, test.name+" slope", gradient.LogProb[0], -test.loss) // d(-c·A·lp)/dlp = -c·A
	}
}

// GSPO by hand: log-ratios .1, -.2, .4 give s = exp(0.1) for each token.
func TestGSPOVector(t *testing.T) {
	t.Parallel()
	in := TokenInputs{
		New: []float64{-.9, -1.2, -.6, 7}, Old: []float64{-1, -1, -1, -9},
		Advantage: []float64{1, 1, 1, 1}, Mask: []bool{true, true, true, false}, Weight: 1. / 3,
	}
	spec := Loss{Kind: "gspo", ClipLow: .2, ClipHigh: .28}
	gradient := mustCoefficients(t, spec, in)
	near(t, "loss", gradient.Stats.Loss(), -1.105170918076)
	nearAll(t, "slope", gradient.LogProb, []float64{-1.105170918076 / 3, -1.105170918076 / 3, -1.105170918076 / 3, 0})

	// The bounds of GSPO are tight, and hold for all tokens at once.
	spec.ClipHigh = 4e-4
	gradient = mustCoefficients(t, spec, in)
	near(t, "clipped loss", gradient.Stats.Loss(), -1.0004)
	nearAll(t, "clipped slope", gradient.LogProb, []float64{0, 0, 0, 0})
}

// As prime-rl: the change of probability decides. exp(-.5) - exp(-1)
// = .238651 is above .2, exp(-1) - exp(-1.5) = .144749 is not.
func TestDPPOVectors(t *testing.T) {
	t.Parallel()
	spec := Loss{Kind: "dppo", ClipLow: .2, ClipHigh: .2}
	for _, test := range []struct {
		newLogProb, oldLogProb, advantage float64
		loss, slope                       float64
	}{
		{-.5, -1, 1, 0, 0},
		{-1, -1.5, 1, -math.Exp(.5), -math.Exp(.5)},
		{-.5, -1, -1, math.Exp(.5), math.Exp(.5)}, // towards the old policy: not masked
		{-1, -.5, -1, 0, 0},
		{-1.5, -1, -1, math.Exp(-.5), math.Exp(-.5)},
	} {
		in := TokenInputs{New: []float64{test.newLogProb}, Old: []float64{test.oldLogProb}, Advantage: []float64{test.advantage}, Mask: []bool{true}, Weight: 1}
		gradient := mustCoefficients(t, spec, in)
		near(t, "loss", gradient.Stats.Loss(), test.loss)
		near(t, "slope", gradient.LogProb[0], test.slope)
	}

	// prime-rl's squared log-ratio to the sampler, tau 1e-3: .5² · 1e-3, and
	// 2 · .5 · 1e-3.
	spec.SamplerKL = 1e-3
	gradient := mustCoefficients(t, spec, one(-.5, math.Exp(.5), 1))
	near(t, "loss", gradient.Stats.Loss(), .00025)
	near(t, "slope", gradient.LogProb[0], .001)
}

func TestReinforceAndNLL(t *testing.T) {
	t.Parallel()
	gradient := mustCoefficients(t, Loss{Kind: "reinforce"}, one(-1.5, 2, -.5))
	near(t, "reinforce loss", gradient.Stats.Loss(), -.75) // -A·lp = .5 · -1.5
	near(t, "reinforce slope", gradient.LogProb[0], .5)

	in := TokenInputs{New: []float64{-9, -1.5, -.5}, Mask: []bool{false, true, true}, Weight: .5}
	gradient = mustCoefficients(t, Loss{Kind: "nll"}, in)
	near(t, "nll loss", gradient.Stats.Loss(), 1)
	nearAll(t, "nll slope", gradient.LogProb, []float64{0, -.5, -.5})
}

// The estimators of the divergence, worked out in float64 from their formulas,
// without clamps and with those of verl and NeMo-RL.
func TestPenaltyVectors(t *testing.T) {
	t.Parallel()
	type values struct{ k1, k2, k3, k3Slope float64 }
	for _, test := range []struct {
		logProb, reference float64
		want               values
	}{
		{-1, -1.2, values{.2, .02, .018730753078, .181269246922}},
		{-1, -.5, values{-.5, .125, .148721270700, -.648721270700}},
		{-2, -5, values{3, 4.5, 2.049787068368, .950212931632}},
		{-.1, -30, values{29.9, 447.005, 28.9, 1}},
	} {
		d := test.logProb - test.reference
		k1 := penalty(KL{Estimator: "k1"}, test.logProb, test.reference)
		near(t, "k1", k1.value, test.want.k1)
		near(t, "k1 slope", k1.slope, 1)
		k2 := penalty(KL{Estimator: "k2"}, test.logProb, test.reference)
		near(t, "k2", k2.value, test.want.k2)
		near(t, "k2 slope", k2.slope, d)
		k3 := penalty(KL{Estimator: "k3"}, test.logProb, test.reference)
		near(t, "k3", k3.value, test.want.k3)
		near(t, "k3 slope", k3.slope, test.want.k3Slope)
		absolute := penalty(KL{Estimator: "abs"}, test.logProb, test.reference)
		near(t, "abs", absolute.value, math.Abs(test.want.k1))
		near(t, "abs slope", absolute.slope, math.Copysign(1, d))
		// NeMo-RL and verl's k3+: the value of k3, the gradient of k2.
		through := penalty(KL{Estimator: "k3", Gradient: "k2"}, test.logProb, test.reference)
		near(t, "k3 with gradient k2", through.value, test.want.k3)
		near(t, "k3 with gradient k2, slope", through.slope, d)
	}

	raw := penalty(KL{Estimator: "k3"}, -30, -.1)
	if math.Abs(raw.value-9.67e12) > .005e12 {
		t.Errorf("k3 of -30, -.1 = %g, want 9.67e12", raw.value)
	}
	clamped := KL{Estimator: "k3", InputClamp: 20, OutputClamp: 10} // verl, NeMo-RL
	for _, pair := range [][2]float64{{-.1, -30}, {-30, -.1}} {
		got := penalty(clamped, pair[0], pair[1])
		near(t, "clamped k3", got.value, 10)
		near(t, "clamped k3 slope", got.slope, 0)
	}
	// Each clamp by itself: d = -3 and its k3 = exp(3) - 4 = 16.085536923188.
	inner := penalty(KL{Estimator: "k3", InputClamp: 2}, -4, -1)
	near(t, "k3 of d clamped to -2", inner.value, 4.389056098931) // exp(2) - 3
	near(t, "k3 of d clamped to -2, slope", inner.slope, 0)
	outer := penalty(KL{Estimator: "k3", OutputClamp: 16}, -4, -1)
	near(t, "k3 clamped to 16", outer.value, 16)
	near(t, "k3 clamped to 16, slope", outer.slope, 0)
	through := penalty(KL{Estimator: "k3", OutputClamp: 16, Gradient: "k2"}, -4, -1)
	near(t, "k3 clamped to 16 with gradient k2, slope", through.slope, -3)
	if got := penalty(KL{Estimator: "abs"}, -1, -1); got != (term{}) {
		t.Errorf("abs at 0 = %+v, want value and slope 0", got)
	}
}

// slime and TRL may multiply the estimate by the importance ratio: with r = 2
// and k2 = .02 the value is .04 and the slope r·k2 + r·k2' = .04 + .4.
func TestPenaltyImportance(t *testing.T) {
	t.Parallel()
	in := one(-1, 2, 0)
	in.Reference = []float64{-1.2}
	spec := Loss{Kind: "clip", ClipLow: .2, ClipHigh: .2, KL: KL{Coef: 1, Estimator: "k2", Gradient: "estimator", Importance: true}}
	gradient := mustCoefficients(t, spec, in)
	near(t, "loss", gradient.Stats.Loss(), .04)
	near(t, "slope", gradient.LogProb[0], .44)
}

// What lies on a bound is within it, and an advantage of 0 has no bound: the slope by
// kind, at log-probabilities whose ratio is the bound exactly.
func TestOnTheBound(t *testing.T) {
	t.Parallel()
	quarter := math.Exp(.25)
	difference := 1 - math.Exp(-1) // of probabilities, at log-probabilities 0 and -1
	for _, test := range []struct {
		name             string
		spec             Loss
		new, old         float64
		advantage, slope float64
	}{
		{"gmpo, upper", Loss{Kind: "gmpo", ClipHigh: .25}, -1, -1.25, 1, -quarter},
		{"gmpo, lower", Loss{Kind: "gmpo", ClipLow: .25}, -1.25, -1, -.5, .5 / quarter},
		{"gmpo, no advantage", Loss{Kind: "gmpo", ClipHigh: .1}, -1, -1.25, 0, 0},
		{"gmpo, no advantage", Loss{Kind: "gmpo", ClipLow: .1}, -1.25, -1, 0, 0},
		{"gmpo, small advantage", Loss{Kind: "gmpo", ClipLow: .1}, -1.25, -1, .5, -.5 / quarter},
		{"cispo, upper", Loss{Kind: "cispo", ClipHigh: 1, ClipAbsolute: true}, -1, -1, 1, -1},
		{"cispo, lower", Loss{Kind: "cispo", ClipHigh: 1}, -1, -1, 1, -1},
		{"dppo, upper", Loss{Kind: "dppo", ClipHigh: difference}, 0, -1, 1, -math.E},
		{"dppo, lower", Loss{Kind: "dppo", ClipLow: difference}, -1, 0, -1, 1 / math.E},
		{"dppo, no advantage", Loss{Kind: "dppo"}, 0, -1, 0, 0},
		{"dppo, no advantage", Loss{Kind: "dppo"}, -1, 0, 0, 0},
		{"dppo, small advantage", Loss{Kind: "dppo", ClipHigh: 1}, -1, 0, .5, -.5 / math.E},
		{"dual clip", Loss{Kind: "clip", ClipHigh: 9, DualClip: quarter}, -1, -1.25, -1, quarter},
		{"ratio clamp", Loss{Kind: "clip", ClipHigh: 9, RatioClamp: .25}, -1, -1.25, 1, -quarter},
		{"ratio clamp, beyond", Loss{Kind: "clip", ClipHigh: 9, RatioClamp: .2}, -1, -1.25, 1, 0},
	} {
		in := TokenInputs{New: []float64{test.new}, Old: []float64{test.old}, Advantage: []float64{test.advantage}, Mask: []bool{true}, Weight: 1}
		gradient := mustCoefficients(t, test.spec, in)
		near(t, test.name, gradient.LogProb[0], test.slope)
		if s := gradient.Stats; s.ClippedHigh+s.ClippedLow+s.ClippedDual != 0 {
			t.Errorf("%s is counted as clipped: %+v", test.name, s)
		}
	}
}

func TestCoefficientErrors(t *testing.T) {
	t.Parallel()
	spec := Loss{
		Kind: "clip", ClipLow: .2, ClipHigh: .2, EntropyCoef: .01, TruncatedIS: 2,
		KL: KL{Coef: .1, Estimator: "k3", Gradient: "estimator"},
	}
	good := func() TokenInputs {
		three := func() []float64 { return []float64{-1, -1, -1} }
		return TokenInputs{
			New: three(), Old: three(), Reference: three(), Sampler: three(), Entropy: three(), Advantage: three(),
			Mask: []bool{false, true, true}, Weight: 1,
		}
	}
	mustCoefficients(t, spec, good())
	for _, test := range []struct {
		name   string
		change func(*Loss, *TokenInputs)
		code   int
		want   string
	}{
		{"new", func(_ *Loss, in *TokenInputs) { in.New[2] = math.NaN() }, exitcode.Failed, "new log-probability of token 2 is NaN, want a finite number"},
		{"old", func(_ *Loss, in *TokenInputs) { in.Old[1] = math.Inf(-1) }, exitcode.Failed, "old log-probability of token 1 is -Inf, want a finite number"},
		{"reference", func(_ *Loss, in *TokenInputs) { in.Reference[1] = math.NaN() }, exitcode.Failed, "reference log-probability of token 1 is NaN, want a finite number"},
		{"sampler, trl#6166", func(_ *Loss, in *TokenInputs) { in.Sampler[1] = math.NaN() }, exitcode.Failed, "sampler log-probability of token 1 is NaN, want a finite number"},
		{"entropy", func(_ *Loss, in *TokenInputs) { in.Entropy[1] = math.Inf(1) }, exitcode.Failed, "entropy of token 1 is +Inf, want a finite number"},
		{"advantage", func(_ *Loss, in *TokenInputs) { in.Advantage[1] = math.NaN() }, exitcode.Failed, "advantage of token 1 is NaN, want a finite number"},
		{"k3 overflows", func(_ *Loss, in *TokenInputs) { in.Reference[1] = 800 }, exitcode.Failed, "loss of token 1 is +Inf, want a finite number: set loss.ratio_clamp, loss.kl.input_clamp and loss.kl.output_clamp"},
		{"sampler beyond squares", func(spec *Loss, in *TokenInputs) { spec.SamplerKL, in.Sampler[1] = 1, 1e200 }, exitcode.Failed, "loss of token 1 is +Inf, want a finite number: set loss.ratio_clamp, loss.kl.input_clamp and loss.kl.output_clamp"},
		{"advantage, without old", func(spec *Loss, in *TokenInputs) { spec.Kind, in.Old, in.Advantage[1] = "reinforce", nil, math.NaN() }, exitcode.Failed, "advantage of token 1 is NaN, want a finite number"},
		{"weights", func(_ *Loss, in *TokenInputs) { in.Weights = []float64{1, 1} }, exitcode.Bug, "2 weights for 3 tokens"},
		{"weight below 0", func(_ *Loss, in *TokenInputs) { in.Weights = []float64{1, -1, 1} }, exitcode.Bug, "weight of token 1 is -1, want 0 or more"},
		{"weight", func(_ *Loss, in *TokenInputs) { in.Weight = math.NaN() }, exitcode.Bug, "weight of token 0 is NaN, want 0 or more"},
		{"no reference", func(_ *Loss, in *TokenInputs) { in.Reference = nil }, exitcode.Bug, "reference log-probability: 0 values for 3 tokens"},
		{"no old", func(_ *Loss, in *TokenInputs) { in.Old = nil }, exitcode.Bug, "old log-probability: 0 values for 3 tokens"},
		{"short entropy", func(_ *Loss, in *TokenInputs) { in.Entropy = in.Entropy[:2] }, exitcode.Bug, "entropy: 2 values for 3 tokens"},
		{"kind", func(spec *Loss, _ *TokenInputs) { spec.Kind = "ppo" }, exitcode.Usage, `loss.kind: unknown value "ppo"`},
		{"estimator", func(spec *Loss, _ *TokenInputs) { spec.KL.Estimator = "k4" }, exitcode.Usage, `loss.kl.estimator: unknown value "k4"`},
		{"gradient", func(spec *Loss, _ *TokenInputs) { spec.KL.Gradient = "k9" }, exitcode.Usage, `loss.kl.gradient: unknown value "k9"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec, in := spec, good()
			test.change(&spec, &in)
			_, err := Coefficients(spec, in)
			if err == nil || !strings.HasSuffix(err.Error(), test.want) || exitcode.Code(err) != test.code {
				t.Errorf("error %v (code %d), want %q (code %d)", err, exitcode.Code(err), test.want, test.code)
			}
		})
	}
}
