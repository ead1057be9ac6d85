package loss

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
)

// Around is what a loss's settings are checked against.
type Around struct {
	Prompts int  // instances of an iteration
	Adapter bool // a low-rank adapter of the policy is trained
}

// Validate checks the section loss.
func (l Loss) Validate(c *config.Checker, around Around) {
	kind := c.Choice("loss.kind", l.Kind)
	c.AtLeast("loss.norm_tokens", l.NormTokens, 0)
	if l.NormPadded && l.NormTokens > 0 {
		c.Add("loss.norm_padded", true, "must be false when loss.norm_tokens is given")
	}
	c.Share("loss.clip_low", l.ClipLow)
	c.NotNegative("loss.clip_high", l.ClipHigh)
	if kind && l.ClipHigh == 0 && slices.Contains([]string{"clip", "cispo", "gspo", "gmpo", "dppo"}, l.Kind) {
		c.Add("loss.clip_high", l.ClipHigh, "must be above 0 for loss.kind %s", l.Kind)
	}
	if kind && l.ClipAbsolute && l.Kind != "cispo" {
		c.Add("loss.clip_absolute", true, "is for loss.kind cispo only, not %s", l.Kind)
	}
	if l.DualClip != 0 && !(l.DualClip > 1) {
		c.Add("loss.dual_clip", l.DualClip, "must be above 1, or 0 for none")
	}
	if kind && l.Kind == "sapo" {
		c.Positive("loss.tau_positive", l.TauPositive)
		c.Positive("loss.tau_negative", l.TauNegative)
	}
	checkTokens(c, l)
	c.NotNegative("loss.ratio_clamp", l.RatioClamp)
	checkKL(c, l.KL, around.Adapter)
	c.NotNegative("loss.value.coef", l.Value.Coef)
	c.NotNegative("loss.value.clip", l.Value.Clip)
	c.NotNegative("loss.value.learning_rate", l.Value.LearningRate)
	c.NotNegative("loss.value.max_grad_norm", l.Value.MaxGradNorm)
	c.NotNegative("loss.sampler_kl", l.SamplerKL)
	c.NotNegative("loss.entropy_coef", l.EntropyCoef)
	c.NotNegative("loss.entropy_target", l.EntropyTarget)
	if c.NotNegative("loss.entropy_step", l.EntropyStep); (l.EntropyTarget > 0) != (l.EntropyStep > 0) {
		c.Add("loss.entropy_step", l.EntropyStep, "and loss.entropy_target go together: above 0 both, or neither")
	}
	c.NotNegative("loss.truncated_is", l.TruncatedIS)
	checkMismatch(c, l)
	c.AtLeast("loss.epochs", l.Epochs, 1)
	if c.AtLeast("loss.mini_batches", l.MiniBatches, 1) && around.Prompts >= 1 && l.MiniBatches > around.Prompts {
		c.Add("loss.mini_batches", l.MiniBatches, "must not be above rollout.prompts %d", around.Prompts)
	}
}

func checkTokens(c *config.Checker, l Loss) {
	t := l.Tokens
	if !c.Choice("loss.tokens.name", t.Name) || t.Name == TokensAll {
		return
	}
	if !LooksAtAdvantage(l.Kind) {
		c.Add("loss.tokens.name", t.Name, "does not go with loss.kind %s", l.Kind)
	}
	if !(t.Share > 0 && t.Share <= 1) {
		c.Add("loss.tokens.share", t.Share, "must be above 0 and at most 1")
	}
	if t.Name == TokensClipCov && !(t.Low < t.High) {
		c.Add("loss.tokens.low", t.Low, "must be below loss.tokens.high %v", t.High)
	}
	if t.Name == TokensKLCov {
		c.Positive("loss.tokens.kl_coef", t.KLCoef)
	}
}

func checkMismatch(c *config.Checker, l Loss) {
	m := l.Mismatch
	if c.Choice("loss.mismatch.weight", m.Weight) && m.Weight != "token" && l.TruncatedIS == 0 {
		c.Add("loss.mismatch.weight", m.Weight, "needs loss.truncated_is: without a bound nothing is weighed")
	}
	mask := c.Choice("loss.mismatch.mask", m.Mask)
	if c.Share("loss.mismatch.low", m.Low); m.High != 0 && !(m.High >= 1) {
		c.Add("loss.mismatch.high", m.High, "must be 1 or more, or 0 for none: where sampler and old policy agree the ratio is 1")
	}
	switch bounds := m.Low != 0 || m.High != 0; {
	case !mask:
	case m.Mask == "none" && (bounds || m.Inverse):
		c.Add("loss.mismatch.mask", m.Mask, "must name a ratio for the bounds of loss.mismatch: token, sequence or geometric")
	case m.Mask != "none" && !bounds:
		c.Add("loss.mismatch.mask", m.Mask, "needs loss.mismatch.low or loss.mismatch.high")
	}
}

func checkKL(c *config.Checker, kl KL, adapter bool) {
	c.NotNegative("loss.kl.coef", kl.Coef)
	c.Choice("loss.kl.estimator", kl.Estimator)
	c.Choice("loss.kl.gradient", kl.Gradient)
	c.NotNegative("loss.kl.input_clamp", kl.InputClamp)
	c.NotNegative("loss.kl.output_clamp", kl.OutputClamp)
	c.AtLeast("loss.kl.ref_every", kl.RefEvery, 0)
	if c.Share("loss.kl.ref_alpha", kl.RefAlpha) && kl.RefAlpha == 0 && kl.RefEvery > 0 {
		c.Add("loss.kl.ref_alpha", kl.RefAlpha, "must be above 0 when loss.kl.ref_every is %d, or the refresh changes nothing", kl.RefEvery)
	}
	if kl.Coef > 0 && kl.RefEvery > 0 && adapter {
		c.Add("loss.kl.ref_every", kl.RefEvery, "must be 0 with policy.lora: the reference is the policy without the adapter, which is never refreshed")
	}
}

// Validate checks the optimizer that stands at a field: a recipe has several.
func (o Optimizer) Validate(c *config.Checker, field string) {
	c.NotNegative(field+".learning_rate", o.LearningRate)
	for _, beta := range []struct {
		name  string
		value float64
	}{{".beta1", o.Beta1}, {".beta2", o.Beta2}} {
		if !(beta.value >= 0 && beta.value < 1) {
			c.Add(field+beta.name, beta.value, "must be at least 0 and below 1")
		}
	}
	c.Positive(field+".epsilon", o.Epsilon)
	c.NotNegative(field+".weight_decay", o.WeightDecay)
	c.NotNegative(field+".max_grad_norm", o.MaxGradNorm)
	c.AtLeast(field+".warmup_steps", o.WarmupSteps, 0)
	c.Choice(field+".decay", o.Decay)
	c.Share(field+".min_ratio", o.MinRatio)
	c.Choice(field+".state", o.State)
}
