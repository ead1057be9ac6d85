package cpu

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// sumGrain is the number of elements of a sum that are worth a goroutine.
const sumGrain = 1 << 16

// roomTokens is where a pass has all the rows that its products have use for.
const roomTokens = 4096

// Trained implements [policy.Sums].
func (e *Engine) Trained() []policy.Tensor {
	tensors := append([]policy.Tensor(nil), e.trained.tensors...)
	for i := range tensors {
		tensors[i].Data = nil
	}
	return tensors
}

// Room implements [policy.Scorer].
func (e *Engine) Room(groups [][]int) int {
	tokens := 0
	for i, group := range groups {
		for _, n := range group {
			tokens += n
		}
		if i > 0 && tokens > roomTokens {
			return i
		}
	}
	return len(groups)
}

// WriteGradient implements [policy.Sums].
func (e *Engine) WriteGradient(index, from int, values []float32) error {
	if err := e.checkGradient(index, from, len(values)); err != nil {
		return err
	}
	e.settleGradients()
	copy(e.grads.tensors[index].Data[from:], values)
	return nil
}

func (e *Engine) checkGradient(index, from, n int) error {
	tensors := e.grads.tensors
	switch {
	case !e.train:
		return exitcode.Bugf("gradients: the engine was opened without Train")
	case index < 0 || index >= len(tensors):
		return exitcode.Bugf("gradients: tensor %d of %d", index, len(tensors))
	case from < 0 || n > len(tensors[index].Data)-from:
		return exitcode.Bugf("gradient of %q: elements %d to %d of %d", tensors[index].Name, from, from+n, len(tensors[index].Data))
	}
	return nil
}

// HoldGradients implements [policy.Sums].
func (e *Engine) HoldGradients(sum int) error {
	switch {
	case !e.train:
		return exitcode.Bugf("partial sums of gradients: the engine was opened without Train")
	case sum < 0:
		return exitcode.Bugf("partial sum %d of gradients", sum)
	}
	e.settleGradients()
	for len(e.sums) <= sum {
		e.sums = append(e.sums, nil)
	}
	if e.sums[sum] == nil {
		e.sums[sum] = make([]float32, len(e.grads.data))
	}
	held := e.sums[sum]
	parallel(e.threads, len(held), sumGrain, func(_, from, to int) { copy(held[from:to], e.grads.data[from:to]) })
	e.ZeroGradients()
	return nil
}

// AddGradients implements [policy.Sums].
func (e *Engine) AddGradients(sum int) error {
	held, err := e.heldSum(sum)
	if err != nil {
		return err
	}
	e.settleGradients()
	parallel(e.threads, len(held), sumGrain, func(_, from, to int) {
		own := e.grads.data[from:to]
		vec.Add(own, own, held[from:to])
	})
	return nil
}

// ReadSum implements [policy.Sums].
func (e *Engine) ReadSum(sum, index, from int, dst []float32) error {
	held, err := e.heldSum(sum)
	if err != nil {
		return err
	}
	if err := e.checkGradient(index, from, len(dst)); err != nil {
		return err
	}
	for _, t := range e.grads.tensors[:index] {
		from += len(t.Data)
	}
	copy(dst, held[from:])
	return nil
}

// heldSum is a partial sum that holds something.
func (e *Engine) heldSum(sum int) ([]float32, error) {
	if sum < 0 || sum >= len(e.sums) || e.sums[sum] == nil {
		return nil, exitcode.Bugf("partial sum %d of gradients is empty", sum)
	}
	return e.sums[sum], nil
}
