package policy

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Source gives the weights of a policy piece by piece, so that no copy of all
// of them in float32 need exist.
type Source interface {
	Config() Config

	// Tensors lists the tensors of Layout in its order, without data and with
	// the type that each is stored in.
	Tensors() []Tensor

	// Float32To fills dst with the elements from..from+len(dst)-1 of tensor
	// index, widened exactly. It may be called from several goroutines. A
	// number that is not finite is a data error.
	Float32To(dst []float32, index, from int) error

	Close() error
}

// State gives an optimizer's state piece by piece, as [Source] gives weights.
type State interface {
	// Tensors lists moments and masters without data, with the type that each is stored in.
	Tensors() []Tensor

	// Float32To fills dst with the elements from..from+len(dst)-1 of tensor index, widened
	// exactly.
	Float32To(dst []float32, index, from int) error
}

// InMemory is a source of tensors in memory, which it shares: those of Layout,
// in its order, with data.
func InMemory(c Config, tensors []Tensor) Source { return memory{c, StateInMemory(tensors)} }

type memory struct {
	config Config
	StateInMemory
}

func (m memory) Config() Config { return m.config }

// Float32To implements [Source].
func (m memory) Float32To(dst []float32, index, from int) error {
	if err := m.StateInMemory.Float32To(dst, index, from); err != nil {
		return err
	}
	return CheckFinite(dst, m.StateInMemory[index].Name, from)
}

func (memory) Close() error { return nil }

// StateInMemory is a state of tensors in memory, which it shares.
type StateInMemory []Tensor

// Tensors implements [State].
func (m StateInMemory) Tensors() []Tensor {
	bare := make([]Tensor, len(m))
	for i, t := range m {
		bare[i] = Tensor{Name: t.Name, Shape: t.Shape, DType: t.DType}
	}
	return bare
}

// Float32To implements [State].
func (m StateInMemory) Float32To(dst []float32, index, from int) error {
	t := m[index]
	if from < 0 || from > len(t.Data) || len(dst) > len(t.Data)-from {
		return exitcode.Bugf("reading elements %d to %d of tensor %q with %d elements", from, from+len(dst), t.Name, len(t.Data))
	}
	copy(dst, t.Data[from:])
	return nil
}

// ReadState reads all of a state into memory.
func ReadState(s State) (StateInMemory, error) {
	tensors := s.Tensors()
	for i := range tensors {
		t := &tensors[i]
		t.Data = make([]float32, t.Elements())
		if err := s.Float32To(t.Data, i, 0); err != nil {
			return nil, err
		}
	}
	return tensors, nil
}

// CheckFinite refuses NaN and infinity among the elements from.. of a tensor.
func CheckFinite(values []float32, name string, from int) error {
	for i, x := range values {
		if x-x != 0 {
			return exitcode.Dataf("tensor %q: element %d is %g; every weight must be a finite number", name, from+i, x)
		}
	}
	return nil
}
