package cpu

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// distribution is the one place where logits become probabilities: for the
// sampler, for log-probabilities and for their gradients.
//
// With x the logits and T the temperature, the probability of a kept token is
//
//	p_j = exp(x_j/T - shift) / sum,  shift = max_j x_j/T,
//
// and 0 outside the truncated support. The truncated support is that of top-k and then top-p
// among the top k: the most probable tokens, ties to the lowest id, taken
// until k are kept, or until their mass is at least top-p of the mass of the
// top k. It always holds the most probable token.
type distribution struct {
	scale  float32   // 1/T
	shift  float32   // nats
	sum    float32   // Σ exp(x_j/T - shift) over the truncated support
	logSum float32   // ln sum
	exps   []float32 // (V) exp(x_j/T - shift), 0 outside the truncated support
	masked []float32 // (V) logits, -Inf outside the truncated support

	finished []float32 // (V) a copy of the logits
	chooser  chooser
}

// scaleOf is 1/T, where T = 0 (greedy) counts as 1.
func scaleOf(s policy.Sampling) float32 {
	if s.Temperature == 0 {
		return 1
	}
	return 1 / s.Temperature
}

// keepsAll reports whether the truncated support is the whole vocabulary.
func keepsAll(s policy.Sampling, vocabulary int) bool {
	return (s.TopK <= 0 || s.TopK >= vocabulary) && (s.TopP <= 0 || s.TopP >= 1)
}

// set computes the distribution of a row of logits (V), with the truncated support
// extended by target unless that is negative.
func (d *distribution) set(logits []float32, s policy.Sampling, target int32) {
	d.scale = scaleOf(s)
	d.exps = grow(d.exps, len(logits))
	source := logits
	if !keepsAll(s, len(logits)) {
		source = d.mask(logits, d.chooser.choose(logits, d.exps, s), target)
	}
	d.shift = d.scale * vec.Max(source)
	d.sum = vec.ExpShiftSum(d.exps, source, d.scale, d.shift)
	d.logSum = vec.Log(d.sum)
}

// mask returns the logits with -Inf outside the truncated support and the target.
func (d *distribution) mask(logits []float32, kept []int32, target int32) []float32 {
	d.masked = grow(d.masked, len(logits))
	infinity := float32(math.Inf(-1))
	for i := range d.masked {
		d.masked[i] = infinity
	}
	for _, id := range kept {
		d.masked[id] = logits[id]
	}
	if target >= 0 {
		d.masked[target] = logits[target]
	}
	return d.masked
}

// finite reports whether the logits made a distribution.
func (d *distribution) finite() bool {
	return d.sum > 0 && !math.IsInf(float64(d.sum), 0) && !math.IsInf(float64(d.shift), 0)
}

// logProb is the natural logarithm of a kept token's probability.
func (d *distribution) logProb(logits []float32, id int32) float32 {
	return vec.FMA(logits[id], d.scale, -d.shift) - d.logSum
}

// entropy is H = -Σ p_j ln p_j = ln sum + shift - Σ p_j x_j/T, in nats.
func (d *distribution) entropy(logits []float32) float32 {
	mean := float64(vec.Dot(d.exps, logits)) * float64(d.scale) / float64(d.sum)
	return float32(float64(d.logSum) + float64(d.shift) - mean)
}

// gradient overwrites the logits with dL/dlogits, given c = dL/dlogp of the
// target and h = dL/dH:
//
//	dL/dx_j = (c·(1[j=target] - p_j) - h·p_j·(ln p_j + H)) / T.
func (d *distribution) gradient(logits []float32, target int32, c, h, entropy float32) {
	perMass := -float64(d.scale) / float64(d.sum)
	// The conversion keeps a compiler from fusing product and sum.
	ofEntropy := float64(float64(h) * (float64(entropy) - float64(d.shift) - float64(d.logSum)))
	alpha := float32(perMass * (float64(c) + ofEntropy))
	if h == 0 {
		vec.Scale(logits, alpha, d.exps)
	} else {
		vec.Mul(logits, d.exps, logits)
		vec.Scale(logits, float32(perMass*float64(h)*float64(d.scale)), logits)
		vec.AXPY(logits, alpha, d.exps)
	}
	logits[target] += d.scale * c
}

// sumBlock is the number of probabilities that sample adds up at a time.
const sumBlock = 64

// sample inverts the cumulative distribution in id order at u in [0, 1).
// Blocks of 64 are added up in float64, first to find the total, then to find
// the block and the token.
func (d *distribution) sample(u float64) int32 {
	total := 0.0
	for from := 0; from < len(d.exps); from += sumBlock {
		total += blockSum(d.exps[from:min(len(d.exps), from+sumBlock)])
	}
	left, last := u*total, int32(0)
	for from := 0; from < len(d.exps); from += sumBlock {
		block := d.exps[from:min(len(d.exps), from+sumBlock)]
		mass := blockSum(block)
		if mass == 0 {
			continue
		}
		if left >= mass {
			left -= mass
			last = lastPositive(block, from)
			continue
		}
		for i, e := range block {
			if e > 0 && left < float64(e) {
				return int32(from + i)
			}
			left -= float64(e)
		}
		// Rounding used the block up: its last token takes the rest.
		return lastPositive(block, from)
	}
	return last
}

// blockSum adds up in four chains, which the processor runs side by side.
func blockSum(x []float32) float64 {
	var a, b, c, d float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += float64(x[i])
		b += float64(x[i+1])
		c += float64(x[i+2])
		d += float64(x[i+3])
	}
	for ; i < len(x); i++ {
		a += float64(x[i])
	}
	return (a + b) + (c + d)
}

func lastPositive(block []float32, from int) int32 {
	for i := len(block) - 1; i >= 0; i-- {
		if block[i] > 0 {
			return int32(from + i)
		}
	}
	return int32(from)
}

// argmax is the id of the largest logit, the lowest of equals.
func argmax(logits []float32) int32 {
	best := int32(0)
	for i, x := range logits {
		if x > logits[best] {
			best = int32(i)
		}
	}
	return best
}
