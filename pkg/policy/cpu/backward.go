package cpu

import "github.com/lathe-rl/lathe/pkg/vec"

// gradientScratch holds the gradients of activations that are alive at a time,
// and activations that are computed again.
type gradientScratch struct {
	stream []float32 // (N, h) of the residual stream after a block, then before it
	middle []float32 // (N, h) of the residual stream inside it
	dNorm  []float32 // (N, h) of a norm's output
	mixed  []float32 // (N, q) of attention's output
	wanted []float32 // (M, q) attention's output for tokens that are wanted
	qkv    []float32 // (N, q+2kv)
	normed []float32 // (N, h) a norm's output
	mlp    []float32 // (N, i) the MLP's inner activation
	low    []float32 // (N, ranks) of an adapter
}

// back takes p.gradients.stream, the gradient of the residual stream after the
// last block for tokens that are wanted, through all blocks to the embedding, and
// adds to the gradients of the weights.
func (p *pass) back() {
	g, c, n := &p.gradients, p.e.config, len(p.tokens)
	g.middle = grow(g.middle, n*c.HiddenSize)
	g.dNorm = grow(g.dNorm, n*c.HiddenSize)
	g.normed = grow(g.normed, n*c.HiddenSize)
	g.mixed = grow(g.mixed, n*c.QueryWidth())
	g.qkv = grow(g.qkv, n*wide(c))
	g.mlp = grow(g.mlp, n*c.IntermediateSize)
	for i := len(p.layers) - 1; i >= 0; i-- {
		if p.sparse && i < len(p.layers)-1 {
			p.again(i) // the last layer's activations are still there
		}
		p.combineGrad(i)
		p.attendGrad(i, g.qkv, g.mixed)
		p.projectGrad(i)
	}
	if len(p.e.model.embed.grad) > 0 {
		p.embeddingGrad()
	}
}

// combineGrad is the backward pass of combine: from g.stream to g.middle and
// g.mixed.
func (p *pass) combineGrad(index int) {
	c, g := p.e.config, &p.gradients
	l, m := &p.layers[index], &p.e.model.layers[index]
	n, hidden, inner, queries := p.rows(index), c.HiddenSize, c.IntermediateSize, c.QueryWidth()
	m.down.readyBackward(p.threads)
	m.gateUp.readyBackward(p.threads)
	m.output.readyBackward(p.threads)
	p.blocks(n, func(s *workerScratch, from, to, threads int) {
		s.mlp = grow(s.mlp, p.blockRow*inner)
		swiGLU(g.mlp[from*inner:], l.gateUp, inner, from, to)
		m.down.inputGrad(s.mlp, g.stream[from*hidden:], to-from, threads, &s.low)
		for i := from; i < to; i++ {
			row := l.gateUp[2*i*inner : 2*(i+1)*inner]
			vec.SwiGLUGrad(row[:inner], row[inner:], s.mlp[(i-from)*inner:(i-from+1)*inner], row[:inner], row[inner:])
		}
		m.gateUp.inputGrad(g.dNorm[from*hidden:], l.gateUp[2*from*inner:], to-from, threads, &s.low)
		p.normRows(g.normed[from*hidden:], l.middle, m.norm2.value, l.rstd2, from, to)
		p.throughNorm(g.middle, g.stream, l.middle, m.norm2.value, l.rstd2, from, to)
		m.output.inputGrad(g.mixed[from*queries:], g.middle[from*hidden:], to-from, threads, &s.low)
	})
	m.down.weightGrad(p, g.stream, g.mlp, n)
	m.gateUp.weightGrad(p, l.gateUp, g.normed, n)
	normGrad(p, m.norm2.grad, g.dNorm, l.middle, l.rstd2[:n])
	wanted := p.wantedOf(index)
	if wanted == nil {
		m.output.weightGrad(p, g.middle, l.mixed, n)
		return
	}
	g.wanted = grow(g.wanted, n*queries)
	gather(g.wanted, l.mixed, wanted, queries)
	m.output.weightGrad(p, g.middle, g.wanted, n)
	spread(g.middle, wanted, len(p.tokens), hidden)
	spread(g.mixed, wanted, len(p.tokens), queries)
}

// projectGrad is the backward pass of project: from g.qkv and g.middle to
// g.stream, which is left alone when nothing below is trained.
func (p *pass) projectGrad(index int) {
	c, g := p.e.config, &p.gradients
	l, m := &p.layers[index], &p.e.model.layers[index]
	n, hidden, wide := len(p.tokens), c.HiddenSize, wide(c)
	wanted := index > 0 || len(m.norm1.grad) > 0
	m.qkv.readyBackward(p.threads)
	if c.QKNorm() {
		p.blocks(n, func(_ *workerScratch, from, to, _ int) { p.rotateGrad(from, to) })
		p.headNormGrad(l, m)
	}
	p.blocks(n, func(s *workerScratch, from, to, threads int) {
		if c.QKNorm() {
			p.throughHeadNorm(l, m, from, to)
		} else {
			p.rotateGrad(from, to)
		}
		p.normRows(g.normed[from*hidden:], l.input, m.norm1.value, l.rstd1, from, to)
		if wanted {
			m.qkv.inputGrad(g.dNorm[from*hidden:], g.qkv[from*wide:], to-from, threads, &s.low)
			p.throughNorm(g.stream, g.middle, l.input, m.norm1.value, l.rstd1, from, to)
		}
	})
	m.qkv.weightGrad(p, g.qkv, g.normed, n)
	normGrad(p, m.norm1.grad, g.dNorm, l.input, l.rstd1)
}

// rotateGrad takes rows of g.qkv back through rotary embedding.
func (p *pass) rotateGrad(from, to int) {
	c, wide := p.e.config, wide(p.e.config)
	for i := from; i < to; i++ {
		cos, sin := p.e.rope.at(int(p.positions[i]))
		vec.RoPEGrad(p.gradients.qkv[i*wide:i*wide+rotated(c)], cos, sin)
	}
}

// throughNorm sets the rows from..to-1 of dst to those of direct, the gradient
// that goes past a norm and its branch, plus what goes through the norm, whose
// output has the gradient g.dNorm and whose input was x. All are (N, h) but for
// weight (h) and rstd (N).
func (p *pass) throughNorm(dst, direct, x, weight, rstd []float32, from, to int) {
	hidden := len(weight)
	copy(dst[from*hidden:to*hidden], direct[from*hidden:])
	for i := from; i < to; i++ {
		row := func(m []float32) []float32 { return m[i*hidden : (i+1)*hidden] }
		vec.RMSNormGrad(row(dst), nil, row(p.gradients.dNorm), row(x), weight, rstd[i], true)
	}
}

// Columns below which one goroutine sums them alone, and the unit in which
// they are shared out. A column is summed by one goroutine, row after row.
const columnGrain = 64

// normGrad adds Σ_i dy_i·(x_i·rstd_i) to the gradient of a norm's weight, row
// by row in ascending order; an empty gradient is not wanted. dWeight is
// (width), dy and x are (len(rstd), width).
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

// parallelColumns shares out columns; f gets scratch as long as width.
func parallelColumns(p *pass, width int, f func(scratch []float32, from, to int)) {
	units := (width + columnGrain - 1) / columnGrain
	parallel(p.threads, units, 1, func(worker, from, to int) {
		s := &p.workers[worker]
		s.sums = grow(s.sums, width)
		f(s.sums, from*columnGrain, min(width, to*columnGrain))
	})
}
