package loss

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The coefficients are the derivative of the loss, for every kind and
// penalty: a central difference with step h agrees up to h² times the third
// derivative. Draws near a kink (a clip bound, |d| = 0) are left out.
func TestCoefficientsAreTheGradient(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := drawLoss(t)
		in := drawSequence(t)
		in.Weight = rapid.Float64Range(.1, 1).Draw(t, "weight")
		if spec.Kind == "gspo" {
			// The ratio of the sequence is detached: each token has the slope
			// -A·s of its own term. That is the derivative of the
			// sum only while all terms of the sequence weigh the same.
			spec.KL.Importance = false
			in.Sampler = in.Old
		}
		gradient, err := Coefficients(spec, in)
		if err != nil {
			t.Fatal(err)
		}
		for i, learned := range in.Mask {
			if !learned {
				if gradient.LogProb[i] != 0 || gradient.Entropy[i] != 0 {
					t.Fatalf("token %d is masked out but has coefficients %v, %v", i, gradient.LogProb[i], gradient.Entropy[i])
				}
				continue
			}
			if nearKink(spec, in, i) {
				continue
			}
			checkSlope(t, "logp", gradient.LogProb[i], lossAlong(t, spec, in, in.New, i))
			checkSlope(t, "H", gradient.Entropy[i], lossAlong(t, spec, in, in.Entropy, i))
		}
	})
}

// lossAlong is the loss as a function of what is added to one value.
func lossAlong(t *rapid.T, spec Loss, in TokenInputs, column []float64, i int) func(float64) float64 {
	frozen := append([]float64(nil), in.New...)
	return func(h float64) float64 {
		kept := column[i]
		column[i] += h
		defer func() { column[i] = kept }()
		if spec.Kind == "cispo" {
			return cispoFrozen(t, spec, in, frozen)
		}
		gradient, err := Coefficients(spec, in)
		if err != nil {
			t.Fatal(err)
		}
		return gradient.Stats.Loss()
	}
}

// cispoFrozen is the loss of cispo with the ratio of its policy term held at
// the given log-probabilities, since the ratio passes no gradient.
func cispoFrozen(t *rapid.T, spec Loss, in TokenInputs, frozen []float64) float64 {
	gradient, err := Coefficients(spec, in)
	if err != nil {
		t.Fatal(err)
	}
	loss := gradient.Stats.Loss() - gradient.Stats.PolicyLoss
	for i, learned := range in.Mask {
		if learned {
			r := max(1-spec.ClipLow, min(1+spec.ClipHigh, math.Exp(frozen[i]-in.Old[i])))
			w := min(math.Exp(in.Old[i]-in.Sampler[i]), spec.TruncatedIS)
			loss -= in.Weight * w * r * in.Advantage[i] * in.New[i]
		}
	}
	return loss
}

const differenceStep = 1e-5

func checkSlope(t *rapid.T, by string, got float64, loss func(float64) float64) {
	want := (loss(differenceStep) - loss(-differenceStep)) / (2 * differenceStep)
	// Third derivatives are below e³ times a ratio of e³ here; rounding of a
	// loss of magnitude m costs m·2⁻⁵³/h.
	if tolerance := 1e-6 * (1 + math.Abs(want)); !(math.Abs(got-want) <= tolerance) {
		t.Fatalf("coefficient by %s is %.12g, the finite difference %.12g", by, got, want)
	}
}

// nearKink reports whether moving token i by the step may cross a point
// where its loss has no derivative.
func nearKink(spec Loss, in TokenInputs, i int) bool {
	logRatio := in.New[i] - in.Old[i]
	if spec.Kind == "gspo" {
		logRatio = newSequence(spec, in).logRatio
	}
	for _, edge := range []float64{math.Log(1 - spec.ClipLow), math.Log(1 + spec.ClipHigh), math.Log(max(spec.DualClip, 1e-9))} {
		if math.Abs(logRatio-edge) < 2*differenceStep {
			return true
		}
	}
	change := math.Exp(in.New[i]) - math.Exp(in.Sampler[i])
	if spec.Kind == "dppo" && (math.Abs(change-spec.ClipHigh) < 2*differenceStep || math.Abs(change+spec.ClipLow) < 2*differenceStep) {
		return true
	}
	return math.Abs(in.New[i]-in.Reference[i]) < 2*differenceStep
}
