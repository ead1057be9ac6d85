package credit

import (
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// GroupAdvantages returns the advantage of each response of one group:
//
//	A_i = (r_i - b_i) / (s_i + epsilon)
//
// with baseline b and scale s as the recipe says, over the valid responses
// alone. Baseline mean and scale std are ExIt Eq. 3 and MLE-RL Eq. 2, and with an
// epsilon AceGRPO Eq. 3. An invalid response has advantage 0 and counts nowhere. lengths are the responses'
// masked-in tokens; only the length-weighted baseline looks at them, and
// others may pass nil.
//
// Unless the baseline is none, a group of equal rewards has advantage exactly
// 0 (one response: what group_of_one says): a mean in floating point may differ from them in its last bit, and
// dividing that by epsilon would make a gradient of nothing. Without a
// baseline nothing is compared, and a lone response is like any other.
//
// A valid reward that is not finite is a data error; so is a result that is
// not, which only a divisor of 0 with epsilon 0 and zero_scale divide gives.
func GroupAdvantages(spec AdvantageSettings, rewards []float64, valid []bool, lengths []int) ([]float64, error) {
	if len(valid) != len(rewards) || (lengths != nil && len(lengths) != len(rewards)) {
		return nil, exitcode.Bugf("computing advantages: %d rewards, %d valid marks, %d lengths", len(rewards), len(valid), len(lengths))
	}
	members := make([]int, 0, len(rewards)) // indices of the valid responses
	values := make([]float64, 0, len(rewards))
	for i, ok := range valid {
		if !ok {
			continue
		}
		if !isFinite(rewards[i]) {
			return nil, exitcode.Dataf("computing advantages: reward of response %d is %v", i, rewards[i])
		}
		members = append(members, i)
		values = append(values, rewards[i])
	}

	var memberLengths []int
	if lengths != nil {
		for _, i := range members {
			memberLengths = append(memberLengths, lengths[i])
		}
	}
	group, err := groupAdvantages(spec, values, memberLengths)
	if err != nil {
		return nil, fmt.Errorf("computing advantages: %w", err)
	}
	advantages := make([]float64, len(rewards))
	for j, i := range members {
		if !isFinite(group[j]) {
			return nil, exitcode.Dataf("computing advantages: advantage of response %d is %v: set advantage.epsilon, or advantage.zero_scale to keep", i, group[j])
		}
		if advantages[i] = group[j]; spec.Clip > 0 {
			advantages[i] = max(-spec.Clip, min(spec.Clip, group[j]))
		}
	}
	return advantages, nil
}

// groupAdvantages computes the advantages, not yet clipped, of a group whose
// responses are all valid.
func groupAdvantages(spec AdvantageSettings, rewards []float64, lengths []int) ([]float64, error) {
	advantages := make([]float64, len(rewards))
	if len(rewards) == 1 && spec.Baseline != "none" {
		switch spec.GroupOfOne {
		case "zero":
		case "reward":
			advantages[0] = rewards[0]
			if spec.Scale != "none" {
				advantages[0] /= 1 + spec.Epsilon
			}
		default:
			return nil, exitcode.Usagef("advantage.group_of_one: unknown value %q", spec.GroupOfOne)
		}
		return advantages, nil
	}
	if spec.Baseline != "none" && isConstant(rewards) {
		return advantages, nil
	}
	for i, reward := range rewards {
		baseline, err := baseline(spec, rewards, lengths, i)
		if err != nil {
			return nil, err
		}
		advantages[i] = reward - baseline
		if spec.Scale == "none" {
			continue
		}
		scale, err := scale(spec, rewards, i)
		if err != nil {
			return nil, err
		}
		if scale == 0 {
			switch spec.ZeroScale {
			case "keep":
				continue
			case "divide":
			default:
				return nil, exitcode.Usagef("advantage.zero_scale: unknown value %q", spec.ZeroScale)
			}
		}
		advantages[i] /= scale + spec.Epsilon
	}
	return advantages, nil
}

// baseline returns b of response i. There are at least two responses, unless
// it is none.
func baseline(spec AdvantageSettings, rewards []float64, lengths []int, i int) (b float64, err error) {
	switch spec.Baseline {
	case "mean":
		return mean(rewards), nil
	case "leave_one_out":
		return mean(without(rewards, i)), nil
	case "length_weighted":
		return lengthWeightedMean(rewards, lengths)
	case "none":
		return 0, nil
	}
	return b, exitcode.Usagef("advantage.baseline: unknown value %q", spec.Baseline)
}

// lengthWeightedMean is the baseline of OPO: sum(len·r) / sum(len). Responses
// that are all empty weigh the same.
func lengthWeightedMean(rewards []float64, lengths []int) (b float64, err error) {
	if len(lengths) != len(rewards) {
		return b, exitcode.Bugf("length-weighted baseline: %d rewards, %d lengths", len(rewards), len(lengths))
	}
	var sum, tokens float64
	for j, reward := range rewards {
		sum += float64(lengths[j]) * reward
		tokens += float64(lengths[j])
	}
	if tokens == 0 {
		return mean(rewards), nil
	}
	return sum / tokens, nil
}

// scale returns s of response i.
func scale(spec AdvantageSettings, rewards []float64, i int) (s float64, err error) {
	switch spec.Scale {
	case "std":
		return std(rewards, spec.DDof), nil
	case "leave_one_out_std":
		return std(without(rewards, i), spec.DDof), nil
	case "mean":
		return mean(rewards), nil
	}
	return s, exitcode.Usagef("advantage.scale: unknown value %q", spec.Scale)
}

// whiteningFloor keeps the divisor of whitening away from 0.
const whiteningFloor = 1e-8

// Whiten centres and scales advantages over all tokens of a batch
// (REINFORCE++): sequence i has tokens[i] masked-in tokens, each with
// advantage advantages[i]; per-token advantages have tokens of 1 or 0. With
// ddof 1 the divisor is sqrt(var + 1e-8) (verl), with ddof 0 it is
// sqrt(max(var, 1e-8)) (NeMo-RL, OpenRLHF). Equal advantages, one token, or
// none, give exactly 0. Sequences without tokens get 0.
func Whiten(advantages []float64, tokens []int, ddof int) ([]float64, error) {
	if len(tokens) != len(advantages) {
		return nil, exitcode.Bugf("whitening: %d advantages, %d token counts", len(advantages), len(tokens))
	}
	var sum, count float64
	var present []float64
	for i, a := range advantages {
		if tokens[i] <= 0 {
			continue
		}
		if !isFinite(a) {
			return nil, exitcode.Dataf("whitening: advantage %d is %v", i, a)
		}
		present = append(present, a)
		sum += float64(tokens[i]) * a
		count += float64(tokens[i])
	}
	whitened := make([]float64, len(advantages))
	if isConstant(present) {
		return whitened, nil
	}
	mean := sum / count
	var squares float64
	for i, a := range advantages {
		if tokens[i] > 0 {
			off := a - mean
			squares += float64(tokens[i]) * off * off
		}
	}
	divisor := math.Sqrt(max(squares/count, whiteningFloor))
	if ddof != 0 {
		// Two different advantages are at least two tokens.
		divisor = math.Sqrt(squares/(count-1) + whiteningFloor)
	}
	for i, a := range advantages {
		if tokens[i] > 0 {
			whitened[i] = (a - mean) / divisor
		}
	}
	return whitened, nil
}

// mean is that of one value for each response or token; NaN for none.
func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// std is the standard deviation with ddof degrees of freedom taken off, 0 or 1. It is
// exactly 0 for equal values, and so for too few of them.
func std(values []float64, ddof int) float64 {
	if isConstant(values) {
		return 0
	}
	m := mean(values)
	var squares float64
	for _, v := range values {
		off := v - m
		squares += off * off
	}
	return math.Sqrt(squares / float64(len(values)-ddof))
}

// isConstant reports whether all values are equal, as no values are.
func isConstant(values []float64) bool {
	for _, v := range values {
		if v != values[0] {
			return false
		}
	}
	return true
}

// without returns a copy of the values that leaves out index i.
func without(values []float64, i int) []float64 {
	return slices.Delete(slices.Clone(values), i, i+1)
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
