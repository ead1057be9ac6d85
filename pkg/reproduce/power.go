package reproduce

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lathe-rl/lathe/pkg/compare"
)

// power with which a number of seeds finds an effect.
const power = 0.8

// mostSeeds is where the search for a number of seeds ends.
const mostSeeds = 1_000_000

// Power says how many seeds a two-sided paired t-test at 95 % needs to find an effect
// with a power of 80 %, given the spread of the differences so far.
type Power struct {
	// PaperEffect is the paper's relative effect, (method - against)/|against| of its
	// numbers, times the mean of against here; null where the paper has no two numbers.
	PaperEffect *float64 `json:"paper_effect"`
	PaperSeeds  *int     `json:"paper_seeds"` // for that effect; null without one, or above a million
	SeenSeeds   *int     `json:"seen_seeds"`  // for the mean difference seen
}

// powerOf is the power of a claim. paper has the numbers of method and against.
func powerOf(s compare.Spread, paper, others []float64) *Power {
	if s.Std == nil {
		return nil
	}
	p := &Power{SeenSeeds: seedsFor(s.Mean, *s.Std)}
	if len(paper) == 2 && len(others) > 0 && paper[1] != 0 {
		effect := (paper[0] - paper[1]) / math.Abs(paper[1]) * math.Abs(stat.Mean(others, nil))
		p.PaperEffect, p.PaperSeeds = &effect, seedsFor(effect, *s.Std)
	}
	return p
}

// seedsFor is the smallest number of seeds of which a paired t-test finds an effect; nil
// for an effect of 0 or beyond a million seeds.
func seedsFor(effect, std float64) *int {
	if effect == 0 {
		return nil
	}
	low, high := 1, 2 // seeds that are too few, and perhaps enough
	for ; powerWith(high, effect, std) < power; low, high = high, 2*high {
		if high > mostSeeds {
			return nil
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; powerWith(middle, effect, std) < power {
			low = middle
		} else {
			high = middle
		}
	}
	return &high
}

// powerWith is the probability that |t| of n differences exceeds its 97.5 % point, for
// normal differences of a mean and a standard deviation: t is (Z + δ)/S with Z standard
// normal, δ = √n·mean/std and S² a χ² of n - 1 degrees of freedom over n - 1, so that
// P(|t| > c) is the mean of Φ(δ - cS) + Φ(-δ - cS) over S.
func powerWith(n int, mean, std float64) float64 {
	if std == 0 {
		return 1
	}
	degrees := float64(n - 1)
	c := distuv.StudentsT{Sigma: 1, Nu: degrees}.Quantile((1 + compare.Confidence) / 2)
	delta := math.Abs(mean) / std * math.Sqrt(float64(n))
	chi := distuv.ChiSquared{K: degrees}
	const cells = 2000 // of equal probability
	sum := 0.0
	for i := range cells {
		s := math.Sqrt(chi.Quantile((float64(i)+0.5)/cells) / degrees)
		sum += distuv.UnitNormal.CDF(delta-c*s) + distuv.UnitNormal.CDF(-delta-c*s)
	}
	return sum / cells
}
