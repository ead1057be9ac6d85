package credit

import (
	"cmp"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
)

func init() {
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "tail_rl", Summary: "how much a response adds to the logarithm of every chance to exceed a reward (TailRL, arXiv 2609.02987)",
		Make: func(any) (Advantage, error) { return ofRewards(TailAdvantages), nil },
	})
}

// ofRewards are advantages that the rewards of a group's valid segments alone decide.
type ofRewards func(rewards []float64) []float64

func (ofRewards) Critic() bool { return false }

// Advantage is the function over the group's valid segments.
func (of ofRewards) Advantage(g Group, segments []Segment) error {
	var members []int
	var rewards []float64
	for i, s := range segments {
		if !g.counts(s) {
			continue
		}
		if !isFinite(s.Reward) {
			return exitcode.Dataf("computing advantages: reward of response %d is %v", i, s.Reward)
		}
		members, rewards = append(members, i), append(rewards, s.Reward)
	}
	for j, a := range of(rewards) {
		segments[members[j]].Advantage = a
	}
	return nil
}

// TailAdvantages are those of TailRL, which maximises ∫ log P(r > τ) dτ instead of the mean
// reward, so that what few responses reach weighs more, for the rewards of a group (N): with the rewards in
// ascending order and r₍₀₎ = 0, ω₍₀₎ = 0,
//
//	ω₍ᵢ₎ = ω₍ᵢ₋₁₎ + (r₍ᵢ₎ − r₍ᵢ₋₁₎) / (N − i + 1)
//	A = ω − mean ω
//
// so equal rewards have equal advantages, exactly 0 where all are equal.
func TailAdvantages(rewards []float64) []float64 {
	n := len(rewards)
	advantages := make([]float64, n)
	if isConstant(rewards) {
		return advantages
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rewards[a], rewards[b]) })
	omega, before := 0.0, 0.0
	for i, at := range order {
		omega += (rewards[at] - before) / float64(n-i)
		advantages[at], before = omega, rewards[at]
	}
	centre := mean(advantages)
	for i := range advantages {
		advantages[i] -= centre
	}
	return advantages
}
