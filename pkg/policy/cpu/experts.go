package cpu

import (
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// This file is the MLP that is a mixture of E experts, of which a router sends each
// token to K. R = M·K is the number of pairs of a token and one of its experts, which
// are called rows: those of an expert lie together, in the order of tokens.
//
// A token's numbers do not depend on the others: which experts it goes to is decided
// by its own logits, products have the same bits for any number of rows, and the sum
// over a token's experts goes by their numbers. An expert's gradient is a chain over
// its tokens in ascending order.

// mixture is the router and the experts of a layer.
type mixture struct {
	router  linear // h to E; its products are float32 whatever the engine's are
	experts []expert
}

// expert is one MLP.
type expert struct {
	gateUp *weight // (2·inner, h)
	down   *weight // (h, inner)
}

// newMixture makes the mixture of the next tensors.
func newMixture(c policy.Config, b *builder, backward *gemm.Packed) *mixture {
	pairs := b.pairs
	b.pairs = false
	m := &mixture{router: linear{in: c.HiddenSize, out: c.Experts, weight: b.weight(1, c.HiddenSize), backward: backward}}
	b.pairs = pairs
	for range c.Experts {
		m.experts = append(m.experts, expert{b.weight(2, c.HiddenSize), b.weight(1, c.ExpertSize)})
	}
	return m
}

// routing says where the tokens of a layer go.
type routing struct {
	probabilities []float32 // (M, E) the router's softmax
	experts       []int32   // (M, K) in ascending order
	shares        []float32 // (M, K) what their outputs are multiplied by
	rows          []int32   // (M, K) the pairs' rows
	pairs         []int32   // (R) the rows' pairs: token·K + place
	starts        []int32   // (E+1) the experts' rows
}

// allocate makes room for n tokens.
func (r *routing) allocate(c policy.Config, n int) {
	if c.Experts == 0 {
		return
	}
	pairs := n * c.ExpertsPerToken
	r.probabilities = grow(r.probabilities, n*c.Experts)
	r.experts, r.shares = grow(r.experts, pairs), grow(r.shares, pairs)
	r.rows, r.pairs, r.starts = grow(r.rows, pairs), grow(r.pairs, pairs), grow(r.starts, c.Experts+1)
}

// choose sends token i to the experts of the largest probabilities, the first of
// equal ones. Probabilities that are not numbers come last.
func (r *routing) choose(c policy.Config, i int) {
	p, k := r.probabilities[i*c.Experts:(i+1)*c.Experts], c.ExpertsPerToken
	experts, shares := r.experts[i*k:(i+1)*k], r.shares[i*k:(i+1)*k]
	for n := range experts {
		best, most := -1, float32(math.Inf(-1))
		for e, x := range p {
			if (best < 0 || x > most) && !slices.Contains(experts[:n], int32(e)) {
				best, most = e, x
				if x != x {
					most = float32(math.Inf(-1))
				}
			}
		}
		experts[n] = int32(best)
	}
	slices.Sort(experts)
	scale := float32(0)
	for n, e := range experts {
		shares[n] = p[e]
		scale += p[e]
	}
	if c.ExpertsNormed {
		for n := range shares {
			shares[n] /= scale
		}
	}
}

// sort numbers the rows of n tokens.
func (r *routing) sort(c policy.Config, n int) {
	pairs := n * c.ExpertsPerToken
	clear(r.starts)
	for _, e := range r.experts[:pairs] {
		r.starts[e+1]++
	}
	for e := range c.Experts {
		r.starts[e+1] += r.starts[e]
	}
	next := slices.Clone(r.starts)
	for pair, e := range r.experts[:pairs] {
		r.rows[pair], r.pairs[next[e]] = next[e], int32(pair)
		next[e]++
	}
}

// expertScratch is one thread's memory for experts.
type expertScratch struct {
	x, dy        []float32   // (block, h)
	mlp, grads   []float32   // (block, inner)
	gateUp, down gemm.Packed // an expert's weights for a backward pass
}

// eachExpert shares out the experts that tokens go to. f gets an expert's rows, at
// most blockRow at a time, in ascending order; first says that they are its first.
func (p *pass) eachExpert(r *routing, f func(s *workerScratch, e, from, to int, first bool)) {
	parallel(p.threads, p.e.config.Experts, 1, func(worker, begin, end int) {
		for e := begin; e < end; e++ {
			start, stop := int(r.starts[e]), int(r.starts[e+1])
			for from := start; from < stop; from += p.blockRow {
				f(&p.workers[worker], e, from, min(stop, from+p.blockRow), from == start)
			}
		}
	})
}

// gatherPairs copies the tokens' rows (M, width) of pairs.
func gatherPairs(dst, rows []float32, pairs []int32, each, width int) []float32 {
	dst = grow(dst, len(pairs)*width)
	for i, pair := range pairs {
		copy(dst[i*width:(i+1)*width], rows[int(pair)/each*width:])
	}
	return dst
}

// combineExperts is combineTo for a layer with experts: next = middle + Σ share·y, with
// y = down(act(gate)·up) of each of a token's experts.
func (p *pass) combineExperts(index int, next []float32, whole bool) {
	c, hidden, inner, k := p.e.config, p.e.config.HiddenSize, p.e.config.ExpertSize, p.e.config.ExpertsPerToken
	l, m, n := &p.layers[index], &p.e.model.layers[index], p.rows(index)
	p.normed = grow(p.normed, n*hidden)
	p.blocks(n, func(s *workerScratch, from, to, threads int) {
		p.addAttention(index, s, from, to, threads)
		normed := p.normed[from*hidden : to*hidden]
		copy(normed, p.normedOr(s, l.middle, m.norm2, l.rstd2, from, to))
		p.route(&l.routing, m.mixed, normed, from, to, threads, s)
	})
	l.routing.sort(c, n)
	p.routed = grow(p.routed, n*k*hidden)
	p.eachExpert(&l.routing, func(s *workerScratch, e, from, to int, _ bool) {
		own, rows := &m.mixed.experts[e], to-from
		s.expert.x = gatherPairs(s.expert.x, p.normed, l.routing.pairs[from:to], k, hidden)
		gemm.MulPacked(l.gateUp[2*from*inner:], 2*inner, s.expert.x, hidden, rows, &own.gateUp.packed, false, 1)
		if whole {
			s.expert.mlp = grow(s.expert.mlp, rows*inner)
			p.e.gateRows(s.expert.mlp, l.gateUp, inner, from, to)
			gemm.MulPacked(p.routed[from*hidden:], hidden, s.expert.mlp, inner, rows, &own.down.packed, false, 1)
		}
	})
	if !whole {
		return
	}
	p.blocks(n, func(s *workerScratch, from, to, _ int) {
		out := p.branchRows(s, m.after2, l.branch2, from, to)
		p.sumExperts(out, p.routed, &l.routing, l.routing.shares, from, to)
		if p.train {
			copy(next[from*hidden:to*hidden], l.middle[from*hidden:])
		}
		p.addRows(next[from*hidden:to*hidden], out, m.after2, l.rstdAfter2, from, to, s)
	})
}

// route sends the tokens from..to-1, of which x (to-from, h) is read, to experts.
func (p *pass) route(r *routing, m *mixture, x []float32, from, to, threads int, s *workerScratch) {
	c := p.e.config
	m.router.apply(r.probabilities[from*c.Experts:], x, to-from, threads, &s.low)
	for i := from; i < to; i++ {
		row := r.probabilities[i*c.Experts : (i+1)*c.Experts]
		sum := vec.ExpShiftSum(row, row, 1, vec.Max(row))
		vec.Scale(row, 1/sum, row)
		r.choose(c, i)
	}
}

// sumExperts sets dst (to-from, h) to the sums of a token's rows (R, h), by the numbers of
// their experts, each multiplied by its share; without shares, of the rows themselves.
func (p *pass) sumExperts(dst, rows []float32, r *routing, shares []float32, from, to int) {
	hidden, k := p.e.config.HiddenSize, p.e.config.ExpertsPerToken
	for i := from; i < to; i++ {
		sum := dst[(i-from)*hidden : (i-from+1)*hidden]
		clear(sum)
		for pair := i * k; pair < (i+1)*k; pair++ {
			row := rows[int(r.rows[pair])*hidden:][:hidden]
			if shares == nil {
				vec.Add(sum, sum, row)
			} else {
				vec.AXPY(sum, shares[pair], row)
			}
		}
	}
}

// expertsGrad takes g.stream (n, h) through the experts: to the gradients of what each
// row read, of its share and of the experts' weights. The gradient of a share is
// dout·y = (dout·W)·(act(gate)·up), with W that of down, so y is not needed.
func (p *pass) expertsGrad(l *layerActivations, m *layer, n int) {
	c, g, r := p.e.config, &p.gradients, &l.routing
	hidden, inner, k := c.HiddenSize, c.ExpertSize, c.ExpertsPerToken
	g.routed, g.shares = grow(g.routed, n*k*hidden), grow(g.shares, n*k)
	g.router = grow(g.router, n*c.Experts)
	m.mixed.router.readyBackward(p.threads)
	p.blocks(n, func(_ *workerScratch, from, to, _ int) {
		g.branch2.rows(p, g.stream, l.branch2, m.after2, l.rstdAfter2, from, to)
		if m.norm2 != nil {
			p.normRows(g.normed[from*hidden:], l.middle, m.norm2.multiplier, l.rstd2, from, to)
		}
	})
	read := g.input(l.middle, m.norm2)
	p.eachExpert(r, func(s *workerScratch, e, from, to int, first bool) {
		own, x, rows := &m.mixed.experts[e], &s.expert, to-from
		if first {
			own.gateUp.packed.Transpose(&x.gateUp, 0, 2*inner, 1)
			own.down.packed.Transpose(&x.down, 0, hidden, 1)
		}
		x.x = gatherPairs(x.x, read, r.pairs[from:to], k, hidden)
		x.dy = gatherPairs(x.dy, g.branch2.product, r.pairs[from:to], k, hidden)
		x.mlp, x.grads = grow(x.mlp, rows*inner), grow(x.grads, rows*inner)
		p.e.gateRows(x.mlp, l.gateUp, inner, from, to)
		gemm.MulPacked(x.grads, inner, x.dy, hidden, rows, &x.down, false, 1)
		for i, pair := range r.pairs[from:to] {
			row := x.grads[i*inner : (i+1)*inner]
			g.shares[pair] = vec.Dot(row, x.mlp[i*inner:(i+1)*inner])
			vec.Scale(row, r.shares[pair], row)
			vec.Scale(x.dy[i*hidden:(i+1)*hidden], r.shares[pair], x.dy[i*hidden:(i+1)*hidden])
		}
		p.gateRowsGrad(x.grads, l.gateUp, inner, from, to)
		gemm.MulPacked(g.routed[from*hidden:], hidden, l.gateUp[2*from*inner:], 2*inner, rows, &x.gateUp, false, 1)
		own.down.addGrad(x.dy, hidden, x.mlp, inner, rows, 1)
		own.gateUp.addGrad(l.gateUp[2*from*inner:], 2*inner, x.x, hidden, rows, 1)
	})
}

// routerGrad sets the rows from..to-1 of g.dNorm to the gradient of what router and
// experts read, and those of g.router to the gradient of the router's logits. With
// shares s_j = p_j/Σp over a token's experts that is s_j·(ds_j - Σ ds·s), and with
// s_j = p_j, of all experts, p_i·(ds_i - Σ ds·s), ds being 0 for those of other tokens.
func (p *pass) routerGrad(l *layerActivations, m *layer, from, to, threads int) {
	c, g, r := p.e.config, &p.gradients, &l.routing
	hidden, k := c.HiddenSize, c.ExpertsPerToken
	p.sumExperts(g.dNorm[from*hidden:], g.routed, r, nil, from, to)
	for i := from; i < to; i++ {
		logits, probabilities := g.router[i*c.Experts:(i+1)*c.Experts], r.probabilities[i*c.Experts:(i+1)*c.Experts]
		experts, shares, grads := r.experts[i*k:(i+1)*k], r.shares[i*k:(i+1)*k], g.shares[i*k:(i+1)*k]
		mean := vec.Dot(grads, shares)
		if c.ExpertsNormed {
			clear(logits)
		} else {
			vec.Scale(logits, -mean, probabilities)
		}
		for n, e := range experts {
			if c.ExpertsNormed {
				logits[e] = shares[n] * (grads[n] - mean)
			} else {
				logits[e] = probabilities[e] * (grads[n] - mean)
			}
		}
	}
	gemm.MulPacked(g.dNorm[from*hidden:], hidden, g.router[from*c.Experts:], c.Experts, to-from, m.mixed.router.backward, true, threads)
}
