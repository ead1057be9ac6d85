package cpu

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// withValueHead is a source with a value head after its tensors.
type withValueHead struct {
	policy.Source
	head policy.Tensor
}

func (s withValueHead) Tensors() []policy.Tensor {
	return append(s.Source.Tensors(), policy.Tensor{Name: s.head.Name, Shape: s.head.Shape, DType: s.head.DType})
}

// Float32To fills dst with consecutive elements of a tensor, row by row.
func (s withValueHead) Float32To(dst []float32, index, from int) error {
	if index < len(s.Source.Tensors()) {
		return s.Source.Float32To(dst, index, from)
	}
	copy(dst, s.head.Data[from:])
	return nil
}

// Values implements [policy.Scorer].
func (e *Engine) Values(dst []float32) error {
	switch {
	case e.value == nil:
		return exitcode.Bugf("values: the policy has no value head")
	case !e.last.valid:
		return exitcode.Bugf("values: Values called before Forward")
	case len(dst) != len(e.last.values):
		return exitcode.Bugf("values: room for %d, the batch has %d tokens", len(dst), len(e.last.values))
	}
	copy(dst, e.last.values)
	return nil
}

// valuesTo computes the value at every target: a chain of the fixed order of
// [vec.Dot], whatever the batch. values has the length of the caller's batch.
func (h *head) valuesTo(p *pass, values []float32) {
	hidden, weight := p.e.config.HiddenSize, p.e.value.value
	parallel(p.threads, len(h.targets), rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			values[h.index[i]] = vec.Dot(h.normed[i*hidden:(i+1)*hidden], weight)
		}
	})
}

// valuesGrad adds to the gradient of the value head, row by row in ascending
// order, and to that of the last norm's outputs, h.gradient. coefficients has
// the length of the caller's batch.
func (h *head) valuesGrad(p *pass, coefficients []float32) {
	hidden, value := p.e.config.HiddenSize, p.e.value
	parallel(p.threads, len(h.targets), rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			vec.AXPY(h.gradient[i*hidden:(i+1)*hidden], coefficients[h.index[i]], value.value)
		}
	})
	parallelColumns(p, hidden, func(_ []float32, from, to int) {
		for i, index := range h.index {
			vec.AXPY(value.grad[from:to], coefficients[index], h.normed[i*hidden+from:i*hidden+to])
		}
	})
}
