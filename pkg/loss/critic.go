package loss

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// GAE computes generalised advantages (Schulman et al., High-Dimensional
// Continuous Control Using Generalized Advantage Estimation, ICLR 2016,
// equation 16) and the returns that a critic learns, of the tokens that a
// policy wrote in one sequence:
//
//	delta_t = r_t + gamma·V_(t+1) - V_t
//	A_t     = delta_t + gamma·lambda·A_(t+1)
//	R_t     = A_t + V_t
//
// After the last token both V and A are 0.
func GAE(rewards, values []float64, gamma, lambda float64) (advantages, returns []float64, err error) {
	if len(rewards) != len(values) {
		return nil, nil, exitcode.Bugf("generalised advantages: %d rewards and %d values", len(rewards), len(values))
	}
	advantages, returns = make([]float64, len(values)), make([]float64, len(values))
	var nextValue, nextAdvantage float64
	for t := len(values) - 1; t >= 0; t-- {
		delta := rewards[t] + gamma*nextValue - values[t]
		advantages[t] = delta + gamma*lambda*nextAdvantage
		returns[t] = advantages[t] + values[t]
		nextValue, nextAdvantage = values[t], advantages[t]
	}
	return advantages, returns, nil
}

// LearnedSpan is the first learned token and the one after the last; 0 and 0
// where none is learned.
func LearnedSpan(mask []bool) (first, end int) {
	for t, learned := range mask {
		if !learned {
			continue
		}
		if end == 0 {
			first = t
		}
		end = t + 1
	}
	return first, end
}

// TokenGAE is [GAE] over a whole sequence, of which mask says which tokens are
// learned; advantages and returns are 0 elsewhere. Masked tokens between the first
// and the last learned one are, by advantage.masked:
//
//	skip   not there: the recursion goes from one learned token to the next
//	value  there, with r = 0 and their own V
//	zero   there, with r = 0 and V = 0
//
// What rewards and values hold outside the mask is never looked at, but for the
// values that value asks for.
func TokenGAE(spec Advantage, mask []bool, rewards, values []float64) (advantages, returns []float64, err error) {
	if len(rewards) != len(mask) || len(values) != len(mask) {
		return nil, nil, exitcode.Bugf("generalised advantages: %d rewards and %d values for %d tokens", len(rewards), len(values), len(mask))
	}
	var at []int // tokens of the recursion
	var r, v []float64
	first, end := LearnedSpan(mask)
	for t := first; t < end; t++ {
		switch {
		case mask[t]:
			at, r, v = append(at, t), append(r, rewards[t]), append(v, values[t])
		case spec.Masked == "value":
			at, r, v = append(at, t), append(r, 0), append(v, values[t])
		case spec.Masked == "zero":
			at, r, v = append(at, t), append(r, 0), append(v, 0)
		}
	}
	a, target, err := GAE(r, v, spec.Gamma, spec.Lambda)
	if err != nil {
		return nil, nil, err
	}
	advantages, returns = make([]float64, len(mask)), make([]float64, len(mask))
	for i, t := range at {
		if mask[t] {
			advantages[t], returns[t] = a[i], target[i]
		}
	}
	return advantages, returns, nil
}

// ValueLoss is the loss of one value against the return that it should have
// predicted, and its slope by the value:
//
//	½·max((v - R)², (clip(v, old - c, old + c) - R)²)
//
// with c of [Value] and old the value before the first optimizer step.
// Where the clipped term is the larger and the value is beyond the bound, the
// slope is 0. Without a clip it is ½·(v - R)².
func ValueLoss(spec Value, value, old, target float64) (loss, slope float64) {
	off := value - target
	if spec.Clip == 0 {
		return off * off / 2, off
	}
	clipped := min(max(value, old-spec.Clip), old+spec.Clip)
	if offClipped := clipped - target; offClipped*offClipped > off*off {
		if clipped == value {
			return offClipped * offClipped / 2, offClipped
		}
		return offClipped * offClipped / 2, 0
	}
	return off * off / 2, off
}

// ValueStats describes the values of some tokens. Those of several sequences
// add up.
type ValueStats struct {
	Tokens                           int
	Loss                             float64 // sequence weights and coefficient applied
	Held                             int     // tokens whose slope the clip took
	ReturnSum, ReturnSquares         float64
	DifferenceSum, DifferenceSquares float64 // of return and value
}

// Add adds the statistics of other sequences.
func (s *ValueStats) Add(other ValueStats) {
	s.Tokens += other.Tokens
	s.Loss += other.Loss
	s.Held += other.Held
	s.ReturnSum += other.ReturnSum
	s.ReturnSquares += other.ReturnSquares
	s.DifferenceSum += other.DifferenceSum
	s.DifferenceSquares += other.DifferenceSquares
}

// Record adds a token.
func (s *ValueStats) Record(value, target, loss, slope float64) {
	s.Tokens++
	s.Loss += loss
	if slope == 0 && value != target {
		s.Held++
	}
	s.ReturnSum += target
	s.ReturnSquares += target * target
	s.DifferenceSum += target - value
	s.DifferenceSquares += (target - value) * (target - value)
}

// ExplainedVariance is 1 - Var(R - V)/Var(R), which is 1 for a critic that
// predicts every return and 0 for one that says the same of every state; 0
// where all returns are equal.
func (s ValueStats) ExplainedVariance() float64 {
	n := float64(max(1, s.Tokens))
	variance := s.ReturnSquares/n - s.ReturnSum/n*s.ReturnSum/n
	// Returns are sums of advantages and values: equal ones differ by rounding.
	if variance <= 1e-12*(s.ReturnSquares+s.DifferenceSquares)/n {
		return 0
	}
	return 1 - (s.DifferenceSquares/n-s.DifferenceSum/n*s.DifferenceSum/n)/variance
}
