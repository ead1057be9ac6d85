package cpu

import "github.com/lathe-rl/lathe/pkg/policy"

// parameters is a set of tensors in one block of memory.
type parameters struct {
	data    []float32
	tensors []policy.Tensor
}

// newParameters makes zeros with the names, shapes and types of a layout.
func newParameters(layout []policy.Tensor) parameters {
	p := parameters{tensors: make([]policy.Tensor, len(layout))}
	total := 0
	for _, t := range layout {
		total += t.Elements()
	}
	p.data = make([]float32, total)
	rest := p.data
	for i, t := range layout {
		n := t.Elements()
		p.tensors[i] = policy.Tensor{Name: t.Name, Shape: t.Shape, DType: t.DType, Data: rest[:n:n]}
		rest = rest[n:]
	}
	return p
}
