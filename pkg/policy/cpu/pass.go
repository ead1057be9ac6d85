package cpu

import (
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Rows of work below which one goroutine does it alone.
const rowGrain = 32

// pass is a run of the blocks over packed sequences, with the activations that
// it leaves. Shapes are given with N tokens, h the hidden size, i the
// intermediate size, q and kv the widths of all query and of all key heads.
type pass struct {
	e       *Engine
	threads int
	train   bool // keep every layer's activations

	tokens    []int32 // (N)
	offsets   []int32 // (S+1)
	positions []int32 // (N)

	layers []layerActivations
	final  []float32 // (N, h) the residual stream after the last block
	normed []float32 // (N, h) scratch
	mlp    []float32 // (N, i) scratch

	attention []attentionScratch // one for each thread
	gradients gradientScratch
}

// layerActivations is what the backward pass needs of one block. A pass that
// does not train has one set of buffers for all layers, and one for the three
// states of the residual stream.
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
}

func newPass(e *Engine, threads int, train bool) *pass {
	return &pass{
		e: e, threads: threads, train: train,
		layers:    make([]layerActivations, e.config.NumHiddenLayers),
		attention: make([]attentionScratch, threads),
	}
}

// allocate makes room for N tokens.
func (p *pass) allocate(n int) {
	c := p.e.config
	for i := range p.layers {
		l := &p.layers[i]
		if !p.train && i > 0 {
			*l = p.layers[0]
			continue
		}
		l.input = grow(l.input, n*c.HiddenSize)
		l.qkv = grow(l.qkv, n*(c.QueryWidth()+2*c.KeyValueWidth()))
		l.mixed = grow(l.mixed, n*c.QueryWidth())
		l.shift = grow(l.shift, n*c.NumAttentionHeads)
		l.sum = grow(l.sum, n*c.NumAttentionHeads)
		l.gateUp = grow(l.gateUp, n*2*c.IntermediateSize)
		l.rstd1 = grow(l.rstd1, n)
		l.rstd2 = grow(l.rstd2, n)
		if p.train {
			l.middle = grow(l.middle, n*c.HiddenSize)
		} else {
			l.middle = l.input
		}
	}
	if p.train {
		p.final = grow(p.final, n*c.HiddenSize)
	} else {
		p.final = p.layers[0].input
	}
	p.normed = grow(p.normed, n*c.HiddenSize)
	p.mlp = grow(p.mlp, n*c.IntermediateSize)
}

// run computes the residual stream after the last block, p.final, for
// sequences packed without padding: sequence s is tokens[offsets[s]:offsets[s+1]].
// After each layer's keys and values are known, keep is called with the
// layer's index, unless it is nil.
func (p *pass) run(tokens, offsets []int32, keep func(layer int, qkv []float32)) {
	e, c := p.e, p.e.config
	e.packForward()
	n, hidden := len(tokens), c.HiddenSize
	p.tokens, p.offsets = tokens, offsets
	p.allocate(n)
	p.positions = grow(p.positions, n)
	longest := int32(0)
	for s := range len(offsets) - 1 {
		for i := offsets[s]; i < offsets[s+1]; i++ {
			p.positions[i] = i - offsets[s]
		}
		longest = max(longest, offsets[s+1]-offsets[s])
	}
	e.rope.extend(int(longest))

	stream := p.layers[0].input
	parallel(p.threads, n, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			copy(stream[i*hidden:(i+1)*hidden], e.weights.embed[int(tokens[i])*hidden:])
		}
	})
	for i := range p.layers {
		next := p.final
		if i+1 < len(p.layers) {
			next = p.layers[i+1].input
		}
		p.block(i, next, keep)
	}
}

// block computes one transformer block from layers[index].input to next.
func (p *pass) block(index int, next []float32, keep func(layer int, qkv []float32)) {
	c := p.e.config
	l, w, packed := &p.layers[index], &p.e.weights.layers[index], &p.e.forward.layers[index]
	n, hidden, wide := len(p.tokens), c.HiddenSize, c.QueryWidth()+2*c.KeyValueWidth()
	eps := float32(c.RMSNormEps)

	parallel(p.threads, n, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			l.rstd1[i] = vec.RMSNorm(p.normed[i*hidden:(i+1)*hidden], l.input[i*hidden:(i+1)*hidden], w.norm1, eps)
			if len(w.qkvBias) > 0 {
				copy(l.qkv[i*wide:(i+1)*wide], w.qkvBias)
			}
		}
	})
	gemm.MulPacked(l.qkv, wide, p.normed, hidden, n, &packed.qkv, len(w.qkvBias) > 0, p.threads)
	rotated := c.QueryWidth() + c.KeyValueWidth()
	parallel(p.threads, n, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			cos, sin := p.e.rope.at(int(p.positions[i]))
			vec.RoPE(l.qkv[i*wide:i*wide+rotated], cos, sin)
		}
	})
	if keep != nil {
		keep(index, l.qkv)
	}
	p.attend(l)

	if p.train {
		copyParallel(p.threads, l.middle, l.input)
	}
	gemm.MulPacked(l.middle, hidden, l.mixed, c.QueryWidth(), n, &packed.output, true, p.threads)
	parallel(p.threads, n, rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			l.rstd2[i] = vec.RMSNorm(p.normed[i*hidden:(i+1)*hidden], l.middle[i*hidden:(i+1)*hidden], w.norm2, eps)
		}
	})
	gemm.MulPacked(l.gateUp, 2*c.IntermediateSize, p.normed, hidden, n, &packed.gateUp, false, p.threads)
	p.swiGLU(l)
	if p.train {
		copyParallel(p.threads, next, l.middle)
	}
	gemm.MulPacked(next, hidden, p.mlp, c.IntermediateSize, n, &packed.down, true, p.threads)
}

// swiGLU fills p.mlp from a layer's gate and up projections.
func (p *pass) swiGLU(l *layerActivations) {
	width := p.e.config.IntermediateSize
	parallel(p.threads, len(p.tokens), rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			row := l.gateUp[2*i*width : 2*(i+1)*width]
			vec.SwiGLU(p.mlp[i*width:(i+1)*width], row[:width], row[width:])
		}
	})
}

func copyParallel(threads int, dst, src []float32) {
	parallel(threads, len(src), 1<<16, func(_, from, to int) { copy(dst[from:to], src[from:to]) })
}
