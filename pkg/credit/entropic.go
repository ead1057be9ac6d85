package credit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/lathe-rl/lathe/pkg/registry"
)

func init() {
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "entropic", Summary: "exp(β reward) over its mean among the others, less 1, β such that the group's best weigh as much as ln 2 nats say (TTT-Discover, OpenMLE arXiv 2607.28568)",
		Make: func(any) (Advantage, error) { return ofRewards(EntropicAdvantages), nil },
	})
}

// The bounds of the search for β are those of TTT-Discover's published code: β is doubled
// from 1 until its divergence is reached or it is a million, and then halved in on.
const (
	largestBeta = 1e6
	halvings    = 60
)

// EntropicAdvantages are those of the gradient of log E[exp(β r)] for the rewards of a
// group,
//
//	A_i = exp(β r_i) / mean_{j≠i} exp(β r_j) − 1,  KL(softmax(β r) ‖ uniform) = ln 2
//
// (OpenMLE, arXiv 2607.28568). Where half of the rewards or more are the largest, no β
// diverges by ln 2: β is then so large that of n rewards with m maxima these have
// (n − m)/(m − 1) and the others −1. Equal rewards, and groups of fewer than three, of which
// a lone maximum would have an advantage without bound, have 0.
func EntropicAdvantages(rewards []float64) []float64 {
	n := len(rewards)
	advantages := make([]float64, n)
	if n < 3 || isConstant(rewards) {
		return advantages
	}
	below := slices.Clone(rewards) // the largest, which keeps exponentials in range
	floats.AddConst(-floats.Max(rewards), below)
	beta := entropicBeta(below)
	for i, r := range below {
		advantages[i] = math.Exp(beta * r)
	}
	sum := floats.Sum(advantages)
	for i, e := range advantages {
		advantages[i] = e/((sum-e)/float64(n-1)) - 1
	}
	return advantages
}

// entropicBeta is β for rewards of which the largest is 0.
func entropicBeta(below []float64) float64 {
	low, high := 0.0, 1.0
	for high < largestBeta && divergence(below, high) < math.Ln2 {
		high *= 2
	}
	if divergence(below, high) < math.Ln2 {
		return high
	}
	for range halvings {
		if middle := (low + high) / 2; divergence(below, middle) < math.Ln2 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// divergence is KL(softmax(β r) ‖ uniform) in nats.
func divergence(below []float64, beta float64) float64 {
	logits := slices.Clone(below)
	floats.Scale(beta, logits)
	logSum, kl := floats.LogSumExp(logits), 0.0
	for _, l := range logits {
		kl += math.Exp(l-logSum) * (l - logSum + math.Log(float64(len(logits))))
	}
	return kl
}
