package credit

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// The modes have the names and meanings of verl. The aggregates of token losses
// [[1,2],[3,4,5,6]] are worked out by hand.
func TestWeightsOfTheFrameworks(t *testing.T) {
	t.Parallel()
	losses := [][]float64{{1, 2}, {3, 4, 5, 6}}
	for _, test := range []struct {
		aggregation string
		normTokens  int
		want        float64
	}{
		{"token_mean", 0, 3.5},
		{"seq_mean_token_mean", 0, 3.0},
		{"seq_mean_token_sum", 0, 10.5},
		{"seq_mean_token_sum_norm", 1, 10.5},
		{"seq_mean_token_sum_norm", 4, 2.625},  // verl: width of the padded batch
		{"seq_mean_token_sum_norm", 8, 1.3125}, // verl with loss_scale_factor 8, TRL dr_grpo
		{"token_sum", 0, 21},
	} {
		t.Run(test.aggregation, func(t *testing.T) {
			weights, err := Weights(test.aggregation, []int{2, 4}, test.normTokens)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "loss", weightedSum(weights, losses), test.want)
		})
	}
}

func weightedSum(weights []float64, losses [][]float64) float64 {
	var sum float64
	for i, sequence := range losses {
		for _, loss := range sequence {
			sum += weights[i] * loss
		}
	}
	return sum
}

var aggregations = []string{"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm", "token_sum"}

// A fully masked sequence is no sequence: it weighs nothing, and the others
// weigh what they would without it (verl's agg_loss).
func TestFullyMaskedSequencesAreNotCounted(t *testing.T) {
	t.Parallel()
	for _, aggregation := range aggregations {
		with, err := Weights(aggregation, []int{0, 2, 0, 4, 0}, 8)
		if err != nil {
			t.Fatal(err)
		}
		without, err := Weights(aggregation, []int{2, 4}, 8)
		if err != nil {
			t.Fatal(err)
		}
		nearAll(t, aggregation, with, []float64{0, without[0], 0, without[1], 0})
	}
}

// A step without tokens is an explicit nil, never a division by zero.
func TestWeightsOfNothing(t *testing.T) {
	t.Parallel()
	for _, aggregation := range aggregations {
		for _, lengths := range [][]int{nil, {}, {0}, {0, 0, 0}} {
			weights, err := Weights(aggregation, lengths, 0)
			if weights != nil || err != nil {
				t.Errorf("%s of lengths %v: %v, %v; want nil, nil", aggregation, lengths, weights, err)
			}
		}
	}
}

func TestWeightsErrors(t *testing.T) {
	t.Parallel()
	if _, err := Weights("mean", []int{1}, 1); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("unknown aggregation: error %v, want a usage error", err)
	}
	if _, err := Weights("seq_mean_token_sum_norm", []int{1}, 0); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("norm of 0: error %v, want a bug", err)
	}
	if _, err := Weights("token_mean", []int{1, -1}, 0); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("negative length: error %v, want a bug", err)
	}
}
