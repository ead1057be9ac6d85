package flipts

import (
	"fmt"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/curriculum"
)

// beta is the parameters of a Beta distribution, both 0 or more.
type beta struct{ alpha, beta float64 }

// mean is α/(α+β).
func (b beta) mean() float64 { return b.alpha / (b.alpha + b.beta) }

// shared is the same, as curricula share it.
func (b beta) shared() curriculum.Beta { return curriculum.Beta{Alpha: b.alpha, Beta: b.beta} }

// prior is the Beta distribution whose moments are those of the probabilities
// ξ̂_q (FlipTS Eq. 2):
//
//	α₀ = μ₀κ,  β₀ = (1-μ₀)κ,  κ = μ₀(1-μ₀)/σ₀² - 1
//
// Where that is no finite positive pair, which is so when all are equal, or when
// they vary as much as a Beta distribution can or more (all are 0 or 1), both but for
// the rounding of moments, it is weak and keeps the
// mean: κ = 2, a distribution of two counts; and where the mean is 0 or 1, or
// there is no probability, Beta(1, G) or Beta(G, 1), as if one of G traces and
// one more had been otherwise. instead says why the moments are not taken; it is
// empty where they are.
func prior(rates []float64, sampleVariance bool, g int) (made beta, instead string) {
	if len(rates) == 0 {
		return beta{1, float64(g)}, "no trace of the warm-up has a score"
	}
	mu, variance := stat.PopMeanVariance(rates, nil)
	if sampleVariance {
		variance = stat.Variance(rates, nil)
	}
	switch {
	case mu <= 0:
		return beta{1, float64(g)}, "no trace of the warm-up had the event"
	case mu >= 1:
		return beta{float64(g), 1}, "every trace of the warm-up had the event"
	}
	// Moments of n equal rates, or of n that are 0 or 1, are off by some n·10⁻¹⁶; of
	// others 1/κ and κ are 1/n² at least.
	const rounding = 1e-12
	kappa := mu*(1-mu)/variance - 1
	if !(kappa > rounding) || kappa > 1/rounding {
		kappa, instead = 2, fmt.Sprintf("the rates of the warm-up have the mean %.3g and the variance %.3g, which no Beta distribution has", mu, variance)
	}
	return beta{mu * kappa, (1 - mu) * kappa}, instead
}
