// Package adamw is AdamW apart from where weights, gradients and moments lie: in an
// engine, or in files of which a task has some. Whoever steps by it gives the same
// bits, however the elements are shared out.
package adamw

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Segment is the number of elements of a tensor whose squares are summed by
// themselves. Norms are summed segment by segment, so it is part of the result.
const Segment = 1 << 16

// Norm is the L2 norm of gradients by the sums of squares of their segments
// ([vec.SumSquares]), in the order of tensors and elements.
func Norm(squares []float64) float64 {
	total := 0.0
	for _, s := range squares {
		total += s
	}
	return math.Sqrt(total)
}

// Step is one optimizer step.
type Step struct {
	policy.StepStats
	settings policy.AdamW
	params   vec.AdamWParams // of a tensor that does not decay
}

// Clip looks at the norms of gradients: headNorm is that of a value head that is
// clipped by itself, else 0. The gradient is multiplied by min(1, MaxGradNorm/(norm +
// 1e-6)), as torch.nn.utils.clip_grad_norm_ does. A norm that is not finite skips the
// step.
func Clip(settings policy.AdamW, norm, headNorm float64) Step {
	s := Step{settings: settings, StepStats: policy.StepStats{GradNorm: norm, HeadNorm: headNorm}}
	if sum := norm + headNorm; math.IsNaN(sum) || math.IsInf(sum, 0) {
		s.Skipped = true
		return s
	}
	s.Scale = clip(norm, settings.MaxGradNorm)
	if settings.ValueHead.MaxGradNorm > 0 {
		s.HeadScale = clip(headNorm, settings.ValueHead.MaxGradNorm)
	}
	return s
}

// clip is what a gradient is multiplied by to bring its norm to a bound; 0 is none.
func clip(norm, most float64) float64 {
	if most <= 0 {
		return 1
	}
	return min(1, most/(norm+1e-6))
}

// Number says how many steps the moments have seen with this one.
func (s *Step) Number(steps int) {
	s.params = vec.AdamWParams{
		LR: float32(s.settings.LearningRate), Beta1: float32(s.settings.Beta1), Beta2: float32(s.settings.Beta2),
		Eps:             float32(s.settings.Epsilon),
		BiasCorrection1: float32(1 - math.Pow(s.settings.Beta1, float64(steps))),
		BiasCorrection2: float32(1 - math.Pow(s.settings.Beta2, float64(steps))),
		GradScale:       float32(s.Scale),
	}
}

// Of are the scalars of a tensor's update. Weight decay applies to matrices, the
// embedding and the head included.
func (s *Step) Of(t policy.Tensor) vec.AdamWParams {
	own := s.params
	if t.Decayed() {
		own.WeightDecay = float32(s.settings.WeightDecay)
	}
	if t.Name == policy.ValueHeadName {
		if s.settings.ValueHead.LearningRate > 0 {
			own.LR = float32(s.settings.ValueHead.LearningRate)
		}
		if s.settings.ValueHead.MaxGradNorm > 0 {
			own.GradScale = float32(s.HeadScale)
		}
	}
	return own
}

// Elements are some of a tensor in a row, as float32.
type Elements struct {
	At            int       // number of the first among those of all trained tensors
	Weights       []float32 // what the optimizer reads and writes: masters, where there are any
	First, Second []float32 // moments
	Gradient      []float32
}

// Random is memory for rounding.
type Random struct {
	noise Noise
	half  []uint16
}

// Update steps elements under the scalars of their tensor. Bfloat16 state is rounded
// randomly, and so are bfloat16 weights, which then have no masters.
func (s *Step) Update(e Elements, params vec.AdamWParams, state, weights safetensors.DType, r *Random) {
	vec.AdamW(e.Weights, e.First, e.Second, e.Gradient, params)
	if state != safetensors.BF16 {
		return
	}
	n := len(e.Weights)
	r.half = grow(r.half, n)
	ofWeights, ofFirst, ofSecond := r.noise.Draw(s.settings.Rounding, e.At, n)
	round := func(values []float32, random []uint16) {
		vec.RoundBF16Randomly(r.half, values, random)
		vec.WidenBF16(values, r.half)
	}
	round(e.First, ofFirst)
	round(e.Second, ofSecond)
	if weights == safetensors.BF16 {
		round(e.Weights, ofWeights)
	}
}

// Noise holds the random numbers that round a run of elements: 16 bits for each weight
// and for each of its moments.
type Noise [3][]uint16

// Draw returns the numbers of n elements from element at of all parameters on. Elements
// 2i and 2i+1 share block i of the stream.
func (z *Noise) Draw(stream rng.Stream, at, n int) (weights, first, second []uint16) {
	skip := at % 2
	for i := range z {
		z[i] = grow(z[i], (skip+n+1)/2*2)
	}
	vec.RandomHalves(z[0], z[1], z[2], stream, uint64(at/2))
	return z[0][skip : skip+n], z[1][skip : skip+n], z[2][skip : skip+n]
}

func grow(x []uint16, n int) []uint16 {
	if cap(x) < n {
		return make([]uint16, n)
	}
	return x[:n]
}
