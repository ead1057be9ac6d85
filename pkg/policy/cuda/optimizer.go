package cuda

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Weights implements [policy.Trainer].
func (e *Engine) Weights() []policy.Tensor {
	data := make([]float32, elements(e.trained))
	e.fail(e.read(e.trained, kindWeight, data))
	return listed(e.trained, "", data)
}

// Gradients implements [policy.Trainer]: a copy; there are none for an engine
// that does not train.
func (e *Engine) Gradients() []policy.Tensor {
	if !e.train {
		return nil
	}
	data := make([]float32, elements(e.trained))
	e.fail(e.read(e.trained, kindGradient, data))
	tensors := listed(e.trained, "", data)
	for i := range tensors {
		tensors[i].DType = safetensors.F32
	}
	return tensors
}

// Step implements [policy.Trainer] as package cpu does.
func (e *Engine) Step(given policy.AdamW) (policy.StepStats, error) {
	defer phase.Enter(phase.Optimizer)()
	if e.failed != nil {
		return policy.StepStats{}, e.failed
	}
	if !e.train {
		return policy.StepStats{}, exitcode.Bugf("optimizer step: the engine was opened without Train")
	}
	stats, err := e.native.step(adamW{given, e.steps + 1})
	if err != nil {
		return policy.StepStats{}, err
	}
	if !stats.Skipped {
		e.steps++
		e.forget()
	}
	return stats, nil
}

// mastered are the tensors with weights that are rounded from float32 masters:
// matrices, then vectors, as package cpu lists them, so that either goes on from
// the other's files.
func (e *Engine) mastered() []held {
	if !e.train || e.state == bfloat16Type {
		return nil
	}
	var matrices, vectors []held
	for _, t := range e.trained {
		switch {
		case t.DType != safetensors.BF16:
		case t.Decayed():
			matrices = append(matrices, t)
		default:
			vectors = append(vectors, t)
		}
	}
	return append(matrices, vectors...)
}

// stateParts are the three parts of the optimizer's state in their order.
func (e *Engine) stateParts() []statePart {
	moments := safetensors.F32
	if e.state == bfloat16Type {
		moments = safetensors.BF16
	}
	return []statePart{
		{"exp_avg.", kindExpAvg, moments, e.trained},
		{"exp_avg_sq.", kindExpAvgSq, moments, e.trained},
		{"master.", kindMaster, safetensors.F32, e.mastered()},
	}
}

type statePart struct {
	prefix  string
	kind    kind
	dtype   safetensors.DType
	tensors []held
}

// OptimizerState implements [policy.Trainer].
func (e *Engine) OptimizerState() (tensors []policy.Tensor, steps int) {
	if !e.train {
		return nil, 0
	}
	for _, part := range e.stateParts() {
		data := make([]float32, elements(part.tensors))
		e.fail(e.read(part.tensors, part.kind, data))
		for _, t := range listed(part.tensors, part.prefix, data) {
			t.DType = part.dtype
			tensors = append(tensors, t)
		}
	}
	return tensors, e.steps
}

// LoadOptimizerState implements [policy.Trainer].
func (e *Engine) LoadOptimizerState(tensors []policy.Tensor, steps int) error {
	switch {
	case e.failed != nil:
		return e.failed
	case !e.train:
		return exitcode.Bugf("loading the optimizer's state: the engine was opened without Train")
	case steps < 0:
		return exitcode.Bugf("loading the optimizer's state: %d steps", steps)
	}
	var want []policy.Tensor
	for _, part := range e.stateParts() {
		for _, t := range part.tensors {
			want = append(want, policy.Tensor{Name: part.prefix + t.Name, Shape: t.Shape})
		}
	}
	if err := policy.CheckState(tensors, want); err != nil {
		return err
	}
	for _, part := range e.stateParts() {
		given := tensors[:len(part.tensors)]
		tensors = tensors[len(part.tensors):]
		for i, t := range part.tensors {
			if part.kind == kindMaster {
				if err := e.checkMaster(t, given[i].Data); err != nil {
					return err
				}
			}
			if err := e.native.put(t.role, t.layer, part.kind, 0, given[i].Data); err != nil {
				return fmt.Errorf("loading the optimizer's %q: %w", given[i].Name, err)
			}
		}
	}
	e.steps = steps
	e.forget()
	return nil
}

// checkMaster wants a master to round to the weights that the policy's folder
// has.
func (e *Engine) checkMaster(t held, master []float32) error {
	weights, half := make([]float32, len(master)), make([]uint16, len(master))
	if err := e.native.get(t.role, t.layer, kindWeight, 0, weights); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	vec.RoundBF16(half, master)
	rounded := make([]float32, len(master))
	vec.WidenBF16(rounded, half)
	if !slices.Equal(weights, rounded) {
		return exitcode.Dataf("the optimizer's master weights do not round to the policy's %q: they belong to another policy", t.Name)
	}
	return nil
}
