package cpu

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// pass is a run of the blocks over tokens, with the activations that it
// leaves. Shapes are given with N tokens, h the hidden size, i the
// intermediate size, q and kv the widths of all query and of all key heads.
//
// What is done to tokens one by one goes by blocks of rows, each through
// several operations while it is in the cache, and the blocks are shared out
// to threads.
type pass struct {
	e        *Engine
	threads  int
	train    bool // keep what the backward pass needs
	sparse   bool // of every layer keep the input alone; the rest is computed again
	shared   bool // the layers share what is not kept
	blockRow int  // rows of a block

	tokens    []int32 // (N)
	positions []int32 // (N) in the token's sequence
	offsets   []int32 // (S+1) sequence s is tokens[offsets[s]:offsets[s+1]]
	prefixes  []int32 // (S) the sequence that sequence s goes on from, or -1
	roots     []int32 // the sequences that go on from none, and S

	// wanted are the tokens of which the state after the last block is wanted, in
	// ascending order (M); nil for all. Of the others that block makes keys and
	// values alone, and what it makes after attention has a row for each that is
	// wanted.
	wanted []int32
	spans  []span // (S) queries of the last block, if not all tokens are wanted

	// Of a layer with experts:
	normed []float32 // (M, h) what they read
	routed []float32 // (R, h) what they make of it

	layers []layerActivations
	final  []float32 // (M, h) the residual stream after the last block
	states []float32 // (M, h) memory of final, unless that is where the blocks began

	workers   []workerScratch // one for each thread
	gradients gradientScratch
}

// layerActivations is what the backward pass needs of one block. A pass that
// does not train has one set of buffers for all layers, and one for the three
// states of the residual stream. A sparse pass has one set for all layers but
// for their inputs.
type layerActivations struct {
	input  []float32 // (N, h) the residual stream before the block
	qkv    []float32 // (N, q+2kv) after rotary embedding
	mixed  []float32 // (N, q) attention's output
	shift  []float32 // (N, heads) what was subtracted before exp
	sum    []float32 // (N, heads) the softmax's denominator
	middle []float32 // (N, h) the residual stream after attention
	gateUp []float32 // (N, 2i)
	rstd1  []float32 // (N) of the first norm
	rstd2  []float32 // (N) of the second norm

	routing routing // of a layer with experts, whose gateUp is (R, 2·expert size)

	// Of models with norms of queries and keys:
	heads  []float32 // (N, q+kv) queries and keys before their norms
	rstdQK []float32 // (N, normed parts)

	// Of models with norms after branches:
	branch1, branch2       []float32 // (N, h) what attention and the MLP add, before the norms
	rstdAfter1, rstdAfter2 []float32 // (N)
}

// workerScratch is one thread's memory.
type workerScratch struct {
	normed []float32 // (block, h)
	mlp    []float32 // (block, i)
	mixed  []float32 // (block, q) attention's output for tokens that are wanted
	branch []float32 // (block, h) what a branch adds, before it is scaled
	row    []float32 // (h)
	sums   []float32 // (h)
	low    lowScratch

	scores []float32 // (queryBlock, keys)
	grads  []float32 // (queryBlock, keys)
	capped []float32 // (queryBlock, keys) scores after their cap
	output []float32 // (queryBlock, d) gradient of a head's output
	block  []float32 // (gemm.PairBlock, d) keys or values
	expert expertScratch

	stretch []float32 // (queryBlock, d) a stretch's sums
}

const (
	// smallBlock rows take few trips through gemm's tiles and leave their
	// activations in a level-2 cache.
	smallBlock = 112
	// largeBlock rows make up for reading weights from memory.
	largeBlock = 448
	// cachedWeights is the size of a matrix that stays in the cache.
	cachedWeights = 2 << 20 // bytes
)

func newPass(e *Engine, threads int, train bool) *pass {
	return &pass{
		e: e, threads: threads, train: train, blockRow: blockRows(e.config),
		layers:  make([]layerActivations, e.config.NumHiddenLayers),
		workers: make([]workerScratch, threads),
	}
}

// blockRows is the number of rows of a block.
func blockRows(c policy.Config) int {
	if 4*2*c.IntermediateSize*c.HiddenSize > cachedWeights {
		return largeBlock
	}
	return smallBlock
}

