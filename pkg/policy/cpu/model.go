package cpu

import "github.com/lathe-rl/lathe/pkg/policy"

// model is the policy as the passes go through it: views of the engine's
// weights and gradients.
type model struct {
	embed  parameter // (V, h)
	layers []layer
	norm   parameter // (h)
	head   linear    // h to V; its weight is the embedding when tied
}

// layer is one block of the model. Tensors that are multiplied by together lie
// together.
type layer struct {
	norm1  parameter // (h)
	qkv    linear    // h to q+2kv
	qNorm  parameter // (d), or empty
	kNorm  parameter // (d), or empty
	output linear    // q to h
	norm2  parameter // (h)
	gateUp linear    // h to 2i
	down   linear    // i to h
}

// newModel makes views of weights and of gradients, which are empty for
// weights that are not trained; both lie in the order of policy.Layout.
func newModel(c policy.Config, weights, gradients []float32) model {
	take := taker(&weights, gradients)
	project := func(out, in int, biased bool) linear {
		l := linear{in: in, out: out, weight: take(out * in)}
		if biased {
			l.bias = take(out)
		}
		return l
	}
	hidden, inner := c.HiddenSize, c.IntermediateSize
	m := model{embed: take(c.VocabSize * hidden), layers: make([]layer, c.NumHiddenLayers)}
	for i := range m.layers {
		l := &m.layers[i]
		l.norm1 = take(hidden)
		l.qkv = project(wide(c), hidden, c.QKVBias())
		if c.QKNorm() {
			l.qNorm, l.kNorm = take(c.HeadDim), take(c.HeadDim)
		}
		l.output = project(hidden, c.QueryWidth(), false)
		l.norm2 = take(hidden)
		l.gateUp = project(2*inner, hidden, false)
		l.down = project(hidden, inner, false)
	}
	m.norm = take(hidden)
	if c.TieWordEmbeddings {
		m.head = linear{in: hidden, out: c.VocabSize, weight: m.embed}
	} else {
		m.head = project(c.VocabSize, hidden, false)
	}
	if len(weights) != 0 {
		panic("cpu: the engine's parameters do not follow policy.Layout")
	}
	return m
}

// taker hands out weights and, if there are any, gradients from the front.
func taker(weights *[]float32, gradients []float32) func(n int) parameter {
	trained := len(gradients) > 0
	return func(n int) (p parameter) {
		p.value, *weights = (*weights)[:n:n], (*weights)[n:]
		if trained {
			p.grad, gradients = gradients[:n:n], gradients[n:]
		}
		return p
	}
}

// linears calls f for every projection, the head last.
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

// packForward readies the weights for a forward pass.
func (e *Engine) packForward() {
	e.model.linears(func(l *linear) { l.packForward(e.threads) })
}

// packBackward readies the weights for a backward pass.
func (e *Engine) packBackward() {
	e.model.linears(func(l *linear) { l.packBackward(e.threads) })
}
