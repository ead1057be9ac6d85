package credit

import "github.com/lathe-rl/lathe/pkg/exitcode"

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
func TokenGAE(spec AdvantageSettings, mask []bool, rewards, values []float64) (advantages, returns []float64, err error) {
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
