package credit

import (
	"cmp"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// ReasonUnlearnable is that of a segment whose reward or advantage is no number, or
// is beyond [shard.MaxReward]: one response never keeps a batch from being learned.
const ReasonUnlearnable = "unlearnable"

// dropUnlearnable drops the segments of which a value cannot be learned from. What
// they are worth is 0 from then on.
func dropUnlearnable(segments []Segment, values func(Segment) []float64) {
	for i := range segments {
		s := &segments[i]
		if slices.ContainsFunc(values(*s), func(x float64) bool { return !(math.Abs(x) <= shard.MaxReward) }) {
			s.Dropped = cmp.Or(s.Dropped, ReasonUnlearnable)
			s.Reward, s.Earned, s.Advantage, s.Factor, s.Weight, s.TurnFactors, s.TurnWeights = 0, 0, 0, 1, 1, nil, nil
		}
	}
}

// learnedReward and learnedCredit are what of a segment its reward gives, and all that is
// computed from it.
func learnedReward(s Segment) []float64 { return []float64{s.Reward} }

func learnedCredit(s Segment) []float64 {
	return append(append([]float64{s.Advantage, s.Factor, s.Weight}, s.TurnFactors...), s.TurnWeights...)
}
