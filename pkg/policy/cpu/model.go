package cpu

import (
	"cmp"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// model is the policy as the passes go through it.
type model struct {
	embed  *weight // (V, h)
	layers []layer
	norm   *parameter // (h)
	head   linear     // h to V; its weight is the embedding when tied

	// The weights of one layer, or of a part of the head, as a backward pass
	// multiplies by them. They are made of the packed weights when they are
	// needed, which takes a thousandth of the time of the products.
	backward struct{ qkv, output, gateUp, down, head, router gemm.Packed }
}

// layer is one block of the model. Tensors that are multiplied by together lie
// together.
type layer struct {
	norm1  *parameter // (h) before attention, or nil
	qkv    linear     // h to q+2kv
	qNorm  *parameter // (d) or (q), or nil
	kNorm  *parameter // (d) or (kv), or nil
	output linear     // q to h
	after1 *parameter // (h) after attention, or nil
	norm2  *parameter // (h) before the MLP, or nil
	gateUp linear     // h to 2i
	down   linear     // i to h
	mixed  *mixture   // in place of these two, or nil
	after2 *parameter // (h) after the MLP, or nil
}

// holdings are the tensors of a layout as the engine holds them.
type holdings struct {
	tensors    []policy.Tensor // without data, with the type that each is rounded to
	weights    []*weight       // in the order of the layout
	parameters []*parameter    // likewise
}

// builder makes the holdings of a layout, in its order.
type builder struct {
	holdings
	next   int // tensor
	offset int // elements before it

	grads     []float32 // of all tensors; empty if they are not trained
	masters   bool      // keep what bfloat16 weights were rounded from
	stateless bool      // keep no masters at all, for no step is taken
	pairs     bool      // round the inputs of products to bfloat16
}

// take makes a group of the next tensors.
func (b *builder) take(count int) group {
	g := group{first: b.next, offset: b.offset}
	n := 0
	for _, t := range b.tensors[b.next : b.next+count] {
		g.parts = append(g.parts, part{n, n + t.Elements(), t.DType})
		n += t.Elements()
	}
	b.next += count
	b.offset += n
	return g
}

// room returns memory for a group's master, if it needs one, and its gradient.
// A group of float32 alone is its own master; one of half precision other than
// bfloat16 always has another.
func (b *builder) room(g group) (master, grad []float32) {
	if len(b.grads) == 0 {
		return nil, nil
	}
	own := b.stateless || g.all(safetensors.F32) || !b.masters && g.all(safetensors.BF16)
	if !own {
		master = make([]float32, g.size())
	}
	return master, b.grads[g.offset:][:g.size():g.size()]
}

// parameter makes a parameter of the next tensors.
func (b *builder) parameter(count int) *parameter {
	p := &parameter{group: b.take(count)}
	p.value = make([]float32, p.size())
	p.master, p.grad = b.room(p.group)
	b.parameters = append(b.parameters, p)
	p.multiplier = p.value
	return p
}

// norm makes the next norm's weight, or nil where there is none.
func (b *builder) norm(there bool, offset float64) *parameter {
	if !there {
		return nil
	}
	p := b.parameter(1)
	if offset != 0 {
		p.offset, p.multiplier = float32(offset), make([]float32, p.size())
	}
	return p
}

// weight makes a weight of the next tensors, whose rows have in elements.
func (b *builder) weight(count, in int) *weight {
	w := &weight{group: b.take(count), in: in}
	w.out = w.size() / in
	switch {
	case b.pairs:
		w.packed.Format = gemm.BFloat16Pairs
	case w.all(safetensors.BF16):
		w.packed.Format = gemm.BFloat16
	}
	w.packed.Reset(w.out, in)
	w.master, w.grad = b.room(w.group)
	if b.pairs && !b.stateless && len(w.grad) > 0 && w.master == nil && !w.all(safetensors.BF16) {
		w.master = make([]float32, w.size())
	}
	b.weights = append(b.weights, w)
	return w
}

// newModel makes a model of the tensors of policy.Layout, without weights.
func newModel(c policy.Config, b *builder) *model {
	m := &model{layers: make([]layer, c.NumHiddenLayers)}
	hidden, before, after := c.HiddenSize, c.Norms.Before(), c.Norms.After()
	groups := policy.ProjectionGroups(c)
	project := func(count, in int, biased bool, backward *gemm.Packed) linear {
		l := linear{in: in, weight: b.weight(count, in), backward: backward}
		l.out = l.weight.out
		if biased {
			l.bias = b.parameter(count)
		}
		return l
	}
	m.embed = b.weight(1, hidden)
	for i := range m.layers {
		l := &m.layers[i]
		l.norm1 = b.norm(before, c.NormOffset)
		l.qkv = project(len(groups[0]), hidden, c.QKVBias, &m.backward.qkv)
		l.qNorm = b.norm(c.QKNorm != policy.QKNormNone, c.NormOffset)
		l.kNorm = b.norm(c.QKNorm != policy.QKNormNone, c.NormOffset)
		l.output = project(1, c.QueryWidth(), c.OutputBias, &m.backward.output)
		l.after1 = b.norm(after, c.NormOffset)
		l.norm2 = b.norm(before, c.NormOffset)
		if c.Mixture(c.Layer(i)) {
			l.mixed = newMixture(c, b, &m.backward.router)
		} else {
			l.gateUp = project(len(groups[2]), hidden, c.MLPBias, &m.backward.gateUp)
			l.down = project(1, c.IntermediateSize, c.MLPBias, &m.backward.down)
		}
		l.after2 = b.norm(after, c.NormOffset)
	}
	m.norm = b.norm(true, c.NormOffset)
	if c.TieWordEmbeddings {
		m.head = linear{in: hidden, out: c.VocabSize, weight: m.embed, backward: &m.backward.head}
	} else {
		m.head = project(1, hidden, false, &m.backward.head)
	}
	return m
}

// linears calls f for every projection that an adapter may change, and the head.
func (m *model) linears(f func(l *linear)) {
	for i := range m.layers {
		l := &m.layers[i]
		f(&l.qkv)
		f(&l.output)
		f(&l.gateUp)
		f(&l.down)
	}
	f(&m.head)
}

// units divides all tensors.
func (h *holdings) units() []unit {
	var all []unit
	for _, w := range h.weights {
		all = append(all, w.units()...)
	}
	for _, p := range h.parameters {
		all = append(all, unit{group: &p.group, parameter: p, to: p.size()})
	}
	return all
}

// load reads all tensors from a source that lists the same.
func (h *holdings) load(source policy.Source, threads int) error {
	units := h.units()
	failed := make([]error, len(units))
	parallel(threads, len(units), 1, func(_, from, to int) {
		var scratch []float32
		for i := range units[from:to] {
			u := &units[from+i]
			scratch = grow(scratch, u.to-u.from)
			failed[from+i] = u.load(source, scratch)
		}
	})
	return cmp.Or(failed...)
}

// read copies all tensors.
func (h *holdings) read(threads int) []policy.Tensor {
	copied := newParameters(h.tensors)
	units := h.units()
	parallel(threads, len(units), 1, func(_, from, to int) {
		for _, u := range units[from:to] {
			u.read(copied.data[u.offset+u.from : u.offset+u.to])
		}
	})
	return copied.tensors
}

// bytes is the size of the packed weights.
func (h *holdings) bytes() int {
	n := 0
	for _, w := range h.weights {
		n += w.packed.Bytes()
	}
	return n
}
