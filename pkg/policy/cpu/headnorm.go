package cpu

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Norms of queries and keys stand before rotary embedding. Each norms a part of a
// token's queries or keys, one head or all of them, with one weight for all parts
// of queries and one for all parts of keys of a layer.

// normedParts is the number of parts of a token that are normed.
func normedParts(c policy.Config) int {
	if c.QKNorm == policy.QKNormAll {
		return 2
	}
	return c.NumAttentionHeads + c.NumKeyValueHeads
}

// eachNormedPart calls f for the parts of a token in order: part number a is the
// elements from..to-1 of queries and keys together.
func (m *layer) eachNormedPart(c policy.Config, f func(norm *parameter, a, from, to int)) {
	a := 0
	for from := 0; from < rotated(c); a++ {
		norm := m.qNorm
		if from >= c.QueryWidth() {
			norm = m.kNorm
		}
		to := from + norm.size()
		f(norm, a, from, to)
		from = to
	}
}

// normHeads norms the queries and keys of the rows from..to-1 of l.qkv.
func (p *pass) normHeads(l *layerActivations, m *layer, from, to int) {
	c, wide, parts := p.e.config, wide(p.e.config), normedParts(p.e.config)
	for i := from; i < to; i++ {
		row := l.qkv[i*wide : i*wide+rotated(c)]
		if p.train {
			copy(l.heads[i*rotated(c):], row)
		}
		m.eachNormedPart(c, func(norm *parameter, a, from, to int) {
			l.rstdQK[i*parts+a] = vec.RMSNorm(row[from:to], row[from:to], norm.multiplier, float32(c.RMSNormEps))
		})
	}
}

// headNormGrad adds to the gradients of the norms' weights, given those of
// their outputs, g.qkv: a chain over tokens in ascending order and, within a
// token, over heads.
func (p *pass) headNormGrad(l *layerActivations, m *layer) {
	c, g, parts := p.e.config, &p.gradients, normedParts(p.e.config)
	wide := wide(c)
	for _, norm := range []*parameter{m.qNorm, m.kNorm} {
		parallelColumns(p, len(norm.grad), func(scratch []float32, first, last int) {
			product := scratch[:last-first]
			for i := range p.tokens {
				m.eachNormedPart(c, func(of *parameter, a, from, _ int) {
					if of != norm {
						return
					}
					dy, x := g.qkv[i*wide+from:][first:last], l.heads[i*rotated(c)+from:][first:last]
					vec.Mul(product, dy, x)
					vec.AXPY(norm.grad[first:last], l.rstdQK[i*parts+a], product)
				})
			}
		})
	}
}

// throughHeadNorm takes the rows from..to-1 of g.qkv from the norms' outputs to
// their inputs.
func (p *pass) throughHeadNorm(l *layerActivations, m *layer, from, to int) {
	c, wide, parts := p.e.config, wide(p.e.config), normedParts(p.e.config)
	for i := from; i < to; i++ {
		m.eachNormedPart(c, func(norm *parameter, a, from, to int) {
			dy, x := p.gradients.qkv[i*wide:][from:to], l.heads[i*rotated(c):][from:to]
			vec.RMSNormGrad(dy, nil, dy, x, norm.multiplier, l.rstdQK[i*parts+a], false)
		})
	}
}
