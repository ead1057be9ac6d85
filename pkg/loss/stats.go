package loss

import (
	"math"
)

// Stats describes the tokens that a loss was computed on. Values of several
// sequences add up with [Stats.Add], in one fixed order to give the same
// bits; the means of [Stats.Metrics] are over all their tokens.
type Stats struct {
	Tokens int // masked-in tokens

	// The parts of the loss, sequence weights applied.
	PolicyLoss    float64
	ReferenceLoss float64 // penalty towards the reference
	SamplerLoss   float64 // penalty towards the sampler
	EntropyLoss   float64

	MaxRatioDeviation float64 // largest |ratio - 1|, exactly 0 where new and old policy are one
	ClippedHigh       int     // tokens whose gradient the upper bound took, or limited (cispo)
	ClippedLow        int     // the same for the lower bound
	ClippedDual       int     // tokens whose loss the dual clip bounds

	// Sums over tokens.
	RatioSum                   float64
	OldK1Sum, OldK3Sum         float64 // divergence of the old policy from the new
	CorrectionSum              float64
	Masked                     int // tokens that loss.mismatch masks
	Apart                      int // tokens that loss.tokens treats apart
	ReferenceKLSum, EntropySum float64

	// The gap between the sampler and the old policy, over the tokens of which
	// the sampler's log-probability is known: exactly 0 for our own engine.
	SamplerTokens              int
	SamplerK1Sum, SamplerK3Sum float64 // divergence of the sampler from the old policy
	SamplerDifferenceSum       float64 // of |log-probability of sampler - of old policy|
	MaxSamplerDisagreement     float64 // largest of them
	SamplerBeyond              int     // tokens whose exp(old - sampler) is above the bound
}

// gapBound is the ratio of old policy to sampler above which a token is
// counted when the recipe truncates nothing.
const gapBound = 2

// Loss is the whole loss.
func (s Stats) Loss() float64 {
	return s.PolicyLoss + s.ReferenceLoss + s.SamplerLoss + s.EntropyLoss
}

// Add adds the statistics of other sequences.
func (s *Stats) Add(other Stats) {
	s.Tokens += other.Tokens
	s.PolicyLoss += other.PolicyLoss
	s.ReferenceLoss += other.ReferenceLoss
	s.SamplerLoss += other.SamplerLoss
	s.EntropyLoss += other.EntropyLoss
	s.MaxRatioDeviation = max(s.MaxRatioDeviation, other.MaxRatioDeviation)
	s.ClippedHigh += other.ClippedHigh
	s.ClippedLow += other.ClippedLow
	s.ClippedDual += other.ClippedDual
	s.RatioSum += other.RatioSum
	s.OldK1Sum += other.OldK1Sum
	s.OldK3Sum += other.OldK3Sum
	s.CorrectionSum += other.CorrectionSum
	s.Masked += other.Masked
	s.Apart += other.Apart
	s.ReferenceKLSum += other.ReferenceKLSum
	s.EntropySum += other.EntropySum
	s.SamplerTokens += other.SamplerTokens
	s.SamplerK1Sum += other.SamplerK1Sum
	s.SamplerK3Sum += other.SamplerK3Sum
	s.SamplerDifferenceSum += other.SamplerDifferenceSum
	s.MaxSamplerDisagreement = max(s.MaxSamplerDisagreement, other.MaxSamplerDisagreement)
	s.SamplerBeyond += other.SamplerBeyond
}

// record adds what one token says about the three policies.
func (s *Stats) record(x token, m mark, correction float64) {
	s.Tokens++
	s.RatioSum += x.ratio
	s.MaxRatioDeviation = max(s.MaxRatioDeviation, math.Abs(x.ratio-1))
	switch m {
	case markedHigh:
		s.ClippedHigh++
	case markedLow:
		s.ClippedLow++
	case markedDual:
		s.ClippedDual++
	}
	k1, k3 := divergence(x.old, x.new)
	s.OldK1Sum += k1
	s.OldK3Sum += k3
	s.CorrectionSum += correction
}

