package loss

import (
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TokenInputs is one sequence as the loss sees it. All slices have one
// length; what they hold where Mask is false is never looked at, so padding
// may be anything, NaN included. Log-probabilities are in nats, at the
// sampling temperature and over the truncated support.
type TokenInputs struct {
	New       []float64 // log-probability under the policy that is being trained
	Old       []float64 // under the policy that the ratio is taken to; nil for nll and reinforce means equal to New
	Reference []float64 // under the reference policy; needed when loss.kl.coef is not 0
	Sampler   []float64 // under the sampler, where it differs from Old; nil means equal to Old
	// SamplerUnknown says that nobody knows what the sampler's were: they count
	// as equal to Old, and in no statistic of the gap between the two.
	SamplerUnknown bool
	Entropy        []float64 // of the distribution at each token, nats; needed when loss.entropy_coef is not 0
	Advantage      []float64 // nil for nll
	Mask           []bool    // tokens that are learned from
	Apart          []bool    // of them, those that loss.tokens treats apart, from [Choose]; nil for none
	Weight         float64   // of the sequence, from Weights
	Weights        []float64 // of each token, in the place of Weight; nil for Weight throughout
}

// weight is that of token t.
func (in TokenInputs) weight(t int) float64 {
	if in.Weights != nil {
		return in.Weights[t]
	}
	return in.Weight
}

// TokenGradient is what the engine's backward pass takes for one sequence,
// and what the loss says about it.
type TokenGradient struct {
	LogProb []float64 // dL/dlogp of each token; 0 where the mask is false
	Entropy []float64 // dL/dH of each token; nil when loss.entropy_coef is 0
	Stats   Stats
}

// InputError reports a number that no loss can be computed from.
type InputError struct {
	Input string // for example "new log-probability"
	Token int    // index into the sequence
	Value float64
	Hint  string // what may help; empty when nothing is known to
}

func (e *InputError) Error() string {
	text := fmt.Sprintf("%s of token %d is %v, want a finite number", e.Input, e.Token, e.Value)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Coefficients computes the loss of one sequence and its gradient by the
// log-probability and the entropy of each token. The loss of a token is
//
//	w·policy + kl.coef·K + sampler_kl·(logp - logp of the sampler)² - entropy_coef·H
//
// times the weight of the sequence, where policy is the term of loss.kind (see
// [Loss]), w the weight of [Mismatch], without gradient,
// and K the penalty of [KL]. Where new and old log-probability are equal
// the ratio is exactly 1. With kind clip the first two terms are the bracket of ExIt Eq. 4
// and of AceGRPO Eq. 4, negated. The slope of a token of gspo or gmpo is that of its own
// term, with the rest of the sequence's ratio held (verl's detached form).
//
// A number that is not finite, given or made, is an *InputError; a
// coefficient never is NaN or infinite.
func Coefficients(spec Loss, in TokenInputs) (TokenGradient, error) {
	if err := checkInputs(spec, in); err != nil {
		return TokenGradient{}, fmt.Errorf("computing the loss: %w", err)
	}
	gradient := TokenGradient{LogProb: make([]float64, len(in.Mask))}
	if spec.EntropyCoef != 0 {
		gradient.Entropy = make([]float64, len(in.Mask))
	}
	whole := newSequence(spec, in)
	for t, learned := range in.Mask {
		if !learned {
			continue
		}
		slope, err := addToken(spec, in, t, whole, &gradient.Stats)
		if err != nil {
			return TokenGradient{}, fmt.Errorf("computing the loss: %w", err)
		}
		gradient.LogProb[t] = in.weight(t) * slope
		if gradient.Entropy != nil {
			gradient.Entropy[t] = -in.weight(t) * spec.EntropyCoef
		}
	}
	return gradient, nil
}

// addToken adds a token to the statistics and returns the slope of its loss
// by its log-probability, before the weight of the sequence.
func addToken(spec Loss, in TokenInputs, t int, whole sequence, stats *Stats) (float64, error) {
	x := newToken(spec, in, t, whole)
	if math.IsInf(x.ratio, 1) {
		return 0, &InputError{Input: "importance ratio", Token: t, Value: x.ratio, Hint: "set loss.ratio_clamp"}
	}
	policy, mark := policyTerm(spec, x)
	if in.Apart != nil && in.Apart[t] {
		policy = spec.Tokens.apart(x, policy)
		stats.Apart++
	}
	correction, masked := correct(spec, x, whole)
	var toReference term
	if spec.KL.Coef != 0 {
		toReference = penalty(spec.KL, x.new, in.Reference[t]).times(spec.KL.Importance, x)
	}
	toSampler := x.new - x.sampler
	value := correction*policy.value + spec.KL.Coef*toReference.value + spec.SamplerKL*toSampler*toSampler
	slope := correction*policy.slope + spec.KL.Coef*toReference.slope + 2*spec.SamplerKL*toSampler
	for _, made := range []struct {
		name  string
		value float64
	}{{"loss", value}, {"gradient", slope}} {
		if !isFinite(made.value) {
			return 0, &InputError{Input: made.name, Token: t, Value: made.value, Hint: "set loss.ratio_clamp, loss.kl.input_clamp and loss.kl.output_clamp"}
		}
	}

	stats.record(x, mark, correction)
	if masked {
		stats.Masked++
	}
	if !in.SamplerUnknown {
		stats.recordGap(spec, x)
	}
	stats.PolicyLoss += in.weight(t) * correction * policy.value
	stats.ReferenceLoss += in.weight(t) * spec.KL.Coef * toReference.value
	stats.SamplerLoss += in.weight(t) * spec.SamplerKL * toSampler * toSampler
	stats.ReferenceKLSum += toReference.value
	if in.Entropy != nil {
		stats.EntropySum += in.Entropy[t]
		stats.EntropyLoss -= in.weight(t) * spec.EntropyCoef * in.Entropy[t]
	}
	return slope, nil
}

// checkInputs makes sure that the slices fit each other and the recipe, and
// that every number that will be looked at is finite.
func checkInputs(spec Loss, in TokenInputs) error {
	withoutRatio := spec.Kind == "nll" || spec.Kind == "reinforce"
	switch spec.Kind {
	case "clip", "cispo", "gspo", "gmpo", "dppo", "sapo", "reinforce", "nll":
	default:
		return exitcode.Usagef("loss.kind: unknown value %q", spec.Kind)
	}
	if spec.KL.Coef != 0 {
		if err := checkPenalty(spec.KL); err != nil {
			return err
		}
	}
	if err := checkLevels(spec.Mismatch); err != nil {
		return err
	}
	for _, input := range []struct {
		name   string
		values []float64
		needed bool
	}{
		{"new log-probability", in.New, true},
		{"old log-probability", in.Old, !withoutRatio},
		{"reference log-probability", in.Reference, spec.KL.Coef != 0},
		{"sampler log-probability", in.Sampler, false},
		{"entropy", in.Entropy, spec.EntropyCoef != 0},
		{"advantage", in.Advantage, LooksAtAdvantage(spec.Kind)},
	} {
		if input.values == nil && !input.needed {
			continue
		}
		if len(input.values) != len(in.Mask) {
			return exitcode.Bugf("%s: %d values for %d tokens", input.name, len(input.values), len(in.Mask))
		}
		for t, v := range input.values {
			if in.Mask[t] && !isFinite(v) {
				return &InputError{Input: input.name, Token: t, Value: v}
			}
		}
	}
	if in.Weights != nil && len(in.Weights) != len(in.Mask) {
		return exitcode.Bugf("%d weights for %d tokens", len(in.Weights), len(in.Mask))
	}
	for t := range in.Mask {
		if w := in.weight(t); !isFinite(w) || w < 0 {
			return exitcode.Bugf("weight of token %d is %v, want 0 or more", t, w)
		}
	}
	return nil
}
