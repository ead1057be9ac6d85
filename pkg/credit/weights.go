package credit

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Weights returns the weight of each sequence of one optimizer step, so that
// the loss of the step is sum_i w_i sum_t loss_it. lengths are the sequences'
// masked-in tokens. With N tokens in S sequences that have any:
//
//	token_mean               1/N
//	seq_mean_token_mean      1/(S·length_i)    (ExIt Eq. 4)
//	seq_mean_token_sum       1/S
//	seq_mean_token_sum_norm  1/(S·normTokens)  (normTokens from [loss.NormTokens])
//	token_sum                1
//
// seq_mean_turn_mean_token_mean tells the turns of a sequence apart, which here
// has one, and so is seq_mean_token_mean (see [TurnWeights]).
//
// A sequence without masked-in tokens weighs 0 and is not counted in S. When
// no sequence has any, the result is nil: the step is to be skipped.
func Weights(aggregation string, lengths []int, normTokens int) ([]float64, error) {
	var tokens, sequences float64
	for i, n := range lengths {
		if n < 0 {
			return nil, exitcode.Bugf("weighing sequences: sequence %d has %d tokens", i, n)
		}
		if n > 0 {
			tokens += float64(n)
			sequences++
		}
	}
	var weight func(length float64) float64
	switch aggregation {
	case "token_mean":
		weight = func(float64) float64 { return 1 / tokens }
	case "seq_mean_token_mean", "seq_mean_turn_mean_token_mean":
		weight = func(length float64) float64 { return 1 / (sequences * length) }
	case "seq_mean_token_sum":
		weight = func(float64) float64 { return 1 / sequences }
	case "seq_mean_token_sum_norm":
		if tokens > 0 && normTokens < 1 {
			return nil, exitcode.Bugf("weighing sequences: loss.norm_tokens is %d, want 1 or more", normTokens)
		}
		weight = func(float64) float64 { return 1 / (sequences * float64(normTokens)) }
	case "token_sum":
		weight = func(float64) float64 { return 1 }
	default:
		return nil, exitcode.Usagef("weight: unknown value %q", aggregation)
	}
	if tokens == 0 {
		return nil, nil
	}
	weights := make([]float64, len(lengths))
	for i, n := range lengths {
		if n > 0 {
			weights[i] = weight(float64(n))
		}
	}
	return weights, nil
}

// TurnWeights returns the weight of each turn of each sequence of one optimizer
// step, so that every turn of a sequence has the same total: a token of turn t of
// sequence i weighs 1/(S·T_i·length_it), where S is the number of sequences and T_i
// that of the sequence's turns (FlipTS Eq. 1). spans[i] are the masked-in tokens of the turns of sequence i. Turns
// without a token weigh 0 and count in T_i. When no turn has any, the result is
// nil: the step is to be skipped.
func TurnWeights(spans [][]int) [][]float64 {
	weights := make([][]float64, len(spans))
	learned := false
	for i, turns := range spans {
		weights[i] = make([]float64, len(turns))
		for t, length := range turns {
			if length > 0 {
				weights[i][t] = 1 / (float64(len(spans)) * float64(len(turns)) * float64(length))
				learned = true
			}
		}
	}
	if !learned {
		return nil
	}
	return weights
}