// recordGap adds what one token says about the sampler, whose log-probability
// is known.
func (s *Stats) recordGap(spec Loss, x token) {
	s.SamplerTokens++
	k1, k3 := divergence(x.sampler, x.old)
	s.SamplerK1Sum += k1
	s.SamplerK3Sum += k3
	s.SamplerDifferenceSum += math.Abs(k1)
	s.MaxSamplerDisagreement = max(s.MaxSamplerDisagreement, math.Abs(k1))
	bound := spec.TruncatedIS
	if bound <= 0 {
		bound = gapBound
	}
	if math.Exp(-k1) > bound {
		s.SamplerBeyond++
	}
}

// divergence gives the estimators k1 and k3 of KL(p || q) at a token drawn
// from p, given the log-probabilities of p and q. The logarithm inside k3 is
// clamped to ±20, as verl does, so that one token cannot make it infinite.
func divergence(p, q float64) (k1, k3 float64) {
	d := bound(q-p, 20)
	return p - q, math.Expm1(d) - d
}

// Metric is one named number.
type Metric struct {
	Name  string
	Value float64
}

// Metrics lists the statistics by name, in a fixed order. Means and shares
// are over tokens; without tokens they are 0.
//
//	loss, policy_loss, reference_loss, sampler_loss, entropy_loss
//	                          the loss and its parts, weights applied
//	ratio                     mean importance ratio
//	ratio_deviation_max       largest |ratio - 1|
//	clip_share                share of tokens beyond the lower or the upper bound
//	clip_high_share, clip_low_share
//	clip_dual_share           share of tokens whose loss the dual clip bounds
//	old_kl_k1, old_kl_k3      divergence of the old policy from the new one, nats
//	reference_kl              estimate of the divergence from the reference, nats
//	entropy                   mean entropy, nats; 0 when it was not given
//	correction                mean weight of the sampler correction
//	mismatch_masked_share     share of tokens that loss.mismatch masks, whose weight is 0
//	tokens_apart_share        share of tokens that loss.tokens treats apart
//
// and, over the tokens of which the sampler's log-probability is known,
//
//	sampler_known_share       their share of the tokens
//	sampler_kl_k1, sampler_kl_k3
//	                          divergence of the sampler from the old policy, nats
//	sampler_difference        mean |log-probability of sampler - of old policy|
//	sampler_difference_max    largest of them
//	sampler_beyond_share      share with exp(old - sampler) above loss.truncated_is, or above 2 without
func (s Stats) Metrics() []Metric {
	perToken := func(sum float64) float64 { return sum / float64(max(s.Tokens, 1)) }
	share := func(count int) float64 { return perToken(float64(count)) }
	perKnown := func(sum float64) float64 { return sum / float64(max(s.SamplerTokens, 1)) }
	return []Metric{
		{"loss", s.Loss()},
		{"policy_loss", s.PolicyLoss},
		{"reference_loss", s.ReferenceLoss},
		{"sampler_loss", s.SamplerLoss},
		{"entropy_loss", s.EntropyLoss},
		{"ratio", perToken(s.RatioSum)},
		{"ratio_deviation_max", s.MaxRatioDeviation},
		{"clip_share", share(s.ClippedHigh + s.ClippedLow)},
		{"clip_high_share", share(s.ClippedHigh)},
		{"clip_low_share", share(s.ClippedLow)},
		{"clip_dual_share", share(s.ClippedDual)},
		{"old_kl_k1", perToken(s.OldK1Sum)},
		{"old_kl_k3", perToken(s.OldK3Sum)},
		{"reference_kl", perToken(s.ReferenceKLSum)},
		{"entropy", perToken(s.EntropySum)},
		{"correction", perToken(s.CorrectionSum)},
		{"mismatch_masked_share", share(s.Masked)},
		{"tokens_apart_share", share(s.Apart)},
		{"sampler_known_share", share(s.SamplerTokens)},
		{"sampler_kl_k1", perKnown(s.SamplerK1Sum)},
		{"sampler_kl_k3", perKnown(s.SamplerK3Sum)},
		{"sampler_difference", perKnown(s.SamplerDifferenceSum)},
		{"sampler_difference_max", s.MaxSamplerDisagreement},
		{"sampler_beyond_share", perKnown(float64(s.SamplerBeyond))},
	}
}
