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
			if err := f.Read(s.own, blockOf(b, name), elements, 0); err != nil {
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
	s.held[sum] = append(s.held[sum][:0], s.own...) // own is the caller's when all are added
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

// mastered reports whether weights are rounded from float32 masters.
func (m *model) mastered(t policy.Tensor) bool {
	own := t.StoredAs()
	return own != safetensors.F32 && (own != safetensors.BF16 || m.state != safetensors.BF16)
}

// stepper steps a file of a model piece by piece: weights, gradient and what the optimizer
// keeps are read from files and go to files, and no tensor of them is in memory.
type stepper struct {
	*model
	step      adamw.Step
	gradients *arrowfile.Tensors
	before    *checkpoint.State // nil where nothing is kept yet
	after     *checkpoint.OptimizerPartFile
	at        map[string]int // places of what is kept in its file, by name

	kept              [3][]float32 // of a piece: moments and master
	gradient, rounded []float32
	random            adamw.Random
}

// apply steps a file of a model, and writes it and its part of the state into a folder.
func (m *model) apply(file int, step adamw.Step, gradients *arrowfile.Tensors, to string) (err error) {
	weights, err := makeFolder(to, m.output)
	if err != nil {
		return err
	}
	states, err := makeFolder(to, m.output+partState)
	if err != nil {
		return err
	}
	s := stepper{model: m, step: step, gradients: gradients, at: map[string]int{}}
	own, steps := checkpoint.OptimizerPart(file, len(m.Files)), 0
	if m.optimizer != "" {
		s.before, err = checkpoint.OpenState(m.optimizer, func(name string) bool { return name == own || name == checkpoint.OptimizerFile })
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.before.Close()) }()
		steps = s.before.Steps
	}
	if !step.Skipped {
		steps++
	}
	s.step.Number(steps)
	kept := m.stateOf(file)
	for i, t := range kept {
		s.at[t.Name] = i
	}
	if s.after, err = checkpoint.CreateOptimizerPart(states, own, kept, steps); err != nil {
		return err
	}
	return s.after.Close(m.WriteFile(weights, file, s.piece))
}

// keptOf are the names of what the optimizer keeps of a tensor, before the tensor's.
var keptOf = [...]string{"exp_avg.", "exp_avg_sq.", "master."}

// piece fills dst with the new weights from.. of a tensor, and writes what is kept of them.
func (s *stepper) piece(dst []float32, index, from int) error {
	if err := s.Float32To(dst, index, from); err != nil {
		return err
	}
	t := s.Tensors[index]
	kept, err := s.load(dst, t, from)
	if err != nil {
		return err
	}
	round(dst, t) // a first policy may be stored in another type than it is trained in
	e := adamw.Elements{At: s.places[index] + from, Weights: dst, First: kept[0], Second: kept[1]}
	mastered := len(kept) > 2
	if mastered {
		e.Weights = kept[2]
		if s.rounded = append(s.rounded[:0], e.Weights...); !slices.Equal(round(s.rounded, t), dst) {
			return exitcode.Dataf("the optimizer's master weights do not round to the policy's %q: they belong to another policy", t.Name)
		}
	}
	if !s.step.Skipped {
		s.gradient = slices.Grow(s.gradient[:0], len(dst))[:len(dst)]
		if err := s.gradients.Read(s.gradient, s.prefix+t.Name, t.Elements(), from); err != nil {
			return err
		}
		e.Gradient = s.gradient
		s.step.Update(e, s.step.Of(t), s.state, t.StoredAs(), &s.random)
		if mastered {
			copy(dst, e.Weights)
			round(dst, t)
		}
	}
	for i, numbers := range kept {
		if err := s.after.Put(s.at[keptOf[i]+t.Name], from, numbers); err != nil {
			return err
		}
	}
	return nil
}

// load reads what the optimizer keeps of the elements from.. of a tensor, whose weights
// are given: moments and, where weights are rounded from one, the master; zeros, and the
// weights, where nothing is kept yet.
func (s *stepper) load(weights []float32, t policy.Tensor, from int) ([][]float32, error) {
	count := len(keptOf)
	if !s.mastered(t) {
		count--
	}
	for i := range count {
		numbers := slices.Grow(s.kept[i][:0], len(weights))[:len(weights)]
		s.kept[i] = numbers
		switch {
		case s.before != nil:
			if err := s.before.Read(numbers, keptOf[i]+t.Name, t, from); err != nil {
				return nil, err
			}
		case i == 2:
			copy(numbers, weights)
		default:
			clear(numbers)
		}
	}
	return s.kept[:count], nil
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

// stateOf lists what the optimizer keeps of a file, as [policy.Trainer] does, without data.
func (m *model) stateOf(file int) []policy.Tensor {
	var all []policy.Tensor
	for i, prefix := range keptOf {
		for _, index := range m.Files[file].Tensors {
			t, dtype := m.Tensors[index], m.state
			if i == 2 {
				if dtype = safetensors.F32; !m.mastered(t) {
					continue
				}
			}
			all = append(all, policy.Tensor{Name: prefix + t.Name, Shape: t.Shape, DType: dtype})
		}
	}
	return all
}

// makeFolder makes a folder in the folder of a part, unless it is there.
func makeFolder(part, name string) (string, error) {
	path := filepath.Join(part, name)
	return path, os.MkdirAll(path, 0o777)
}
