package cpu

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// parameters is a set of tensors of the model's shape in one block of memory:
// weights, gradients or moments.
type parameters struct {
	data    []float32
	tensors []policy.Tensor
}

// newParameters makes zeros, named as in the layout with a prefix.
func newParameters(c policy.Config, prefix string) parameters {
	p := parameters{tensors: policy.Layout(c)}
	total := 0
	for _, t := range p.tensors {
		total += t.Elements()
	}
	p.data = make([]float32, total)
	rest := p.data
	for i := range p.tensors {
		t := &p.tensors[i]
		n := t.Elements()
		t.Name = prefix + t.Name
		t.Data, rest = rest[:n:n], rest[n:]
	}
	return p
}

// set copies tensors of the same names and shapes in the same order.
func (p *parameters) set(tensors []policy.Tensor) error {
	if len(tensors) != len(p.tensors) {
		return fmt.Errorf("%d tensors given; %d were expected", len(tensors), len(p.tensors))
	}
	for i, t := range tensors {
		want := p.tensors[i]
		if t.Name != want.Name || !slices.Equal(t.Shape, want.Shape) || len(t.Data) != len(want.Data) {
			return fmt.Errorf("tensor %d is %q %v with %d elements; %q %v was expected",
				i, t.Name, t.Shape, len(t.Data), want.Name, want.Shape)
		}
	}
	for i, t := range tensors {
		copy(p.tensors[i].Data, t.Data)
	}
	return nil
}
