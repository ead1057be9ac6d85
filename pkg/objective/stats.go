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
	ratio                  float64
	oldK1, oldK3           float64 // divergence of the old policy from the new
	samplerK1, samplerK3   float64 // divergence of the sampler from the old policy
	correction             float64
	referenceKL, entropy   float64
	correctionsTruncated   int
	maxSamplerDisagreement float64
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
	s.ratio += other.ratio
	s.oldK1 += other.oldK1
	s.oldK3 += other.oldK3
	s.samplerK1 += other.samplerK1
	s.samplerK3 += other.samplerK3
	s.correction += other.correction
	s.referenceKL += other.referenceKL
	s.entropy += other.entropy
	s.correctionsTruncated += other.correctionsTruncated
	s.maxSamplerDisagreement = max(s.maxSamplerDisagreement, other.maxSamplerDisagreement)
}

// addRatio adds what one token says about the three policies.
func (s *Stats) addRatio(x token, m mark, correction float64) {
	s.Tokens++
	s.ratio += x.ratio
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
	s.oldK1 += k1
	s.oldK3 += k3
	k1, k3 = divergence(x.sampler, x.old)
	s.samplerK1 += k1
	s.samplerK3 += k3
	s.maxSamplerDisagreement = max(s.maxSamplerDisagreement, math.Abs(k1))
	s.correction += correction
	if correction < math.Exp(x.old-x.sampler) {
		s.correctionsTruncated++
	}
}

// divergence gives the estimators k1 and k3 of KL(p || q) at a token drawn
// from p, given the log-probabilities of p and q.
func divergence(p, q float64) (k1, k3 float64) {
	return p - q, math.Expm1(q-p) - (q - p)
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
//	correction_truncated_share
func (s Stats) Metrics() []Metric {
	perToken := func(sum float64) float64 { return sum / float64(max(s.Tokens, 1)) }
	share := func(count int) float64 { return perToken(float64(count)) }
	return []Metric{
		{"loss", s.Loss()},
		{"policy_loss", s.PolicyLoss},
		{"reference_loss", s.ReferenceLoss},
		{"sampler_loss", s.SamplerLoss},
		{"entropy_loss", s.EntropyLoss},
		{"ratio", perToken(s.ratio)},
		{"ratio_deviation_max", s.MaxRatioDeviation},
		{"clip_share", share(s.ClippedHigh + s.ClippedLow)},
		{"clip_high_share", share(s.ClippedHigh)},
		{"clip_low_share", share(s.ClippedLow)},
		{"clip_dual_share", share(s.ClippedDual)},
		{"old_kl_k1", perToken(s.oldK1)},
		{"old_kl_k3", perToken(s.oldK3)},
		{"reference_kl", perToken(s.referenceKL)},
		{"entropy", perToken(s.entropy)},
		{"sampler_kl_k1", perToken(s.samplerK1)},
		{"sampler_kl_k3", perToken(s.samplerK3)},
		{"sampler_difference_max", s.maxSamplerDisagreement},
		{"correction", perToken(s.correction)},
		{"correction_truncated_share", share(s.correctionsTruncated)},
	}
}
