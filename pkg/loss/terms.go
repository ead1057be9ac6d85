package loss

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// token is what the loss of one token depends on.
type token struct {
	new, old, sampler float64 // log-probabilities, nats
	advantage         float64
	ratio             float64 // exp(new - old), or of its mean over the sequence for gspo and gmpo, clamped
	ratioSlope        float64 // d ratio / d new: the ratio, or 0 where it is clamped
}

// tokenAt collects what is known of token t by itself.
func tokenAt(in TokenInputs, t int) token {
	x := token{new: in.New[t], old: in.New[t]}
	if in.Old != nil {
		x.old = in.Old[t]
	}
	x.sampler = x.old
	if in.Sampler != nil {
		x.sampler = in.Sampler[t]
	}
	if in.Advantage != nil {
		x.advantage = in.Advantage[t]
	}
	return x
}

// newToken collects what the loss of token t depends on, its importance ratio
// (ExIt Eq. 5) among it.
func newToken(spec Loss, in TokenInputs, t int, whole sequence) token {
	x := tokenAt(in, t)
	logRatio := x.new - x.old
	if spec.Kind == "gspo" || spec.Kind == "gmpo" {
		logRatio = whole.logRatio
	}
	clamped := bound(logRatio, spec.RatioClamp)
	x.ratio = math.Exp(clamped)
	if clamped == logRatio {
		x.ratioSlope = x.ratio
	}
	return x
}

// hold is the log ratio of a token of gmpo within its bounds ("Geometric-Mean
// Policy Optimization", Zhao et al., 2025, with the bounds in the exponent as
// verl's geo_mean has them).
func hold(spec Loss, x token) (float64, mark) {
	switch logRatio := x.new - x.old; {
	case x.advantage > 0 && logRatio > spec.ClipHigh:
		return spec.ClipHigh, markedHigh
	case x.advantage < 0 && logRatio < -spec.ClipLow:
		return -spec.ClipLow, markedLow
	default:
		return logRatio, unmarked
	}
}

// term is one part of the loss of a token and its slope by the new
// log-probability.
type term struct{ value, slope float64 }

// times multiplies a term by the importance ratio, gradient included, if the
// recipe asks for it.
func (p term) times(importance bool, x token) term {
	if !importance {
		return p
	}
	return term{value: x.ratio * p.value, slope: x.ratioSlope*p.value + x.ratio*p.slope}
}

// mark says which bound took the gradient of a token away, or limited it.
type mark int

const (
	unmarked mark = iota
	markedHigh
	markedLow
	markedDual
)

// policyTerm is the policy loss of one token, by kind (see Loss). That of reinforce is
// −A·log π (MLE-RL Eq. 1, RL-MLE Eq. 2).
func policyTerm(spec Loss, x token) (term, mark) {
	a := x.advantage
	switch spec.Kind {
	case "clip", "gspo":
		return clipTerm(spec, x)
	case "gmpo":
		if _, m := hold(spec, x); m != unmarked {
			return term{value: -a * x.ratio}, m
		}
		return term{value: -a * x.ratio, slope: -a * x.ratioSlope}, unmarked
	case "cispo":
		low, high := 1-spec.ClipLow, 1+spec.ClipHigh
		if spec.ClipAbsolute {
			low, high = 0, spec.ClipHigh
		}
		r, m := x.ratio, unmarked
		switch {
		case r > high:
			r, m = high, markedHigh
		case r < low:
			r, m = low, markedLow
		}
		return term{value: -r * a * x.new, slope: -r * a}, m
	case "dppo":
		difference := math.Exp(x.new) - math.Exp(x.sampler)
		switch {
		case a > 0 && difference > spec.ClipHigh:
			return term{}, markedHigh
		case a < 0 && difference < -spec.ClipLow:
			return term{}, markedLow
		}
		return term{value: -a * x.ratio, slope: -a * x.ratioSlope}, unmarked
	case "sapo":
		tau := spec.TauNegative
		if a > 0 {
			tau = spec.TauPositive
		}
		gate := 1 / (1 + math.Exp(-tau*(x.ratio-1)))
		return term{value: -a * gate * 4 / tau, slope: -a * 4 * gate * (1 - gate) * x.ratioSlope}, unmarked
	case "reinforce":
		return term{value: -a * x.new, slope: -a}, unmarked
	default: // nll; checkInputs lets no other pass
		return term{value: -x.new, slope: -1}, unmarked
	}
}

// clipTerm is the clipped surrogate of PPO (ExIt Eq. 4, FlipTS Eq. 1, AceGRPO Eq. 4)
// with separate bounds, as DAPO's clip-higher has them, and the dual clip of negative
// advantages.
func clipTerm(spec Loss, x token) (term, mark) {
	a := x.advantage
	plain := -a * x.ratio
	clipped := -a * max(1-spec.ClipLow, min(1+spec.ClipHigh, x.ratio))
	switch {
	case clipped > plain && a > 0:
		return term{value: clipped}, markedHigh
	case clipped > plain:
		return term{value: clipped}, markedLow
	case a < 0 && spec.DualClip > 0 && plain > -a*spec.DualClip:
		return term{value: -a * spec.DualClip}, markedDual
	}
	return term{value: plain, slope: -a * x.ratioSlope}, unmarked
}

// penalty estimates the divergence of the new policy from the reference at
// one token, given both log-probabilities, and the slope of the estimate by
// the new one. With d = logp - reference:
//
//	k1 d,  k2 d²/2,  k3 exp(-d) - 1 + d,  abs |d|
//
// d is clamped to ±input_clamp first and the estimate to ±output_clamp last,
// and where a clamp holds the slope is 0. With gradient k2 the slope is d
// itself, whatever the estimate and the clamps.
func penalty(spec KL, logProb, reference float64) term {
	difference := logProb - reference
	d := bound(difference, spec.InputClamp)
	var p term
	switch spec.Estimator {
	case "k1":
		p = term{value: d, slope: 1}
	case "k2":
		p = term{value: d * d / 2, slope: d}
	case "k3":
		p = term{value: math.Expm1(-d) + d, slope: -math.Expm1(-d)}
	default: // abs; checkPenalty lets no other pass
		p = term{value: math.Abs(d)}
		if d != 0 {
			p.slope = math.Copysign(1, d)
		}
	}
	if d != difference {
		p.slope = 0
	}
	if limited := bound(p.value, spec.OutputClamp); limited != p.value {
		p = term{value: limited}
	}
	if spec.Gradient == "k2" {
		p.slope = difference
	}
	return p
}

func checkPenalty(spec KL) error {
	switch spec.Estimator {
	case "k1", "k2", "k3", "abs":
	default:
		return exitcode.Usagef("loss.kl.estimator: unknown value %q", spec.Estimator)
	}
	switch spec.Gradient {
	case "estimator", "k2":
	default:
		return exitcode.Usagef("loss.kl.gradient: unknown value %q", spec.Gradient)
	}
	return nil
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// bound limits |x| to limit; a limit of 0 or less is none.
func bound(x, limit float64) float64 {
	if limit <= 0 {
		return x
	}
	return max(-limit, min(limit, x))
}