// allocate makes room for N tokens.
func (p *pass) allocate(n int) {
	c := p.e.config
	wasShared := p.shared
	p.shared = p.sparse || !p.train
	for i := range p.layers {
		l := &p.layers[i]
		if i > 0 && p.shared {
			input := l.input
			*l = p.layers[0]
			if p.train {
				l.input = grow(input, n*c.HiddenSize)
			}
			continue
		}
		if i > 0 && wasShared {
			*l = layerActivations{input: l.input}
		}
		l.input = grow(l.input, n*c.HiddenSize)
		l.qkv = grow(l.qkv, n*wide(c))
		l.mixed = grow(l.mixed, n*c.QueryWidth())
		l.shift = grow(l.shift, n*c.NumAttentionHeads)
		l.sum = grow(l.sum, n*c.NumAttentionHeads)
		if p.shared {
			l.gateUp = grow(l.gateUp, n*2*c.LargestInnerWidth())
		} else {
			l.gateUp = grow(l.gateUp, n*2*c.InnerWidth(c.Layer(i)))
		}
		if p.shared || c.Mixture(c.Layer(i)) {
			l.routing.allocate(c, n)
		}
		l.rstd1 = grow(l.rstd1, n)
		l.rstd2 = grow(l.rstd2, n)
		if c.Norms.After() {
			l.branch1, l.branch2 = grow(l.branch1, n*c.HiddenSize), grow(l.branch2, n*c.HiddenSize)
			l.rstdAfter1, l.rstdAfter2 = grow(l.rstdAfter1, n), grow(l.rstdAfter2, n)
		}
		if c.QKNorm != policy.QKNormNone {
			l.rstdQK = grow(l.rstdQK, n*normedParts(c))
			if p.train {
				l.heads = grow(l.heads, n*rotated(c))
			}
		}
		if p.train {
			l.middle = grow(l.middle, n*c.HiddenSize)
		} else {
			l.middle = l.input
		}
	}
	p.final = p.layers[0].input
	if p.train || p.wanted != nil {
		rows := n
		if p.wanted != nil {
			rows = len(p.wanted)
		}
		p.states = grow(p.states, rows*c.HiddenSize)
		p.final = p.states
	}
	if !p.train {
		p.layers[len(p.layers)-1].middle = p.final
	}
}

// rows is the number of tokens for which a layer computes what comes after
// attention.
func (p *pass) rows(index int) int {
	if wanted := p.wantedOf(index); wanted != nil {
		return len(wanted)
	}
	return len(p.tokens)
}

// wantedOf are the tokens for which a layer computes what comes after
// attention; nil for all.
func (p *pass) wantedOf(index int) []int32 {
	if index < len(p.layers)-1 {
		return nil
	}
	return p.wanted
}

// wide is q+2kv, the width of queries, keys and values together.
func wide(c policy.Config) int { return c.QueryWidth() + 2*c.KeyValueWidth() }

// rotated is q+kv, the width of what gets rotary embedding.
func rotated(c policy.Config) int { return c.QueryWidth() + c.KeyValueWidth() }

// blocks calls f for consecutive ranges, of n rows, of at most blockRow. The
// blocks are shared out to the threads, evenly; if there are fewer blocks than
// threads, f is told to use all threads for each.
func (p *pass) blocks(n int, f func(w *workerScratch, from, to, threads int)) {
	count := (n + p.blockRow - 1) / p.blockRow
	if count < p.threads {
		for b := range count {
			f(&p.workers[0], b*n/count, (b+1)*n/count, p.threads)
		}
		return
	}
	count = (count + p.threads - 1) / p.threads * p.threads
	parallel(p.threads, count, 1, func(worker, from, to int) {
		for b := from; b < to; b++ {
			f(&p.workers[worker], b*n/count, (b+1)*n/count, 1)
		}
	})
}

// eachRow calls f for ranges of rows of so many elements that are worth
// another goroutine.
func eachRow(threads, from, to, width int, f func(from, to int)) {
	if threads <= 1 {
		f(from, to)
		return
	}
	const grain = 16 << 10
	parallel(threads, to-from, 1+grain/width, func(_, first, last int) { f(from+first, from+last) })
}

// run computes the residual stream after the last block, p.final (M, h), for
// those wanted of tokens (N) of sequences packed without padding: sequence s is
// tokens[offsets[s]:offsets[s+1]] and goes on from sequence prefixes[s] unless
// that is -1.
func (p *pass) run(tokens, offsets, prefixes, wanted []int32) {
	p.positions, p.offsets, p.prefixes, p.roots = grow(p.positions, len(tokens)), offsets, prefixes, p.roots[:0]
	p.wanted, p.spans = wanted, spansOf(wanted, offsets, p.spans[:0])
	longest := int32(0)
	for s, prefix := range prefixes {
		before := int32(0)
		if prefix < 0 {
			p.roots = append(p.roots, int32(s))
		} else {
			before = offsets[prefix+1] - offsets[prefix]
		}
		for i := offsets[s]; i < offsets[s+1]; i++ {
			p.positions[i] = before + i - offsets[s]
		}
		longest = max(longest, before+offsets[s+1]-offsets[s])
	}
	p.roots = append(p.roots, int32(len(prefixes)))
	p.e.extendRope(int(longest))
	p.start(tokens, p.positions)
	for i := range p.layers {
		p.project(i)
		p.attend(i)
		p.combine(i)
	}
}

