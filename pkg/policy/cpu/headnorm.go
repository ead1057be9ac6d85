package cpu

import "github.com/lathe-rl/lathe/pkg/vec"

// Qwen3 norms every query head and every key head by itself, with one weight
// for all query heads and one for all key heads of a layer, before rotary
// embedding.

// headNorm is the weight of head a of a token, queries first.
func (m *layer) headNorm(a, queryHeads int) *parameter {
	if a < queryHeads {
		return m.qNorm
	}
	return m.kNorm
}

// normHeads norms the queries and keys of the rows from..to-1 of l.qkv.
func (p *pass) normHeads(l *layerActivations, m *layer, from, to int) {
	c, wide, heads := p.e.config, wide(p.e.config), normedHeads(p.e.config)
	d, eps := c.HeadDim, float32(c.RMSNormEps)
	for i := from; i < to; i++ {
		row := l.qkv[i*wide : i*wide+rotated(c)]
		if p.train {
			copy(l.heads[i*rotated(c):], row)
		}
		for a := range heads {
			head := row[a*d : (a+1)*d]
			l.rstdQK[i*heads+a] = vec.RMSNorm(head, head, m.headNorm(a, c.NumAttentionHeads).value, eps)
		}
	}
}

// headNormGrad adds to the gradients of the norms' weights, given those of
// their outputs, g.qkv: a chain over tokens in ascending order and, within a
// token, over heads.
func (p *pass) headNormGrad(l *layerActivations, m *layer) {
	c, g, heads := p.e.config, &p.gradients, normedHeads(p.e.config)
	d, wide := c.HeadDim, wide(c)
	if len(m.qNorm.grad) == 0 {
		return
	}
	parallelColumns(p, d, func(scratch []float32, from, to int) {
		product := scratch[:to-from]
		for i := range p.tokens {
			for a := range heads {
				dy, x := g.qkv[i*wide+a*d:][from:to], l.heads[i*rotated(c)+a*d:][from:to]
				vec.Mul(product, dy, x)
				vec.AXPY(m.headNorm(a, c.NumAttentionHeads).grad[from:to], l.rstdQK[i*heads+a], product)
			}
		}
	})
}

// throughHeadNorm takes the rows from..to-1 of g.qkv from the norms' outputs to
// their inputs.
func (p *pass) throughHeadNorm(l *layerActivations, m *layer, from, to int) {
	c, heads := p.e.config, normedHeads(p.e.config)
	d, wide := c.HeadDim, wide(c)
	for i := from; i < to; i++ {
		for a := range heads {
			dy, x := p.gradients.qkv[i*wide+a*d:][:d], l.heads[i*rotated(c)+a*d:][:d]
			vec.RMSNormGrad(dy, nil, dy, x, m.headNorm(a, c.NumAttentionHeads).value, l.rstdQK[i*heads+a], false)
		}
	}
}
