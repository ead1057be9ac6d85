package loss

import (
	"math"

	"pgregory.net/rapid"
)

func close64(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

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