// span is a range of a sequence's tokens.
type span struct{ from, to int }

// spansOf appends, of each sequence, the range from the first to the last token
// that is wanted, as they are numbered in it.
func spansOf(wanted, offsets []int32, spans []span) []span {
	for s := range len(offsets) - 1 {
		n := 0
		for n < len(wanted) && wanted[n] < offsets[s+1] {
			n++
		}
		if n == 0 {
			spans = append(spans, span{})
			continue
		}
		spans = append(spans, span{int(wanted[0] - offsets[s]), int(wanted[n-1]-offsets[s]) + 1})
		wanted = wanted[n:]
	}
	return spans
}

// again computes the activations of a layer from its input, except for those
// that the backward pass does not need.
func (p *pass) again(index int) {
	p.project(index)
	p.attend(index)
	p.combineTo(index, p.e.config.Norms.After())
}

// start readies the pass for tokens at positions of their sequences and looks
// up their embeddings. The weights must be packed and the rotary table long
// enough.
func (p *pass) start(tokens, positions []int32) {
	hidden, scale := p.e.config.HiddenSize, p.e.embeddingScale()
	p.tokens, p.positions = tokens, positions
	p.allocate(len(tokens))
	p.blocks(len(tokens), func(_ *workerScratch, from, to, _ int) {
		for i := from; i < to; i++ {
			row := p.layers[0].input[i*hidden : (i+1)*hidden]
			p.e.model.embed.row(row, int(tokens[i]))
			if scale != 1 {
				vec.Scale(row, scale, row)
			}
		}
	})
}

// normRows fills normed (to-from, h) with norms of the rows from..to-1 of
// stream (N, h), and those rows of rstd (N).
func (p *pass) normRows(normed, stream, weight, rstd []float32, from, to int) {
	hidden, eps := len(weight), float32(p.e.config.RMSNormEps)
	for i := from; i < to; i++ {
		rstd[i] = vec.RMSNorm(normed[(i-from)*hidden:(i-from+1)*hidden], stream[i*hidden:(i+1)*hidden], weight, eps)
	}
}

// project computes a layer's queries, keys and values from its input.
func (p *pass) project(index int) {
	c, wide := p.e.config, wide(p.e.config)
	l, m := &p.layers[index], &p.e.model.layers[index]
	p.blocks(len(p.tokens), func(s *workerScratch, from, to, threads int) {
		m.qkv.apply(l.qkv[from*wide:], p.normedOr(s, l.input, m.norm1, l.rstd1, from, to), to-from, threads, &s.low)
		eachRow(threads, from, to, wide, func(from, to int) {
			if c.QKNorm != policy.QKNormNone {
				p.normHeads(l, m, from, to)
			}
			p.rotate(index, l.qkv, from, to, vec.RoPE)
		})
	})
}

// normedOr are norms of the rows from..to-1 of stream (N, h), or the rows where
// there is no norm.
func (p *pass) normedOr(s *workerScratch, stream []float32, norm *parameter, rstd []float32, from, to int) []float32 {
	hidden := p.e.config.HiddenSize
	if norm == nil {
		return stream[from*hidden : to*hidden]
	}
	s.normed = grow(s.normed, p.blockRow*hidden)
	p.normRows(s.normed, stream, norm.multiplier, rstd, from, to)
	return s.normed
}

// rotate applies f, rotary embedding or the way back, to queries and keys of the
// rows from..to-1 of qkv (N, q+2kv) of a layer.
func (p *pass) rotate(index int, qkv []float32, from, to int, f func(x, cos, sin []float32)) {
	c, wide, table := p.e.config, wide(p.e.config), p.e.ropeOf(index)
	if table == nil {
		return
	}
	for i := from; i < to; i++ {
		row := qkv[i*wide : i*wide+rotated(c)]
		cos, sin := table.at(int(p.positions[i]))
		if c.Rotated() == c.HeadDim {
			f(row, cos, sin)
			continue
		}
		for ; len(row) > 0; row = row[c.HeadDim:] {
			f(row[:c.Rotated()], cos, sin)
		}
	}
}

// addBranch adds to rows from..to-1 of the residual stream, dst (to-from, h), what a
// branch makes of x: a projection, normed if there is a norm after it and scaled.
// The norm's inputs are kept, (N, h), with rstd (N).
func (p *pass) addBranch(dst, x []float32, project *linear, after *parameter, kept, rstd []float32, from, to, threads int, s *workerScratch) {
	scale, rows := p.e.residualScale(), to-from
	if after == nil && scale == 1 {
		project.add(dst, x, rows, threads, &s.low)
		return
	}
	out := p.branchRows(s, after, kept, from, to)
	project.apply(out, x, rows, threads, &s.low)
	p.addRows(dst, out, after, rstd, from, to, s)
}

