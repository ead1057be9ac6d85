package cpu

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

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
	routed []float32 // (R, h) of what experts read
	shares []float32 // (R) of the experts' shares
	router []float32 // (N, E) of the router's logits

	branch1, branch2 branchGrad // of attention and of the MLP
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
	n, hidden, queries := p.rows(index), c.HiddenSize, c.QueryWidth()
	m.output.readyBackward(p.threads)
	g.branch2.begin(p, m.after2, g.stream, n)
	g.branch1.begin(p, m.after1, g.middle, n)
	if m.mixed != nil {
		p.expertsGrad(l, m, n)
	} else {
		m.down.readyBackward(p.threads)
		m.gateUp.readyBackward(p.threads)
	}
	p.blocks(n, func(s *workerScratch, from, to, threads int) {
		if m.mixed != nil {
			p.routerGrad(l, m, from, to, threads)
		} else {
			p.gatesGrad(l, m, s, from, to, threads)
		}
		p.throughNorm(g.middle, g.stream, l.middle, m.norm2, l.rstd2, from, to)
		g.branch1.rows(p, g.middle, l.branch1, m.after1, l.rstdAfter1, from, to)
		m.output.inputGrad(g.mixed[from*queries:], g.branch1.product[from*hidden:], to-from, threads, &s.low)
	})
	if m.mixed != nil {
		m.mixed.router.weightGrad(p, g.router, g.input(l.middle, m.norm2), n)
	} else {
		m.down.weightGrad(p, g.branch2.product, g.mlp, n)
		m.gateUp.weightGrad(p, l.gateUp, g.input(l.middle, m.norm2), n)
	}
	normGrad(p, m.after2, g.branch2.scaled, l.branch2, l.rstdAfter2, n)
	normGrad(p, m.norm2, g.dNorm, l.middle, l.rstd2, n)
	normGrad(p, m.after1, g.branch1.scaled, l.branch1, l.rstdAfter1, n)
	wanted := p.wantedOf(index)
	if wanted == nil {
		m.output.weightGrad(p, g.branch1.product, l.mixed, n)
		return
	}
	g.wanted = grow(g.wanted, n*queries)
	gather(g.wanted, l.mixed, wanted, queries)
	m.output.weightGrad(p, g.branch1.product, g.wanted, n)
	spread(g.middle, wanted, len(p.tokens), hidden)
	spread(g.mixed, wanted, len(p.tokens), queries)
}

// gatesGrad takes the rows from..to-1 of g.stream through the MLP: to g.dNorm, and
// those of gate and up projections become their gradients.
func (p *pass) gatesGrad(l *layerActivations, m *layer, s *workerScratch, from, to, threads int) {
	g, hidden, inner := &p.gradients, p.e.config.HiddenSize, p.e.config.IntermediateSize
	s.mlp = grow(s.mlp, p.blockRow*inner)
	p.e.gateRows(g.mlp[from*inner:], l.gateUp, inner, from, to)
	g.branch2.rows(p, g.stream, l.branch2, m.after2, l.rstdAfter2, from, to)
	m.down.inputGrad(s.mlp, g.branch2.product[from*hidden:], to-from, threads, &s.low)
	p.gateRowsGrad(s.mlp, l.gateUp, inner, from, to)
	m.gateUp.inputGrad(g.dNorm[from*hidden:], l.gateUp[2*from*inner:], to-from, threads, &s.low)
}

// gateRowsGrad is the backward pass of gateRows: the rows of gateUp become their
// gradients, given mlp's (to-from, inner).
func (p *pass) gateRowsGrad(mlp, gateUp []float32, inner, from, to int) {
	for i := from; i < to; i++ {
		row := gateUp[2*i*inner : 2*(i+1)*inner]
		p.e.gateGrad(row[:inner], row[inner:], mlp[(i-from)*inner:(i-from+1)*inner], row[:inner], row[inner:])
	}
}

