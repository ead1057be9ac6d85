package cpu

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// parameters is a set of tensors of the model's shape in one block of memory:
// weights, gradients or moments.
type parameters struct {
	data    []float32
	tensors []policy.Tensor
	embed   []float32 // (V, h)
	layers  []layerParameters
	norm    []float32 // (h)
	head    []float32 // (V, h); the embedding when tied
}

// layerParameters are the tensors of one block. Tensors that are multiplied by
// together lie together.
type layerParameters struct {
	norm1   []float32 // (h)
	qkv     []float32 // (q+2kv, h)
	qkvBias []float32 // (q+2kv), or empty
	output  []float32 // (h, q)
	norm2   []float32 // (h)
	gateUp  []float32 // (2i, h)
	down    []float32 // (h, i)
}

// newParameters makes zeros, named as in the layout with a prefix.
func newParameters(c policy.Config, prefix string) parameters {
	p := parameters{tensors: policy.Layout(c), layers: make([]layerParameters, c.NumHiddenLayers)}
	total := 0
	for _, t := range p.tensors {
		total += t.Elements()
	}
	p.data = make([]float32, total)
	rest := p.data
	for i := range p.tensors {
		t := &p.tensors[i]
		n := t.Elements()
		t.Name = prefix + t.Name
		t.Data, rest = rest[:n:n], rest[n:]
	}
	rest = p.data
	take := func(n int) (part []float32) {
		part, rest = rest[:n:n], rest[n:]
		return part
	}
	hidden, qkv := c.HiddenSize, c.QueryWidth()+2*c.KeyValueWidth()
	p.embed = take(c.VocabSize * hidden)
	for i := range p.layers {
		l := &p.layers[i]
		l.norm1 = take(hidden)
		l.qkv = take(qkv * hidden)
		if c.QKVBias() {
			l.qkvBias = take(qkv)
		}
		l.output = take(hidden * c.QueryWidth())
		l.norm2 = take(hidden)
		l.gateUp = take(2 * c.IntermediateSize * hidden)
		l.down = take(hidden * c.IntermediateSize)
	}
	p.norm = take(hidden)
	p.head = p.embed
	if !c.TieWordEmbeddings {
		p.head = take(c.VocabSize * hidden)
	}
	if len(rest) != 0 {
		panic("cpu: the engine's parameters do not follow policy.Layout")
	}
	return p
}

// set copies tensors of the same names and shapes in the same order.
func (p *parameters) set(tensors []policy.Tensor) error {
	if len(tensors) != len(p.tensors) {
		return fmt.Errorf("%d tensors given; %d were expected", len(tensors), len(p.tensors))
	}
	for i, t := range tensors {
		want := p.tensors[i]
		if t.Name != want.Name || !slices.Equal(t.Shape, want.Shape) || len(t.Data) != len(want.Data) {
			return fmt.Errorf("tensor %d is %q %v with %d elements; %q %v was expected",
				i, t.Name, t.Shape, len(t.Data), want.Name, want.Shape)
		}
	}
	for i, t := range tensors {
		copy(p.tensors[i].Data, t.Data)
	}
	return nil
}

// packedModel holds the matrices of the model as one pass multiplies by them.
type packedModel struct {
	stale  bool
	ready  bool
	layers []packedLayer
	head   gemm.Packed
}

type packedLayer struct{ qkv, output, gateUp, down gemm.Packed }

// packForward packs the weights for products x·wᵀ, unless that was done since
// they last changed.
func (e *Engine) packForward() {
	e.packModel(&e.forward, func(w []float32, out, in int, dst *gemm.Packed) {
		gemm.PackNT(w, out, in, dst, e.threads)
	})
}

// packBackward packs the weights for products dy·w.
func (e *Engine) packBackward() {
	e.packModel(&e.backward, func(w []float32, out, in int, dst *gemm.Packed) {
		gemm.PackNN(w, out, in, dst, e.threads)
	})
}

func (e *Engine) packModel(m *packedModel, pack func(w []float32, out, in int, dst *gemm.Packed)) {
	if m.ready && !m.stale {
		return
	}
	c := e.config
	if m.layers == nil {
		m.layers = make([]packedLayer, c.NumHiddenLayers)
	}
	for i := range m.layers {
		w, l := &e.weights.layers[i], &m.layers[i]
		pack(w.qkv, c.QueryWidth()+2*c.KeyValueWidth(), c.HiddenSize, &l.qkv)
		pack(w.output, c.HiddenSize, c.QueryWidth(), &l.output)
		pack(w.gateUp, 2*c.IntermediateSize, c.HiddenSize, &l.gateUp)
		pack(w.down, c.HiddenSize, c.IntermediateSize, &l.down)
	}
	pack(e.weights.head, c.VocabSize, c.HiddenSize, &m.head)
	m.ready, m.stale = true, false
}
