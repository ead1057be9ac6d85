package exit

import (
	"math"
	"slices"
	"sort"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// learnability is the score of a group: the population variance of the rewards,
// or of the qualities, of its valid responses, S = var(r) (ExIt §4.1). For
// values in [0, 1] it lies in [0, 0.25]; for a success rate q of binary outcomes
// it is q(1-q). ok is false when fewer than two responses are valid: one outcome
// has no variance. Equal values give exactly 0.
func (e *Exit) learnability(g curriculum.Group) (score float64, ok bool) {
	of := curriculum.RewardOf
	if e.spec.Learnability == OfQuality {
		of = curriculum.Response.Quality
	}
	values := g.Values(of)
	if len(values) < 2 {
		return 0, false
	}
	if slices.Min(values) == slices.Max(values) {
		return 0, true
	}
	_, variance := curriculum.MeanVariance(values)
	return variance, true
}

// softmax selects entries, entry i with the probability
// exp(S_i κ) / sum_j exp(S_j κ), κ being the inverse temperature (ExIt §4.1).
// The largest exponent is subtracted first, so no finite κ overflows.
type softmax struct {
	inverseTemperature float64
	largest            float64   // max_j S_j κ
	total              float64   // sum_j exp(S_j κ - largest), summed in the order of the entries
	upTo               []float64 // sum of the probabilities of entries 0 to i, in that order
	last               int       // last entry whose probability is not 0
}

func newSoftmax(entries []shard.Entry, inverseTemperature float64) softmax {
	s := softmax{inverseTemperature: inverseTemperature, largest: math.Inf(-1), upTo: make([]float64, len(entries))}
	for i := range entries {
		s.largest = math.Max(s.largest, entries[i].Potential*inverseTemperature)
	}
	for i := range entries {
		s.upTo[i] = math.Exp(entries[i].Potential*inverseTemperature - s.largest)
		s.total += s.upTo[i]
	}
	var sum float64
	for i, exponential := range s.upTo {
		p := exponential / s.total
		if p != 0 {
			s.last = i
		}
		sum += p
		s.upTo[i] = sum
	}
	return s
}

// probability is that of an entry with the given score.
func (s softmax) probability(score float64) float64 {
	return math.Exp(score*s.inverseTemperature-s.largest) / s.total
}

// pick returns the index of the entry into whose share of [0, 1) the number u
// falls: the first i with u < upTo[i]. Rounded sums of numbers that are not
// negative never fall, so a binary search finds the same entry as a walk from
// the first one would. An entry of probability 0 is never that: its sum is the
// one of the entry before.
func (s softmax) pick(u float64) int {
	i := sort.Search(len(s.upTo), func(i int) bool { return u < s.upTo[i] })
	if i == len(s.upTo) {
		// The probabilities add up to a little less than 1 and u fell above.
		return s.last
	}
	return i
}
