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
func (e *Engine) OptimizerState() (policy.State, int) {
	s := state{engine: e}
	if !e.train {
		return s, 0
	}
	for _, part := range e.stateParts() {
		for _, t := range part.tensors {
			s.tensors = append(s.tensors, policy.Tensor{Name: part.prefix + t.Name, Shape: t.Shape, DType: part.dtype})
			s.places = append(s.places, stored{t.place, part.kind})
		}
	}
	return s, e.steps
}

// state is the optimizer's state where it is: on the device, or in memory of the library.
type state struct {
	engine  *Engine
	tensors []policy.Tensor
	places  []stored // of each tensor
}

// stored is where the engine has a kind of numbers of a tensor.
type stored struct {
	place
	kind kind
}

func (s state) Tensors() []policy.Tensor { return slices.Clone(s.tensors) }

func (s state) Float32To(dst []float32, index, from int) error {
	if s.engine.failed != nil {
		return s.engine.failed
	}
	at := s.places[index]
	if err := s.engine.native.get(at.role, at.layer, at.kind, from, dst); err != nil {
		return fmt.Errorf("tensor %q: %w", s.tensors[index].Name, err)
	}
	return nil
}

// LoadOptimizerState implements [policy.Trainer].
func (e *Engine) LoadOptimizerState(given policy.State, steps int) error {
	switch {
	case e.failed != nil:
		return e.failed
	case !e.train:
		return exitcode.Bugf("loading the optimizer's state: the engine was opened without Train")
	case steps < 0:
		return exitcode.Bugf("loading the optimizer's state: %d steps", steps)
	}
	own, _ := e.OptimizerState()
	s := own.(state)
	index, err := policy.PlaceState(given, s.tensors)
	if err != nil {
		return err
	}
	piece := make([]float32, copyElements)
	for i, t := range s.tensors {
		for from := 0; from < t.Elements(); from += copyElements {
			values := piece[:min(copyElements, t.Elements()-from)]
			if err := given.Float32To(values, index[i], from); err != nil {
				return err
			}
			if err := e.putState(s.places[i], from, values); err != nil {
				return fmt.Errorf("loading the optimizer's %q: %w", t.Name, err)
			}
		}
	}
	e.steps = steps
	e.forget()
	return nil
}

// putState sets a part of a tensor's state. A part of a master has to round to the weights
// that the policy's folder has.
func (e *Engine) putState(at stored, from int, values []float32) error {
	if at.kind == kindMaster {
		weights, half, rounded := make([]float32, len(values)), make([]uint16, len(values)), make([]float32, len(values))
		if err := e.native.get(at.role, at.layer, kindWeight, from, weights); err != nil {
			return err
		}
		vec.RoundBF16(half, values)
		vec.WidenBF16(rounded, half)
		if !slices.Equal(weights, rounded) {
			return exitcode.Dataf("the master weights do not round to the policy's: they belong to another policy")
		}
	}
	return e.native.put(at.role, at.layer, at.kind, from, values)
}
