package loss

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"pgregory.net/rapid"
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

func TestNormTokens(t *testing.T) {
	t.Parallel()
	lengths := []int{2, 4}
	for _, test := range []struct {
		name string
		spec Loss
		want int
	}{
		{"limit on new tokens", Loss{}, 16},
		{"given", Loss{NormTokens: 8}, 8},
		{"longest response", Loss{NormTokens: 8, NormPadded: true}, 4},
	} {
		if got := NormTokens(test.spec, lengths, 16); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
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
			weights, err := Weights(aggregation, lengths, NormTokens(Loss{NormPadded: true}, lengths, 8))
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

// The loss of a step does not depend on how its sequences are cut into
// micro-batches, on their order, or on padding; sequences given twice leave
// every mean as it is.
func TestLossInvariances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		aggregation := rapid.SampledFrom(aggregations).Draw(t, "aggregation")
		count := rapid.IntRange(1, 8).Draw(t, "sequences")
		sequences := make([]TokenInputs, count)
		for i := range sequences {
			sequences[i] = drawSequence(t)
		}
		spec := drawLoss(t)
		whole := stepLoss(t, spec, aggregation, sequences, count)

		micro := rapid.IntRange(1, count).Draw(t, "sequences of a micro-batch")
		order := rapid.Permutation(sequences).Draw(t, "order")
		padded := make([]TokenInputs, count)
		for i, s := range order {
			padded[i] = pad(s, rapid.IntRange(0, 3).Draw(t, "padding"))
		}
		if cut := stepLoss(t, spec, aggregation, padded, micro); !close64(cut, whole) {
			t.Fatalf("loss %v as one batch, %v in another order, padded, in micro-batches of %d", whole, cut, micro)
		}

		want := whole
		if aggregation == "token_sum" {
			want = 2 * whole
		}
		if twice := stepLoss(t, spec, aggregation, append(append([]TokenInputs(nil), sequences...), sequences...), 3); !close64(twice, want) {
			t.Fatalf("%s: loss %v, %v with every sequence twice; want %v", aggregation, whole, twice, want)
		}
	})
}

func close64(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// stepLoss is the loss of one optimizer step, added up over micro-batches of
// at most the given number of sequences.
func stepLoss(t *rapid.T, spec Loss, aggregation string, sequences []TokenInputs, micro int) float64 {
	lengths := make([]int, len(sequences))
	for i, s := range sequences {
		for _, learned := range s.Mask {
			if learned {
				lengths[i]++
			}
		}
	}
	weights, err := Weights(aggregation, lengths, 5)
	if err != nil {
		t.Fatal(err)
	}
	if weights == nil {
		return 0
	}
	var step Stats
	for start := 0; start < len(sequences); start += micro {
		var part Stats
		for i := start; i < min(start+micro, len(sequences)); i++ {
			s := sequences[i]
			s.Weight = weights[i]
			gradient, err := Coefficients(spec, s)
			if err != nil {
				t.Fatal(err)
			}
			part.Add(gradient.Stats)
		}
		step.Add(part)
	}
	return step.Loss()
}

// lossWithEverything has every term of the loss switched on.
func lossWithEverything() Loss {
	return Loss{
		Kind: "clip", ClipLow: .2, ClipHigh: .28, DualClip: 3, RatioClamp: 20,
		KL:        KL{Coef: .1, Estimator: "k3", Gradient: "estimator", Importance: true},
		SamplerKL: .05, EntropyCoef: .01, TruncatedIS: 2,
	}
}

// drawLoss draws settings of any kind with every penalty on.
func drawLoss(t *rapid.T) Loss {
	spec := lossWithEverything()
	spec.Kind = rapid.SampledFrom([]string{"clip", "cispo", "gspo", "dppo", "reinforce", "nll"}).Draw(t, "kind")
	spec.DualClip = rapid.SampledFrom([]float64{0, 1.5, 3}).Draw(t, "dual clip")
	spec.KL.Estimator = rapid.SampledFrom([]string{"k1", "k2", "k3", "abs"}).Draw(t, "estimator")
	spec.KL.Importance = rapid.Bool().Draw(t, "importance")
	return spec
}

// drawSequence draws up to six tokens with one advantage, some masked out
// with numbers that would spoil everything if they were looked at.
func drawSequence(t *rapid.T) TokenInputs {
	n := rapid.IntRange(0, 6).Draw(t, "tokens")
	s := TokenInputs{Mask: rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "mask"), Weight: 1}
	advantage := rapid.Float64Range(-2, 2).Draw(t, "advantage")
	column := func(name string, low, high float64) []float64 {
		values := rapid.SliceOfN(rapid.Float64Range(low, high), n, n).Draw(t, name)
		for i, learned := range s.Mask {
			if !learned {
				values[i] = math.NaN()
			}
		}
		return values
	}
	s.New = column("new", -3, 0)
	s.Old = column("old", -3, 0)
	s.Reference = column("reference", -3, 0)
	s.Sampler = column("sampler", -3, 0)
	s.Entropy = column("entropy", 0, 3)
	s.Advantage = column("advantages", advantage, advantage)
	return s
}

// pad appends n positions that are masked out.
func pad(s TokenInputs, n int) TokenInputs {
	for range n {
		s.Mask = append(append([]bool(nil), s.Mask...), false)
		for _, column := range []*[]float64{&s.New, &s.Old, &s.Reference, &s.Sampler, &s.Entropy, &s.Advantage} {
			*column = append(append([]float64(nil), *column...), math.Inf(-1))
		}
	}
	return s
}
