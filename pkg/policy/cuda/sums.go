package cuda

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// Trained implements [policy.Sums].
func (e *Engine) Trained() []policy.Tensor {
	tensors := make([]policy.Tensor, len(e.trained))
	for i, t := range e.trained {
		tensors[i] = t.Tensor
	}
	return tensors
}

// gradientOf is where elements [from, from+n) of the gradient of trained tensor
// index are.
func (e *Engine) gradientOf(index, from, n int) (held, error) {
	switch {
	case e.failed != nil:
		return held{}, e.failed
	case !e.train:
		return held{}, exitcode.Bugf("gradients: the engine was opened without Train")
	case index < 0 || index >= len(e.trained):
		return held{}, exitcode.Bugf("gradients: tensor %d of %d", index, len(e.trained))
	}
	t := e.trained[index]
	if from < 0 || n > t.Elements()-from {
		return held{}, exitcode.Bugf("gradient of %q: elements %d to %d of %d", t.Name, from, from+n, t.Elements())
	}
	return t, nil
}

// WriteGradient implements [policy.Sums].
func (e *Engine) WriteGradient(index, from int, values []float32) error {
	t, err := e.gradientOf(index, from, len(values))
	if err != nil {
		return err
	}
	if err := e.native.put(t.role, t.layer, kindGradient, from, values); err != nil {
		return fmt.Errorf("gradient of %q: %w", t.Name, err)
	}
	return nil
}

// ReadSum implements [policy.Sums].
func (e *Engine) ReadSum(sum, index, from int, dst []float32) error {
	t, err := e.gradientOf(index, from, len(dst))
	if err != nil {
		return err
	}
	if err := e.native.get(t.role, t.layer, kindSum+kind(sum), from, dst); err != nil {
		return fmt.Errorf("partial sum %d of gradients, tensor %q: %w", sum, t.Name, err)
	}
	return nil
}

// HoldGradients implements [policy.Sums]. The plan has decided whether the sum
// is on the device or in the host's memory.
func (e *Engine) HoldGradients(sum int) error {
	if err := e.checkSum(sum); err != nil {
		return err
	}
	return e.native.holdGradients(sum)
}

// AddGradients implements [policy.Sums].
func (e *Engine) AddGradients(sum int) error {
	if err := e.checkSum(sum); err != nil {
		return err
	}
	return e.native.addGradients(sum)
}

func (e *Engine) checkSum(sum int) error {
	switch sums := e.budgets.GradientSums + e.budgets.SpilledSums; {
	case e.failed != nil:
		return e.failed
	case !e.train:
		return exitcode.Bugf("partial sums of gradients: the engine was opened without Train")
	case sum < 0 || sum >= sums:
		return exitcode.Bugf("partial sum %d of gradients; the engine was opened for %d", sum, sums)
	}
	return nil
}
