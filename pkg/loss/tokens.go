package loss

import (
	_ "embed"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/rng"
)

//go:embed tokens.go
var tokensSource string

var _ = config.Docs[Tokens](tokensSource)

// Tokens treats some tokens apart. Which is decided in each gradient unit by itself, under
// the policy before the optimizer step, so that it depends on no shard. Their sources
// decide in what they pass to the model at once.
//
//	entropy   the policy loss of the tokens whose entropy is below the quantile 1 - share is 0
//	          (arXiv 2506.01939; TRL's top_entropy_quantile). Divisors stay those of all tokens
//	clip_cov  of the tokens with covariance (A - mean A)·(logp - mean logp) between low and
//	          high that no bound has clipped, share of all tokens are drawn; their policy loss
//	          is 0 (arXiv 2505.22617; verl)
//	kl_cov    the tokens with the largest covariance, share of all, are charged
//	          kl_coef·|logp - logp of the old policy| (arXiv 2505.22617; verl)
type Tokens struct {
	Name   string  `yaml:"name" json:"name" choices:"all,entropy,clip_cov,kl_cov"` // all: every token alike; entropy, clip_cov or kl_cov
	Share  float64 `yaml:"share" json:"share"`                                     // of the tokens, above 0 and up to 1: that are learned from (entropy), or that are treated apart, at least one (clip_cov, kl_cov)
	Low    float64 `yaml:"low" json:"low"`                                         // clip_cov: least covariance of a token that may be drawn
	High   float64 `yaml:"high" json:"high"`                                       // clip_cov: largest
	KLCoef float64 `yaml:"kl_coef" json:"kl_coef"`                                 // kl_cov: coefficient
}

// The choices of Tokens.
const (
	TokensAll     = "all"
	TokensEntropy = "entropy"
	TokensClipCov = "clip_cov"
	TokensKLCov   = "kl_cov"
)

// Choose says which tokens of the sequences of a gradient unit are treated apart: by
// sequence and token. Of the inputs it reads New, Old, Entropy, Advantage and Mask. The stream
// draws those of clip_cov.
func Choose(spec Loss, unit []TokenInputs, stream rng.Stream) [][]bool {
	chosen := make([][]bool, len(unit))
	type place struct{ sequence, token int }
	var places []place
	var entropies []float64
	var meanA, meanLogProb float64
	for i, in := range unit {
		chosen[i] = make([]bool, len(in.Mask))
		for t, learned := range in.Mask {
			if learned {
				places = append(places, place{i, t})
				entropies = append(entropies, in.Entropy[t])
				meanA += in.Advantage[t]
				meanLogProb += in.New[t]
			}
		}
	}
	n := float64(len(places))
	meanA, meanLogProb = meanA/n, meanLogProb/n
	covariance := func(p place) float64 {
		in := unit[p.sequence]
		return (in.Advantage[p.token] - meanA) * (in.New[p.token] - meanLogProb)
	}
	count := min(len(places), max(1, int(spec.Tokens.Share*n)))
	switch {
	case len(places) == 0:
	case spec.Tokens.Name == TokensEntropy:
		threshold := quantile(entropies, 1-spec.Tokens.Share)
		for j, p := range places {
			chosen[p.sequence][p.token] = entropies[j] < threshold
		}
	case spec.Tokens.Name == TokensKLCov:
		slices.SortStableFunc(places, func(a, b place) int { return compareDown(covariance(a), covariance(b)) })
		for _, p := range places[:count] {
			chosen[p.sequence][p.token] = true
		}
	case spec.Tokens.Name == TokensClipCov:
		places = slices.DeleteFunc(places, func(p place) bool {
			in := unit[p.sequence]
			_, clipped := policyTerm(spec, newToken(spec, in, p.token, newSequence(spec, in)))
			c := covariance(p)
			return clipped == markedHigh || clipped == markedLow || !(c > spec.Tokens.Low && c < spec.Tokens.High)
		})
		for j := range min(count, len(places)) {
			at := j + stream.IntN(uint64(j), len(places)-j)
			places[j], places[at] = places[at], places[j]
			chosen[places[j].sequence][places[j].token] = true
		}
	}
	return chosen
}

func compareDown(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// quantile is the q-quantile of values, linearly between two of them (torch.quantile).
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// apart changes the policy term of a token that is treated apart.
func (t Tokens) apart(x token, p term) term {
	if t.Name != TokensKLCov {
		return term{}
	}
	d := x.new - x.old
	p.value += t.KLCoef * math.Abs(d)
	if d != 0 {
		p.slope += math.Copysign(t.KLCoef, d)
	}
	return p
}

// AdaptEntropy is the coefficient of entropy of an iteration, from that of the iteration
// before and the entropy that was measured then, in nats a token (Skywork-OR1,
// arXiv 2505.22312): it rises by entropy_step where the entropy was below entropy_target,
// falls by it where it was above, and acts where it was not above. Entropies that are not
// known, NaN, change nothing.
func AdaptEntropy(spec Loss, before, entropy float64) (coefficient, acting float64) {
	coefficient = before
	switch {
	case entropy < spec.EntropyTarget:
		coefficient += spec.EntropyStep
	case entropy > spec.EntropyTarget:
		coefficient = max(0, coefficient-spec.EntropyStep)
		return coefficient, 0
	}
	return coefficient, coefficient
}
