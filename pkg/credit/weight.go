package credit

import (
	"github.com/lathe-rl/lathe/pkg/registry"
)

// Weight says how much the tokens of an optimizer step count: its loss is the
// sum over turns and their tokens of the turn's weight times the token's loss.
type Weight interface {
	// Weights returns a weight for each turn of each segment. spans[i] are the
	// tokens of the turns of segment i, masked segments included; normTokens is
	// the divisor that the recipe gives. nil means that there is no token.
	Weights(spans [][]int, normTokens int) ([][]float64, error)
}

func init() {
	for _, w := range []struct{ name, summary string }{
		{"token_mean", "the mean over the tokens of the step"},
		{"seq_mean_token_mean", "the mean over segments of the mean over their tokens (ExIt Eq. 4)"},
		{"seq_mean_token_sum", "the mean over segments of the sum over their tokens"},
		{"seq_mean_token_sum_norm", "the same, divided by one number of tokens (Dr. GRPO)"},
		{"token_sum", "the sum over the tokens of the step"},
	} {
		WeightAxis.Register(registry.Choice[Weight]{Name: w.name, Summary: w.summary, Make: func(any) (Weight, error) { return aggregation(w.name), nil }})
	}
	WeightAxis.Register(registry.Choice[Weight]{
		Name: "seq_mean_turn_mean_token_mean", Summary: "the mean over segments of the mean over their turns of the mean over the turn's tokens (FlipTS Eq. 1)",
		Make: func(any) (Weight, error) { return turnMeans{}, nil },
	})
}

// turnMeans is [TurnWeights].
type turnMeans struct{}

func (turnMeans) Weights(spans [][]int, _ int) ([][]float64, error) {
	return TurnWeights(spans), nil
}

// aggregation is one of [Weights].
type aggregation string

func (a aggregation) Weights(spans [][]int, normTokens int) ([][]float64, error) {
	lengths := make([]int, len(spans))
	for i, turns := range spans {
		for _, tokens := range turns {
			lengths[i] += tokens
		}
	}
	weights, err := Weights(string(a), lengths, normTokens)
	if err != nil || weights == nil {
		return nil, err
	}
	byTurn := make([][]float64, len(spans))
	for i, turns := range spans {
		byTurn[i] = make([]float64, len(turns))
		for turn := range turns {
			byTurn[i][turn] = weights[i]
		}
	}
	return byTurn, nil
}
