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
}

// packed is a matrix as a product reads it.
type packed struct {
	gemm.Packed
	ready bool // it has the weights of now
}

// packForward readies the projection for apply.
func (l *linear) packForward(threads int) {
	if !l.forward.ready {
		gemm.PackNT(l.weight.value, l.out, l.in, &l.forward.Packed, threads)
		l.forward.ready = true
	}
}

// packBackward readies the projection for inputGrad.
func (l *linear) packBackward(threads int) {
	if !l.backward.ready {
		gemm.PackNN(l.weight.value, l.out, l.in, &l.backward.Packed, threads)
		l.backward.ready = true
	}
}

// changed says that the weights were written to.
func (l *linear) changed() { l.forward.ready, l.backward.ready = false, false }

// apply sets y to the projection of x.
func (l *linear) apply(y, x []float32, rows, threads int) {
	biased := len(l.bias.value) > 0
	if biased {
		for i := range rows {
			copy(y[i*l.out:(i+1)*l.out], l.bias.value)
		}
	}
	gemm.MulPacked(y, l.out, x, l.in, rows, &l.forward.Packed, biased, threads)
}

// add adds the projection of x to y. It is for projections without bias.
func (l *linear) add(y, x []float32, rows, threads int) {
	gemm.MulPacked(y, l.out, x, l.in, rows, &l.forward.Packed, true, threads)
}

// inputGrad sets dx to the gradient of x, given that of y.
func (l *linear) inputGrad(dx, dy []float32, rows, threads int) {
	gemm.MulPacked(dx, l.in, dy, l.out, rows, &l.backward.Packed, false, threads)
}

// weightGrad adds to the gradients of weight and bias, given y's gradient and
// the input.
func (l *linear) weightGrad(p *pass, dy, x []float32, rows int) {
	if len(l.bias.grad) > 0 {
		p.sumRows(l.bias.grad, dy[:rows*l.out])
	}
	gemm.TN(l.weight.grad, l.in, dy, l.out, x, l.in, l.out, l.in, rows, true, p.threads)
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
