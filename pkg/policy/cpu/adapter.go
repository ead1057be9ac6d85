package cpu

import (
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// adapter is the low-rank part of a linear: with u = s·x·Aᵀ it adds u·Bᵀ to
// the outputs of the projections that it adapts. The A of these projections
// lie one below the other, so that one product computes u for all of them.
//
// The sums are chains as those of linear are: one over the input's width in
// ascending order for an element of u, and on from the element of y, one over
// the rank.
type adapter struct {
	in, width int // width: the ranks of all parts
	scale     float32
	down      *weight // (width, in): A
	parts     []adapterPart

	backward gemm.Packed // A for du·A
}

// adapterPart is the adapter of one projection.
type adapterPart struct {
	rank     int
	low      int         // its first column in u
	column   int         // its first column in y
	out      int         // its columns in y
	up       *weight     // (out, rank): B
	backward gemm.Packed // B for dy·B
}

// newAdapter makes the adapter of a linear of which some parts, (column, out)
// in its outputs, are adapted. It takes the tensors in the layout's order: all
// A, then all B. It is nil when there are no parts.
func newAdapter(in int, l policy.LoRA, parts []adapterPart, b *builder) *adapter {
	if len(parts) == 0 {
		return nil
	}
	a := &adapter{in: in, width: len(parts) * l.Rank, scale: l.Scale(), parts: parts}
	a.down = b.weight(len(parts), in)
	for i := range parts {
		p := &parts[i]
		p.rank, p.low = l.Rank, i*l.Rank
		p.up = b.weight(1, l.Rank)
	}
	return a
}

// readyBackward readies the adapter for the gradients.
func (a *adapter) readyBackward(threads int) {
	a.down.packed.Transpose(&a.backward, 0, a.width, threads)
	for i := range a.parts {
		p := &a.parts[i]
		p.up.packed.Transpose(&p.backward, 0, p.out, threads)
	}
}

// low sets u (rows, width) to s·x·Aᵀ, with x (rows, in).
func (a *adapter) low(u, x []float32, rows, threads int) {
	gemm.MulPacked(u, a.width, x, a.in, rows, &a.down.packed, false, threads)
	vec.Scale(u[:rows*a.width], a.scale, u[:rows*a.width])
}

// add adds u·Bᵀ to y (rows, stride), with x (rows, in) and room for u (rows,
// width) in scratch.
func (a *adapter) add(y []float32, stride int, x, scratch []float32, rows, threads int) {
	a.low(scratch, x, rows, threads)
	for i := range a.parts {
		p := &a.parts[i]
		gemm.MulPacked(y[p.column:], stride, scratch[p.low:], a.width, rows, &p.up.packed, true, threads)
	}
}

// lowGrad sets du (rows, width) to the gradient of x·Aᵀ, s·dy·B, with dy (rows,
// stride).
func (a *adapter) lowGrad(du, dy []float32, stride, rows, threads int) {
	for i := range a.parts {
		p := &a.parts[i]
		gemm.MulPacked(du[p.low:], a.width, dy[p.column:], stride, rows, &p.backward, false, threads)
	}
	vec.Scale(du[:rows*a.width], a.scale, du[:rows*a.width])
}

// inputGrad adds to dx (rows, in) what comes through the adapter, given y's
// gradient dy (rows, stride), with room for u's (rows, width) in scratch.
func (a *adapter) inputGrad(dx, dy []float32, stride int, scratch []float32, rows, threads int) {
	a.lowGrad(scratch, dy, stride, rows, threads)
	gemm.MulPacked(dx, a.in, scratch, a.width, rows, &a.backward, true, threads)
}

// weightGrad adds to the gradients of A and B, given y's gradient dy (rows,
// stride) and the input x (rows, in). The low-rank products are computed again:
// they are few.
func (a *adapter) weightGrad(p *pass, dy []float32, stride int, x []float32, rows int) {
	s := &p.gradients
	s.low = grow(s.low, rows*a.width)
	a.low(s.low, x, rows, p.threads)
	for i := range a.parts {
		part := &a.parts[i]
		part.up.addGrad(dy[part.column:], stride, s.low[part.low:], a.width, rows, p.threads)
	}
	a.lowGrad(s.low, dy, stride, rows, p.threads)
	a.down.addGrad(s.low, a.width, x, a.in, rows, p.threads)
}

// adapt gives the model's linears the adapters of a layout, whose tensors the
// builder hands out in order.
func (m *model) adapt(c policy.Config, l policy.LoRA, b *builder) {
	groups := policy.ProjectionGroups(c)
	for i := range m.layers {
		layer := &m.layers[i]
		for g, of := range []*linear{&layer.qkv, &layer.output, &layer.gateUp, &layer.down} {
			var parts []adapterPart
			column := 0
			for _, p := range groups[g] {
				if l.Adapts(p.Target()) {
					parts = append(parts, adapterPart{column: column, out: p.Out})
				}
				column += p.Out
			}
			of.adapter = newAdapter(of.in, l, parts, b)
		}
	}
}
