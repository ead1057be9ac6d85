package cpu

import (
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// gradientScratch holds the gradients of activations that are alive at a time.
type gradientScratch struct {
	stream []float32 // (N, h) of the residual stream
	normed []float32 // (N, h) of a norm's output
	mixed  []float32 // (N, q) of attention's output
	qkv    []float32 // (N, q+2kv)
	mlp    []float32 // (N, i) of the MLP's inner activation
	sums   [][]float32
}

// back takes p.gradients.stream, the gradient of the residual stream after the
// last block, through all blocks to the embedding, and adds to the gradients
// of the weights.
func (p *pass) back() {
	for i := len(p.layers) - 1; i >= 0; i-- {
		p.blockGrad(i)
	}
	p.embeddingGrad()
}

// blockGrad is the backward pass of block.
func (p *pass) blockGrad(index int) {
	c, e := p.e.config, p.e
	l, w := &p.layers[index], &e.weights.layers[index]
	packed, grads, g := &e.backward.layers[index], &e.grads.layers[index], &p.gradients
	n, hidden, inner := len(p.tokens), c.HiddenSize, c.IntermediateSize
	wide, queries := c.QueryWidth()+2*c.KeyValueWidth(), c.QueryWidth()

	// The MLP: next = middle + down(silu(gate)·up), gate and up of norm2(middle).
	p.swiGLU(l)
	gemm.TN(grads.down, inner, g.stream, hidden, p.mlp, inner, hidden, inner, n, true, p.threads)
	g.mlp = grow(g.mlp, n*inner)
	gemm.MulPacked(g.mlp, inner, g.stream, hidden, n, &packed.down, false, p.threads)
	parallel(p.threads, n, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			row := l.gateUp[2*i*inner : 2*(i+1)*inner]
			gate, up := row[:inner], row[inner:]
			vec.SwiGLUGrad(gate, up, g.mlp[i*inner:(i+1)*inner], gate, up)
			vec.RMSNorm(p.normed[i*hidden:(i+1)*hidden], l.middle[i*hidden:(i+1)*hidden], w.norm2, float32(c.RMSNormEps))
		}
	})
	gemm.TN(grads.gateUp, hidden, l.gateUp, 2*inner, p.normed, hidden, 2*inner, hidden, n, true, p.threads)
	g.normed = grow(g.normed, n*hidden)
	gemm.MulPacked(g.normed, hidden, l.gateUp, 2*inner, n, &packed.gateUp, false, p.threads)
	normGrad(p, grads.norm2, g.normed, l.middle, l.rstd2)
	p.addNormGrad(g.normed, l.middle, w.norm2, l.rstd2)

	// Attention: middle = input + output(attention(qkv(norm1(input)))).
	gemm.TN(grads.output, queries, g.stream, hidden, l.mixed, queries, hidden, queries, n, true, p.threads)
	g.mixed = grow(g.mixed, n*queries)
	gemm.MulPacked(g.mixed, queries, g.stream, hidden, n, &packed.output, false, p.threads)
	g.qkv = grow(g.qkv, n*wide)
	p.attendGrad(l, g.qkv, g.mixed)
	parallel(p.threads, n, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			cos, sin := e.rope.at(int(p.positions[i]))
			vec.RoPEGrad(g.qkv[i*wide:i*wide+queries+c.KeyValueWidth()], cos, sin)
			vec.RMSNorm(p.normed[i*hidden:(i+1)*hidden], l.input[i*hidden:(i+1)*hidden], w.norm1, float32(c.RMSNormEps))
		}
	})
	if len(grads.qkvBias) > 0 {
		p.sumRows(grads.qkvBias, g.qkv)
	}
	gemm.TN(grads.qkv, hidden, g.qkv, wide, p.normed, hidden, wide, hidden, n, true, p.threads)
	gemm.MulPacked(g.normed, hidden, g.qkv, wide, n, &packed.qkv, false, p.threads)
	normGrad(p, grads.norm1, g.normed, l.input, l.rstd1)
	p.addNormGrad(g.normed, l.input, w.norm1, l.rstd1)
}

// addNormGrad adds to the residual stream's gradient that of the input of a
// norm with output gradient dy.
func (p *pass) addNormGrad(dy, x, weight, rstd []float32) {
	hidden := len(weight)
	parallel(p.threads, len(rstd), rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			row := func(m []float32) []float32 { return m[i*hidden : (i+1)*hidden] }
			vec.RMSNormGrad(row(p.gradients.stream), nil, row(dy), row(x), weight, rstd[i], true)
		}
	})
}

// Columns below which one goroutine sums them alone, and the unit in which
// they are shared out. A column is summed by one goroutine, row after row.
const columnGrain = 64

// normGrad adds Σ_i dy_i·(x_i·rstd_i) to the gradient of a norm's weight, row
// by row in ascending order. dy and x have len(rstd) rows.
func normGrad(p *pass, dWeight, dy, x, rstd []float32) {
	width := len(dWeight)
	parallelColumns(p, width, func(scratch []float32, from, to int) {
		product := scratch[:to-from]
		for i, r := range rstd {
			vec.Mul(product, dy[i*width+from:i*width+to], x[i*width+from:i*width+to])
			vec.AXPY(dWeight[from:to], r, product)
		}
	})
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

// embeddingGrad adds the residual stream's gradient at each token to the
// embedding's row of that token, token by token in ascending order.
func (p *pass) embeddingGrad() {
	width, grads, stream := p.e.config.HiddenSize, p.e.grads.embed, p.gradients.stream
	parallelColumns(p, width, func(_ []float32, from, to int) {
		for i, id := range p.tokens {
			row := grads[int(id)*width+from : int(id)*width+to]
			vec.Add(row, row, stream[i*width+from:i*width+to])
		}
	})
}

// parallelColumns shares out columns; f gets scratch as long as width.
func parallelColumns(p *pass, width int, f func(scratch []float32, from, to int)) {
	g := &p.gradients
	if len(g.sums) < p.threads {
		g.sums = make([][]float32, p.threads)
	}
	units := (width + columnGrain - 1) / columnGrain
	parallel(p.threads, units, 1, func(worker, from, to int) {
		g.sums[worker] = grow(g.sums[worker], width)
		f(g.sums[worker], from*columnGrain, min(width, to*columnGrain))
	})
}
