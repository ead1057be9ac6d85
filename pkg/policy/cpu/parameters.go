package cpu

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// parameters is a set of tensors in one block of memory: weights, gradients or
// moments.
type parameters struct {
	data    []float32
	tensors []policy.Tensor
}

// newParameters makes zeros, named as in a layout with a prefix.
func newParameters(layout []policy.Tensor, prefix string) parameters {
	p := parameters{tensors: slices.Clone(layout)}
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

// load reads the tensors of a source.
func (p *parameters) load(source policy.Source) error {
	tensors := source.Tensors()
	if err := p.match(tensors); err != nil {
		return err
	}
	for i := range p.tensors {
		p.tensors[i].DType = tensors[i].DType
		if err := source.Float32To(p.tensors[i].Data, i, 0); err != nil {
			return err
		}
	}
	return nil
}

// match wants tensors of the same names and shapes in the same order.
func (p *parameters) match(tensors []policy.Tensor) error {
	if len(tensors) != len(p.tensors) {
		return exit.Bugf("%d tensors given; %d were expected", len(tensors), len(p.tensors))
	}
	for i, t := range tensors {
		if want := p.tensors[i]; t.Name != want.Name || !slices.Equal(t.Shape, want.Shape) {
			return exit.Bugf("tensor %d is %q %v; %q %v was expected", i, t.Name, t.Shape, want.Name, want.Shape)
		}
	}
	return nil
}

// set copies tensors of the same names and shapes in the same order.
func (p *parameters) set(tensors []policy.Tensor) error {
	if err := p.match(tensors); err != nil {
		return err
	}
	for i, t := range tensors {
		if len(t.Data) != len(p.tensors[i].Data) {
			return exit.Bugf("tensor %q has %d elements; %d were expected", t.Name, len(t.Data), len(p.tensors[i].Data))
		}
		copy(p.tensors[i].Data, t.Data)
	}
	return nil
}
