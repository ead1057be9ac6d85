package cpu

import (
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// linear is a projection y = x·Wᵀ + bias, or several projections of one input
// whose weights lie one below the other, so that one product computes all of
// them. Inputs and outputs are dense: (rows, in) and (rows, out).
//
// An element of y is one chain over the input's width, and an element of a
// gradient is one chain over rows in ascending order, whatever the number of
// rows and threads (package gemm).
type linear struct {
	in, out int
	weight  *weight    // (out, in)
	bias    *parameter // (out), or nil

	backward *gemm.Packed // the weight, or a part of it, for dy·W; shared with other linears

	adapter *adapter // nil for none
	bare    bool     // leave the adapter out
}

// readyBackward readies the projection for inputGrad and weightGrad, until
// another with the same memory is.
func (l *linear) readyBackward(threads int) {
	l.weight.packed.Transpose(l.backward, 0, l.out, threads)
	if l.adapted() {
		l.adapter.readyBackward(threads)
	}
}

// adapted reports whether the adapter takes part.
func (l *linear) adapted() bool { return l.adapter != nil && !l.bare }

// apply sets y (rows, out) to the projection of x (rows, in). Threads that call
// it at a time have scratch of their own.
func (l *linear) apply(y, x []float32, rows, threads int, scratch *lowScratch) {
	if l.bias != nil {
		for i := range rows {
			copy(y[i*l.out:(i+1)*l.out], l.bias.value)
		}
	}
	l.product(y, x, rows, l.bias != nil, threads, scratch)
}

// add adds the projection of x (rows, in) to y (rows, out).
func (l *linear) add(y, x []float32, rows, threads int, scratch *lowScratch) {
	if l.bias != nil {
		for i := range rows {
			row := y[i*l.out : (i+1)*l.out]
			vec.Add(row, row, l.bias.value)
		}
	}
	l.product(y, x, rows, true, threads, scratch)
}

// product sets y (rows, out) to the projection of x (rows, in), or adds it.
func (l *linear) product(y, x []float32, rows int, accumulate bool, threads int, scratch *lowScratch) {
	gemm.MulPacked(y, l.out, x, l.in, rows, &l.weight.packed, accumulate, threads)
	if l.adapted() {
		l.adapter.add(y, l.out, x, scratch.of(l.adapter, rows), rows, threads)
	}
}

// inputGrad sets dx (rows, in) to the gradient of x, given dy (rows, out).
func (l *linear) inputGrad(dx, dy []float32, rows, threads int, scratch *lowScratch) {
	gemm.MulPacked(dx, l.in, dy, l.out, rows, l.backward, false, threads)
	if l.adapted() {
		l.adapter.inputGrad(dx, dy, l.out, scratch.of(l.adapter, rows), rows, threads)
	}
}

// backwardOutputs is the number of outputs that inputGradByParts takes at a
// time, in whole panels.
const backwardOutputs = 4096

// inputGradByParts is inputGrad, dx (rows, in) of dy (rows, out), for a projection with so many outputs that its
// weight is not made ready as a whole, and without an adapter.
func (l *linear) inputGradByParts(dx, dy []float32, rows, threads int) {
	for first := 0; first < l.out; first += backwardOutputs {
		l.weight.packed.Transpose(l.backward, first, min(backwardOutputs, l.out-first), threads)
		gemm.MulPacked(dx, l.in, dy[first:], l.out, rows, l.backward, first > 0, threads)
	}
}

// weightGrad adds to the gradients of what is trained of the projection, given
// y's gradient dy (rows, out) and the input x (rows, in).
func (l *linear) weightGrad(p *pass, dy, x []float32, rows int) {
	if l.bias != nil && len(l.bias.grad) > 0 {
		p.sumRows(l.bias.grad, dy[:rows*l.out])
	}
	l.weight.addGrad(dy, l.out, x, l.in, rows, p.threads)
	if l.adapted() {
		l.adapter.weightGrad(p, dy, l.out, x, rows)
	}
}

// lowScratch is memory for the low-rank products of adapters.
type lowScratch struct{ data []float32 }

// of is room for (rows, width) of an adapter.
func (s *lowScratch) of(a *adapter, rows int) []float32 {
	s.data = grow(s.data, rows*a.width)
	return s.data
}

// sumRows adds the rows of m (rows, width) to dst (width) in ascending order.
func (p *pass) sumRows(dst, m []float32) {
	width := len(dst)
	parallelColumns(p, width, func(_ []float32, from, to int) {
		for i := range len(m) / width {
			vec.Add(dst[from:to], dst[from:to], m[i*width+from:i*width+to])
		}
	})
}
