package learn

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/adamw"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// tensorSum adds up the gradients of one tensor after the other ([adder]).
type tensorSum struct {
	own  []float32   // what is accumulated
	held [][]float32 // partial sums
}

// add sums a tensor over all files, in the order of the tree. What it returns is the
// caller's.
func (s *tensorSum) add(files []gradientFile, name string, elements, units int) ([]float32, error) {
	s.own = make([]float32, elements)
	t := newTree(s, units)
	for _, f := range files {
		for _, b := range f.blocks {
			err := f.Read(blockOf(b, name), elements, func(numbers []float32) error {
				copy(s.own, numbers)
				return nil
			})
			if err != nil {
				return nil, err
			}
			if err := t.add(b.start, b.level); err != nil {
				return nil, err
			}
		}
	}
	return s.own, t.finish()
}

func (s *tensorSum) HoldGradients(sum int) error {
	for len(s.held) <= sum {
		s.held = append(s.held, nil)
	}
	spare := s.held[sum]
	s.held[sum] = s.own
	if cap(spare) < len(s.own) {
		spare = make([]float32, len(s.own))
	}
	s.own = spare[:len(s.own)]
	return nil
}

func (s *tensorSum) AddGradients(sum int) error {
	vec.Add(s.own, s.own, s.held[sum])
	return nil
}

// squaresOf are the sums of squares of the segments of a tensor.
func squaresOf(values []float32) []float64 {
	var squares []float64
	for segment := range slices.Chunk(values, adamw.Segment) {
		squares = append(squares, vec.SumSquares(segment))
	}
	return squares
}

// held are the numbers of a tensor that the optimizer keeps.
type held struct{ first, second, master []float32 } // master is empty where the weights are their own

// mastered reports whether weights are rounded from float32 masters.
func (m *model) mastered(t policy.Tensor) bool {
	own := t.StoredAs()
	return own != safetensors.F32 && (own != safetensors.BF16 || m.state != safetensors.BF16)
}

// load reads what the optimizer keeps of the tensors of a file; zeros, and the weights,
// where there is nothing yet.
func (m *model) load(file int) (kept map[int]held, steps int, err error) {
	kept = map[int]held{}
	var state *checkpoint.State
	if m.optimizer != "" {
		own := checkpoint.OptimizerPart(file, len(m.Files))
		state, err = checkpoint.OpenState(m.optimizer, func(name string) bool { return name == own || name == checkpoint.OptimizerFile })
		if err != nil {
			return nil, 0, err
		}
		defer func() { err = errors.Join(err, state.Close()) }()
		steps = state.Steps
	}
	for _, index := range m.Files[file].Tensors {
		t := m.Tensors[index]
		h := held{first: make([]float32, t.Elements()), second: make([]float32, t.Elements())}
		if m.mastered(t) {
			h.master = make([]float32, t.Elements())
		}
		kept[index] = h
		for prefix, numbers := range map[string][]float32{"exp_avg.": h.first, "exp_avg_sq.": h.second, "master.": h.master} {
			switch {
			case len(numbers) == 0:
			case state != nil:
				err = state.Read(numbers, prefix+t.Name, t)
			case prefix == "master.":
				err = m.Float32To(numbers, index, 0)
			}
			if err != nil {
				return nil, 0, err
			}
		}
	}
	return kept, steps, nil
}

// apply steps a file of a model, and writes it and its part of the state into a folder.
// It holds the state of the file and the gradient of a tensor.
func (m *model) apply(file int, step adamw.Step, gradients *arrowfile.Tensors, to string) error {
	weights, err := makeFolder(to, m.output)
	if err != nil {
		return err
	}
	states, err := makeFolder(to, m.output+partState)
	if err != nil {
		return err
	}
	kept, steps, err := m.load(file)
	if err != nil {
		return err
	}
	if !step.Skipped {
		steps++
	}
	step.Number(steps)
	var gradient, copied []float32
	var random adamw.Random
	err = m.WriteFile(weights, file, func(dst []float32, index, from int) error {
		if err := m.Float32To(dst, index, from); err != nil {
			return err
		}
		t := m.Tensors[index]
		round(dst, t) // a first policy may be stored in another type than it is trained in
		if step.Skipped {
			return nil
		}
		if from == 0 {
			err := gradients.Read(m.prefix+t.Name, t.Elements(), func(numbers []float32) error {
				gradient = append(gradient[:0], numbers...)
				return nil
			})
			if err != nil {
				return err
			}
		}
		to := from + len(dst)
		e := adamw.Elements{At: m.places[index] + from, Weights: dst, First: kept[index].first[from:to], Second: kept[index].second[from:to], Gradient: gradient[from:to]}
		if master := kept[index].master; len(master) > 0 {
			e.Weights = master[from:to]
			if copied = append(copied[:0], e.Weights...); !slices.Equal(round(copied, t), dst) {
				return exitcode.Dataf("the optimizer's master weights do not round to the policy's %q: they belong to another policy", t.Name)
			}
		}
		step.Update(e, step.Of(t), m.state, t.StoredAs(), &random)
		if len(kept[index].master) > 0 {
			copy(dst, e.Weights)
			round(dst, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return checkpoint.SaveOptimizerPart(states, checkpoint.OptimizerPart(file, len(m.Files)), m.stateOf(file, kept), steps)
}

// round rounds weights to their tensor's type, as an engine does.
func round(weights []float32, t policy.Tensor) []float32 {
	if t.StoredAs() == safetensors.BF16 {
		vec.RoundToBF16(weights)
	} else {
		t.StoredAs().Round(weights)
	}
	return weights
}

// stateOf lists what the optimizer keeps of a file, as [policy.Trainer] does.
func (m *model) stateOf(file int, kept map[int]held) []policy.Tensor {
	var first, second, masters []policy.Tensor
	add := func(to *[]policy.Tensor, prefix string, t policy.Tensor, dtype safetensors.DType, numbers []float32) {
		*to = append(*to, policy.Tensor{Name: prefix + t.Name, Shape: t.Shape, DType: dtype, Data: numbers})
	}
	for _, index := range m.Files[file].Tensors {
		t, h := m.Tensors[index], kept[index]
		add(&first, "exp_avg.", t, m.state, h.first)
		add(&second, "exp_avg_sq.", t, m.state, h.second)
		if len(h.master) > 0 {
			add(&masters, "master.", t, safetensors.F32, h.master)
		}
	}
	return slices.Concat(first, second, masters)
}

// makeFolder makes a folder in the folder of a part, unless it is there.
func makeFolder(part, name string) (string, error) {
	path := filepath.Join(part, name)
	return path, os.MkdirAll(path, 0o777)
}
