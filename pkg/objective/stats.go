package objective

import "math"

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
	SamplerK1Sum, SamplerK3Sum float64 // divergence of the sampler from the old policy
	CorrectionSum              float64
	ReferenceKLSum, EntropySum float64

	MaxSamplerDisagreement float64 // largest |log-probability of sampler - of old policy|
}

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
	s.SamplerK1Sum += other.SamplerK1Sum
	s.SamplerK3Sum += other.SamplerK3Sum
	s.CorrectionSum += other.CorrectionSum
	s.ReferenceKLSum += other.ReferenceKLSum
	s.EntropySum += other.EntropySum
	s.MaxSamplerDisagreement = max(s.MaxSamplerDisagreement, other.MaxSamplerDisagreement)
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
	k1, k3 = divergence(x.sampler, x.old)
	s.SamplerK1Sum += k1
	s.SamplerK3Sum += k3
	s.MaxSamplerDisagreement = max(s.MaxSamplerDisagreement, math.Abs(k1))
	s.CorrectionSum += correction
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
//	sampler_kl_k1, sampler_kl_k3
//	                          divergence of the sampler from the old policy, nats
//	sampler_difference_max    largest |log-probability of sampler - of old policy|
//	correction                mean weight of the sampler correction
func (s Stats) Metrics() []Metric {
	perToken := func(sum float64) float64 { return sum / float64(max(s.Tokens, 1)) }
	share := func(count int) float64 { return perToken(float64(count)) }
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
		{"sampler_kl_k1", perToken(s.SamplerK1Sum)},
		{"sampler_kl_k3", perToken(s.SamplerK3Sum)},
		{"sampler_difference_max", s.MaxSamplerDisagreement},
		{"correction", perToken(s.CorrectionSum)},
	}
}
