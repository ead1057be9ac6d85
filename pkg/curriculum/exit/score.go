package exit

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/curriculum"
)

// Learnability is the score of a group: the population variance of the
// quality of its valid responses, S = var(r) (section 4.1). Qualities lie in
// [0, 1], so the score lies in [0, 0.25]; for a success rate q of binary
// outcomes it is q(1-q). ok is false when fewer than two responses are valid:
// one outcome says nothing about a variance. Equal qualities give exactly 0.
func Learnability(responses []curriculum.Response) (score float64, ok bool) {
	var sum, lowest, highest float64
	valid := 0
	for _, r := range responses {
		if !r.Valid {
			continue
		}
		if valid == 0 {
			lowest, highest = r.Quality, r.Quality
		}
		lowest, highest = math.Min(lowest, r.Quality), math.Max(highest, r.Quality)
		sum += r.Quality
		valid++
	}
	switch {
	case valid < 2:
		return 0, false
	case lowest == highest:
		return 0, true
	}
	mean := sum / float64(valid)
	var squares float64
	for _, r := range responses {
		if r.Valid {
			squares += (r.Quality - mean) * (r.Quality - mean)
		}
	}
	return squares / float64(valid), true
}

// Probabilities returns the probability with which each score is selected:
// exp(S_i κ) / sum_j exp(S_j κ), κ being the inverse temperature (section
// 4.1). The largest exponent is subtracted first, so no finite κ overflows.
func Probabilities(scores []float64, inverseTemperature float64) []float64 {
	probabilities := make([]float64, len(scores))
	largest := math.Inf(-1)
	for _, s := range scores {
		largest = math.Max(largest, s*inverseTemperature)
	}
	var total float64
	for i, s := range scores {
		probabilities[i] = math.Exp(s*inverseTemperature - largest)
		total += probabilities[i]
	}
	for i := range probabilities {
		probabilities[i] /= total
	}
	return probabilities
}

// pick returns the index of the probability into whose share of [0, 1) the
// number u falls.
func pick(probabilities []float64, u float64) int {
	last := 0
	var below float64
	for i, p := range probabilities {
		if p == 0 {
			continue
		}
		below += p
		if u < below {
			return i
		}
		last = i
	}
	// The probabilities add up to a little less than 1 and u fell above.
	return last
}
