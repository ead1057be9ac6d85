package loss_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/loss"
)

var aggregations = []string{"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm", "token_sum"}

// The loss of a step does not depend on how its sequences are cut into
// micro-batches, on their order, or on padding; sequences given twice leave
// every mean as it is.
func TestLossInvariances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		aggregation := rapid.SampledFrom(aggregations).Draw(t, "aggregation")
		count := rapid.IntRange(1, 8).Draw(t, "sequences")
		sequences := make([]loss.TokenInputs, count)
		for i := range sequences {
			sequences[i] = loss.DrawSequence(t)
		}
		spec := loss.DrawLoss(t)
		whole := stepLoss(t, spec, aggregation, sequences, count)

		micro := rapid.IntRange(1, count).Draw(t, "sequences of a micro-batch")
		order := rapid.Permutation(sequences).Draw(t, "order")
		padded := make([]loss.TokenInputs, count)
		for i, s := range order {
			padded[i] = loss.Pad(s, rapid.IntRange(0, 3).Draw(t, "padding"))
		}
		if cut := stepLoss(t, spec, aggregation, padded, micro); !loss.Close64(cut, whole) {
			t.Fatalf("loss %v as one batch, %v in another order, padded, in micro-batches of %d", whole, cut, micro)
		}

		want := whole
		if aggregation == "token_sum" {
			want = 2 * whole
		}
		if twice := stepLoss(t, spec, aggregation, append(append([]loss.TokenInputs(nil), sequences...), sequences...), 3); !loss.Close64(twice, want) {
			t.Fatalf("%s: loss %v, %v with every sequence twice; want %v", aggregation, whole, twice, want)
		}
	})
}

// stepLoss is the loss of one optimizer step, added up over micro-batches of
// at most the given number of sequences.
func stepLoss(t *rapid.T, spec loss.Loss, aggregation string, sequences []loss.TokenInputs, micro int) float64 {
	lengths := make([]int, len(sequences))
	for i, s := range sequences {
		for _, learned := range s.Mask {
			if learned {
				lengths[i]++
			}
		}
	}
	weights, err := credit.Weights(aggregation, lengths, 5)
	if err != nil {
		t.Fatal(err)
	}
	if weights == nil {
		return 0
	}
	var step loss.Stats
	for start := 0; start < len(sequences); start += micro {
		var part loss.Stats
		for i := start; i < min(start+micro, len(sequences)); i++ {
			s := sequences[i]
			s.Weight = weights[i]
			gradient, err := loss.Coefficients(spec, s)
			if err != nil {
				t.Fatal(err)
			}
			part.Add(gradient.Stats)
		}
		step.Add(part)
	}
	return step.Loss()
}
