package cpu

import (
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// parameter is one tensor of the model, or several that lie next to each
// other, with its gradient.
type parameter struct {
	value []float32
	grad  []float32 // as long as value; empty when it is not trained
}

// linear is a projection y = x·Wᵀ + bias, or several projections of one input
// whose weights lie one below the other, so that one product computes all of
// them. Inputs and outputs are dense: (rows, in) and (rows, out).
//
// An element of y is one chain over the input's width, and an element of a
// gradient is one chain over rows in ascending order, whatever the number of
// rows and threads (package gemm).
type linear struct {
	in, out int
	weight  parameter // (out, in)
	bias    parameter // (out), or empty

	forward  packed // for x·Wᵀ
	backward packed // for dy·W

	adapter *adapter // nil for none
	bare    bool     // leave the adapter out
}

// packed is a matrix as a product reads it.
type packed struct {
	gemm.Packed
	ready bool // it has the weights of now
}

// pack fills p with w of shape (rows, columns), unless it has it.
func (p *packed) pack(pack func(w []float32, rows, columns int, dst *gemm.Packed, threads int), w []float32, rows, columns, threads int) {
	if !p.ready {
		pack(w, rows, columns, &p.Packed, threads)
		p.ready = true
	}
}

// packForward readies the projection for apply and add.
func (l *linear) packForward(threads int) {
	l.forward.pack(gemm.PackNT, l.weight.value, l.out, l.in, threads)
	if l.adapter != nil {
		l.adapter.packForward(threads)
	}
}

// packBackward readies the projection for inputGrad and weightGrad.
func (l *linear) packBackward(threads int) {
	l.backward.pack(gemm.PackNN, l.weight.value, l.out, l.in, threads)
	if l.adapter != nil {
		l.adapter.packBackward(threads)
	}
}

// changed says that what is trained of the projection was written to.
func (l *linear) changed() {
	if l.adapter != nil {
		l.adapter.changed()
	} else {
		l.forward.ready, l.backward.ready = false, false
	}
}

// adapted reports whether the adapter takes part.
func (l *linear) adapted() bool { return l.adapter != nil && !l.bare }

// apply sets y to the projection of x. Threads that call it at a time have
// scratch of their own.
func (l *linear) apply(y, x []float32, rows, threads int, scratch *lowScratch) {
	biased := len(l.bias.value) > 0
	if biased {
		for i := range rows {
			copy(y[i*l.out:(i+1)*l.out], l.bias.value)
		}
	}
	l.product(y, x, rows, biased, threads, scratch)
}

// add adds the projection of x to y. It is for projections without bias.
func (l *linear) add(y, x []float32, rows, threads int, scratch *lowScratch) {
	l.product(y, x, rows, true, threads, scratch)
}

func (l *linear) product(y, x []float32, rows int, accumulate bool, threads int, scratch *lowScratch) {
	gemm.MulPacked(y, l.out, x, l.in, rows, &l.forward.Packed, accumulate, threads)
	if l.adapted() {
		l.adapter.add(y, l.out, x, scratch.of(l.adapter, rows), rows, threads)
	}
}

// inputGrad sets dx to the gradient of x, given that of y.
func (l *linear) inputGrad(dx, dy []float32, rows, threads int, scratch *lowScratch) {
	gemm.MulPacked(dx, l.in, dy, l.out, rows, &l.backward.Packed, false, threads)
	if l.adapted() {
		l.adapter.inputGrad(dx, dy, l.out, scratch.of(l.adapter, rows), rows, threads)
	}
}

// weightGrad adds to the gradients of what is trained of the projection,
// given y's gradient and the input.
func (l *linear) weightGrad(p *pass, dy, x []float32, rows int) {
	if len(l.bias.grad) > 0 {
		p.sumRows(l.bias.grad, dy[:rows*l.out])
	}
	if len(l.weight.grad) > 0 {
		gemm.TN(l.weight.grad, l.in, dy, l.out, x, l.in, l.out, l.in, rows, true, p.threads)
	}
	if l.adapted() {
		l.adapter.weightGrad(p, dy, l.out, x, rows)
	}
}

// lowScratch is memory for the low-rank products of adapters.
type lowScratch struct{ data []float32 }

func (s *lowScratch) of(a *adapter, rows int) []float32 {
	s.data = grow(s.data, rows*a.width)
	return s.data
}

// sumRows adds the rows of m to dst in ascending order.
func (p *pass) sumRows(dst, m []float32) {
	width := len(dst)
	parallelColumns(p, width, func(_ []float32, from, to int) {
		for i := range len(m) / width {
			vec.Add(dst[from:to], dst[from:to], m[i*width+from:i*width+to])
		}
	})
}