// branchRows is room for the rows from..to-1 of what a branch adds: in kept (N, h) if
// there is a norm after it, whose backward pass needs them.
func (p *pass) branchRows(s *workerScratch, after *parameter, kept []float32, from, to int) []float32 {
	hidden := p.e.config.HiddenSize
	if after != nil {
		return kept[from*hidden : to*hidden]
	}
	s.branch = grow(s.branch, p.blockRow*hidden)
	return s.branch
}

// addRows adds to rows from..to-1 of the residual stream, dst (to-from, h), the rows
// of branchRows, normed if there is a norm after them and scaled.
func (p *pass) addRows(dst, out []float32, after *parameter, rstd []float32, from, to int, s *workerScratch) {
	hidden, scale, rows := p.e.config.HiddenSize, p.e.residualScale(), to-from
	s.row = grow(s.row, hidden)
	for i := range rows {
		row := out[i*hidden : (i+1)*hidden]
		if after != nil {
			rstd[from+i] = vec.RMSNorm(s.row, row, after.multiplier, float32(p.e.config.RMSNormEps))
			row = s.row
		}
		vec.AXPY(dst[i*hidden:(i+1)*hidden], scale, row)
	}
}

// combine adds to the residual stream the projection of attention's output,
// and then the MLP's: next = middle + down(act(gate)·up), with gate and up
// projections of norm2(middle).
func (p *pass) combine(index int) { p.combineTo(index, true) }

// combineTo is combine, unless whole only as far as gate and up.
func (p *pass) combineTo(index int, whole bool) {
	hidden, inner := p.e.config.HiddenSize, p.e.config.IntermediateSize
	l, m := &p.layers[index], &p.e.model.layers[index]
	next := p.final
	if index+1 < len(p.layers) {
		next = p.layers[index+1].input
	}
	if m.mixed != nil {
		p.combineExperts(index, next, whole)
		return
	}
	p.blocks(p.rows(index), func(s *workerScratch, from, to, threads int) {
		rows := to - from
		s.mlp = grow(s.mlp, p.blockRow*inner)
		middle := p.addAttention(index, s, from, to, threads)
		m.gateUp.apply(l.gateUp[2*from*inner:], p.normedOr(s, l.middle, m.norm2, l.rstd2, from, to), rows, threads, &s.low)
		if !whole {
			return
		}
		eachRow(threads, from, to, 2*inner, func(first, last int) {
			p.e.gateRows(s.mlp[(first-from)*inner:], l.gateUp, inner, first, last)
		})
		if p.train {
			copy(next[from*hidden:to*hidden], middle)
		}
		p.addBranch(next[from*hidden:to*hidden], s.mlp, &m.down, m.after2, l.branch2, l.rstdAfter2, from, to, threads, s)
	})
}

// addAttention sets the rows from..to-1 of the residual stream inside a layer, which
// it returns, to those before it with the projection of attention's output added.
func (p *pass) addAttention(index int, s *workerScratch, from, to, threads int) (middle []float32) {
	hidden, queries := p.e.config.HiddenSize, p.e.config.QueryWidth()
	l, m, wanted := &p.layers[index], &p.e.model.layers[index], p.wantedOf(index)
	middle, mixed := l.middle[from*hidden:to*hidden], l.mixed[from*queries:]
	switch {
	case wanted != nil:
		s.mixed = grow(s.mixed, (to-from)*queries)
		mixed = s.mixed
		gather(middle, l.input, wanted[from:to], hidden)
		gather(mixed, l.mixed, wanted[from:to], queries)
	case p.train:
		copy(middle, l.input[from*hidden:])
	}
	p.addBranch(middle, mixed, &m.output, m.after1, l.branch1, l.rstdAfter1, from, to, threads, s)
	return middle
}

// gather copies those of rows, each of width elements, that wanted names.
func gather(dst, rows []float32, wanted []int32, width int) {
	for i, at := range wanted {
		copy(dst[i*width:(i+1)*width], rows[int(at)*width:])
	}
}

// spread is the way back: the first rows become those of n that wanted names,
// in ascending order, and the others zeros.
func spread(rows []float32, wanted []int32, n, width int) {
	next := n
	for i := len(wanted) - 1; i >= 0; i-- {
		at := int(wanted[i])
		clear(rows[(at+1)*width : next*width])
		copy(rows[at*width:(at+1)*width], rows[i*width:(i+1)*width])
		next = at
	}
	clear(rows[:next*width])
}