// projectGrad is the backward pass of project: from g.qkv and g.middle to
// g.stream, which is left alone when nothing below is trained.
func (p *pass) projectGrad(index int) {
	c, g := p.e.config, &p.gradients
	l, m := &p.layers[index], &p.e.model.layers[index]
	n, hidden, wide := len(p.tokens), c.HiddenSize, wide(c)
	wanted := index > 0 || len(p.e.model.embed.grad) > 0
	m.qkv.readyBackward(p.threads)
	normed := c.QKNorm != policy.QKNormNone
	if normed {
		p.blocks(n, func(_ *workerScratch, from, to, _ int) { p.rotate(index, g.qkv, from, to, vec.RoPEGrad) })
		p.headNormGrad(l, m)
	}
	p.blocks(n, func(s *workerScratch, from, to, threads int) {
		if normed {
			p.throughHeadNorm(l, m, from, to)
		} else {
			p.rotate(index, g.qkv, from, to, vec.RoPEGrad)
		}
		if wanted {
			m.qkv.inputGrad(g.dNorm[from*hidden:], g.qkv[from*wide:], to-from, threads, &s.low)
			p.throughNorm(g.stream, g.middle, l.input, m.norm1, l.rstd1, from, to)
		} else if m.norm1 != nil {
			p.normRows(g.normed[from*hidden:], l.input, m.norm1.multiplier, l.rstd1, from, to)
		}
	})
	m.qkv.weightGrad(p, g.qkv, g.input(l.input, m.norm1), n)
	normGrad(p, m.norm1, g.dNorm, l.input, l.rstd1, n)
}

// throughNorm sets the rows from..to-1 of dst to those of direct, the gradient
// that goes past a norm and its branch, plus what goes through the norm, whose
// output has the gradient g.dNorm and whose input was x; without a norm, the
// gradient itself. It sets these rows of g.normed to the norm's output. All are
// (N, h) but for rstd (N).
func (p *pass) throughNorm(dst, direct, x []float32, norm *parameter, rstd []float32, from, to int) {
	hidden, g := p.e.config.HiddenSize, &p.gradients
	if norm == nil {
		vec.Add(dst[from*hidden:to*hidden], direct[from*hidden:to*hidden], g.dNorm[from*hidden:to*hidden])
		return
	}
	p.normRows(g.normed[from*hidden:], x, norm.multiplier, rstd, from, to)
	copy(dst[from*hidden:to*hidden], direct[from*hidden:])
	for i := from; i < to; i++ {
		row := func(m []float32) []float32 { return m[i*hidden : (i+1)*hidden] }
		vec.RMSNormGrad(row(dst), nil, row(g.dNorm), row(x), norm.multiplier, rstd[i], true)
	}
}

// input is what a projection read: the norm's output, which throughNorm leaves, or
// the residual stream where there is no norm.
func (g *gradientScratch) input(stream []float32, norm *parameter) []float32 {
	if norm == nil {
		return stream
	}
	return g.normed
}

// branchGrad is the gradient of what a branch adds to the residual stream. It shares
// memory with the stream's gradient where nothing lies between.
type branchGrad struct {
	scaled  []float32 // (N, h) of the norm after the branch, which is what is scaled
	product []float32 // (N, h) of the branch's last projection

	ofScale, ofNorm []float32 // memory
}

// begin makes room for the gradients of n rows, of which stream is that of the
// residual stream.
func (b *branchGrad) begin(p *pass, after *parameter, stream []float32, n int) {
	b.scaled = stream
	if p.e.residualScale() != 1 {
		b.ofScale = grow(b.ofScale, n*p.e.config.HiddenSize)
		b.scaled = b.ofScale
	}
	b.product = b.scaled
	if after != nil {
		b.ofNorm = grow(b.ofNorm, n*p.e.config.HiddenSize)
		b.product = b.ofNorm
	}
}

// rows sets the rows from..to-1, given those of the stream's gradient and the
// norm's inputs x (N, h).
func (b *branchGrad) rows(p *pass, stream, x []float32, after *parameter, rstd []float32, from, to int) {
	hidden := p.e.config.HiddenSize
	if scale := p.e.residualScale(); scale != 1 {
		vec.Scale(b.scaled[from*hidden:to*hidden], scale, stream[from*hidden:to*hidden])
	}
	if after == nil {
		return
	}
	for i := from; i < to; i++ {
		row := func(m []float32) []float32 { return m[i*hidden : (i+1)*hidden] }
		vec.RMSNormGrad(row(b.product), nil, row(b.scaled), row(x), after.multiplier, rstd[i], false)
	}
}

// Columns below which one goroutine sums them alone, and the unit in which
// they are shared out. A column is summed by one goroutine, row after row.
const columnGrain = 64

// normGrad adds Σ_i dy_i·(x_i·rstd_i) to the gradient of a norm's weight, row
// by row in ascending order, if there is a norm that is trained. dy and x are (n,
// width).
func normGrad(p *pass, norm *parameter, dy, x, rstd []float32, n int) {
	if norm == nil {
		return
	}
	dWeight := norm.grad
	width := len(dWeight)
	parallelColumns(p, width, func(scratch []float32, from, to int) {
		product := scratch[:to-from]
		for i, r := range rstd[:n] {
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
