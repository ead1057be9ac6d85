package cuda

import "github.com/lathe-rl/lathe/pkg/policy"

// What cuda/memory.h and cuda/buffers.h round to and hold, whose arithmetic
// this file repeats: a test opens engines and compares the bytes.
const (
	bufferBytes      = 256     // buffers start at multiples of it
	blockRows        = 64      // rows over which gradients of norms and biases add up
	logitAlign       = 64      // elements of a row of logits are a multiple of it
	decodeSteps      = 64      // steps of decoding whose tokens are on the device at a time
	stagingElements  = 1 << 20 // that are converted at a time on their way to and from the device
	normSegment      = 1 << 16 // elements of a gradient whose squares are summed together
	slotWords        = 5 + maxStops + 2 + 1 + 3 + 1
	statisticsBytes  = 20   // of a row of logits
	splitKeys        = 256  // keys of a row of attention that are summed up by themselves
	splitsAtOnce     = 4096 // splits of rows whose results have room at a time, and those of one row
	prefillRowWords  = 6
	decodeInputWords = 5
)

// arena adds up buffers.
type arena int64

func (a *arena) take(count, bytes int64) { *a += arena(roundUp(count*bytes, bufferBytes)) }

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// widths are what buffers are wide in.
type widths struct {
	hidden, inner, query, key, qkv int64
	heads, kvHeads, headDim        int64
	low                            int64 // columns of the low-rank products that are alive at a time
	bytes                          int64 // of an element of weights and activations
}

func (s shape) widths() widths {
	c := s.config
	w := widths{
		hidden: int64(c.HiddenSize), inner: int64(c.IntermediateSize), query: int64(c.QueryWidth()), key: int64(c.KeyValueWidth()),
		heads: int64(c.NumAttentionHeads), kvHeads: int64(c.NumKeyValueHeads), headDim: int64(c.HeadDim), bytes: s.dtype.bytes(),
	}
	w.qkv = w.query + 2*w.key
	if s.lora != nil {
		for _, group := range policy.ProjectionGroups(c) {
			ranks := 0
			for _, p := range group {
				if s.lora.Adapts(p.Target()) {
					ranks += s.lora.Rank
				}
			}
			w.low = max(w.low, int64(ranks))
		}
	}
	return w
}

// group is one tensor, or several that lie together.
type group struct {
	elements int64
	parts    []int64
	wide     bool // float32, whatever the other weights are
	trained  bool
}

// groups are those of cuda/memory.cpp: tensors that are multiplied by together,
// in the order of the layout.
func (s shape) groups() []group {
	var all []group
	last := ""
	add := func(t policy.Tensor, family string, trained bool) {
		n := int64(t.Elements())
		if family == "" || family != last {
			all = append(all, group{trained: trained})
		}
		g := &all[len(all)-1]
		g.elements, g.parts = g.elements+n, append(g.parts, n)
		last = family
	}
	for _, t := range policy.Layout(s.config) {
		add(t, s.family(t), s.train && s.lora == nil)
	}
	if s.lora != nil {
		for _, t := range policy.LoRALayout(s.config, *s.lora) {
			add(t, s.family(t), s.train)
		}
	}
	if s.valueHead {
		add(policy.ValueHeadLayout(s.config), "", s.train)
		all[len(all)-1].wide = true
	}
	return all
}

// family names the group of a tensor; those next to each other with one name
// lie together. It is empty for a tensor of its own.
func (s shape) family(t policy.Tensor) string {
	at, err := placeOf(t.Name)
	if err != nil {
		return ""
	}
	switch r := at.role; {
	case r >= roleLoRAB:
		return ""
	case r >= roleLoRAA:
		return "A" + familyOf(r-roleLoRAA)
	default:
		return familyOf(r)
	}
}

func familyOf(r role) string {
	switch r {
	case roleQ, roleK, roleV:
		return "qkv"
	case roleQBias, roleKBias, roleVBias:
		return "qkv biases"
	case roleQNorm, roleKNorm:
		return "head norms"
	case roleGate, roleUp:
		return "gate and up"
	}
	return ""
}

// footprint is what an engine of a shape takes under budgets.
func footprint(s shape, b Budgets) Footprint {
	w, groups := s.widths(), s.groups()
	f := Footprint{
		ActivationBytes: int64(s.activations(b, w)), HeadBytes: int64(s.head(b, w)), OtherBytes: int64(s.other(b, w, groups)),
	}
	var weights, gradients, sum, state arena
	for _, g := range groups {
		bytes := w.bytes
		if g.wide {
			bytes = 4
		}
		weights.take(g.elements, bytes)
		if !g.trained {
			continue
		}
		gradients.take(g.elements, 4)
		sum.take(g.elements, 4)
		if s.stateless {
			continue
		}
		state.take(g.elements, s.state.bytes())
		state.take(g.elements, s.state.bytes())
		if s.dtype == bfloat16Type && s.state == float32Type && !g.wide {
			state.take(g.elements, 4)
		}
	}
	if s.train && s.lora == nil && s.config.TieWordEmbeddings {
		// The gradient of a tied embedding's use as a table.
		gradients.take(int64(s.config.VocabSize)*w.hidden, 4)
	}
	f.WeightBytes, f.GradientBytes, f.StateBytes = int64(weights), int64(gradients), int64(state)
	f.SumBytes, f.SpilledBytes = int64(b.GradientSums)*int64(sum), int64(b.SpilledSums)*int64(sum)+s.offloaded(b, w)
	if b.HostState {
		f.StateBytes, f.SpilledBytes = 0, f.SpilledBytes+f.StateBytes
	}
	if b.Slots > 0 {
		var cache arena
		cache.take(int64(s.config.NumHiddenLayers)*2*int64(b.CachePages)*pageTokens*w.key, w.bytes)
		f.CacheBytes = int64(cache)
	}
	return f
}

// offloaded is what the inputs of blocks take of the host's memory, but for the last's.
func (s shape) offloaded(b Budgets, w widths) int64 {
	if !s.train || b.Recompute != Offload {
		return 0
	}
	return int64(s.config.NumHiddenLayers-1) * int64(b.PassTokens) * w.hidden * w.bytes
}

// mlpRows are the rows of the MLP's inner activations that are there at a time.
func (s shape) mlpRows(b Budgets) int64 {
	if kept := s.train && b.Recompute < RecomputeBlock; kept || b.MLPTokens == 0 {
		return int64(b.PassTokens)
	}
	return int64(min(b.MLPTokens, b.PassTokens))
}

// blockLimit is the number of blocks of rows in a pass, at most.
func (b Budgets) blockLimit() int64 { return int64(b.PassTokens)/blockRows + int64(b.PassSequences) }

// prefillRows are those of a piece of a prefill.
func (b Budgets) prefillRows() int64 { return roundUp(int64(b.PrefillTokens), rowAlign) }

// tableWidth is the number of entries of a page table.
func (s shape) tableWidth() int64 { return int64(pagesOf(s.config.MaxPositionEmbeddings)) }

// activations are those of all layers of a pass and its scratch, and those of
// one layer of prompts or decoding slots.
func (s shape) activations(b Budgets, w widths) arena {
	var a arena
	t := func(count int64) { a.take(count, w.bytes) }
	float := func(count int64) { a.take(count, 4) }
	rows, inner := int64(b.PassTokens), s.mlpRows(b)
	for layer := range s.config.NumHiddenLayers {
		if rows == 0 {
			break
		}
		// What a layer does not own is the first layer's.
		first := layer == 0
		if first || s.train && b.Recompute != Offload {
			t(rows * w.hidden) // the residual stream before the block
		}
		if first || s.train && b.Recompute == KeepAll {
			t(rows * w.hidden) // the norms' outputs
			t(rows * w.hidden)
			t(inner * w.inner) // SwiGLU's
		}
		if first || s.train && b.Recompute < RecomputeBlock {
			float(rows)
			float(rows)
			t(rows * w.qkv)
			t(rows * w.query)
			float(rows * w.heads)
			if s.train {
				t(rows * w.hidden) // the residual stream after attention
			}
			t(inner * 2 * w.inner)
			if s.train && s.config.QKNorm != policy.QKNormNone {
				t(rows * (w.query + w.key))
				float(rows * (w.heads + w.kvHeads))
			}
		}
	}
	if rows > 0 {
		if s.train {
			t(rows * w.hidden) // the residual stream after the last block
		}
		t(rows * w.hidden)
		t(rows * w.low)
	}
	if rows > 0 && s.train {
		t(rows * w.hidden) // gradients
		t(rows * w.query)
		t(rows * w.qkv)
		t(inner * w.inner)
		float(rows * w.heads)
		if s.lora == nil {
			widest := w.hidden
			if s.config.QKVBias {
				widest = max(widest, w.qkv)
			}
			if s.config.QKNorm != policy.QKNormNone {
				widest = max(widest, 2*w.headDim)
			}
			float(b.blockLimit() * widest)
		}
	}
	if b.Slots > 0 {
		most := max(b.prefillRows(), int64(b.Slots))
		perRow := roundUp(int64(s.config.MaxPositionEmbeddings), splitKeys) / splitKeys
		t(most * w.hidden)
		t(most * w.hidden)
		t(most * w.hidden)
		t(most * w.qkv)
		t(most * w.query)
		float(most * w.heads)
		t(most * 2 * w.inner)
		t(most * w.inner)
		t(most * w.low)
		a.take(2*most*perRow, 4) // which splits there are
		float(min(most*perRow, splitsAtOnce+perRow) * w.heads * (w.headDim + 2))
		a.take(most*w.heads, 4)
	}
	return a
}

// chunk is the number of targets of a chunk of the head.
func (b Budgets) chunk() int64 {
	if b.PassTokens == 0 {
		return 0
	}
	return int64(b.HeadTokens)
}

func (s shape) head(b Budgets, w widths) arena {
	var a arena
	rows, chunk := int64(b.PassTokens), b.chunk()
	most := max(chunk, int64(b.Slots))
	a.take(most*roundUp(int64(s.config.VocabSize), logitAlign), w.bytes)
	a.take(most*w.hidden, w.bytes)
	a.take(chunk*w.hidden, w.bytes)
	a.take(chunk, 4)
	if s.train {
		a.take(chunk*w.hidden, w.bytes)
		a.take(chunk*w.hidden, w.bytes)
		a.take(chunk/rowAlign*w.hidden, 4)
	}
	a.take(rows, statisticsBytes)
	for range 3 { // log-probabilities, entropies, values
		a.take(rows, 4)
	}
	return a
}

func (s shape) other(b Budgets, w widths, groups []group) arena {
	var a arena
	segments := int64(0)
	for _, g := range groups {
		for _, n := range g.parts {
			if g.trained {
				segments += (n + normSegment - 1) / normSegment
			}
		}
	}
	rows, slots := int64(b.PassTokens), int64(b.Slots)
	a.take(int64(s.config.NumHiddenLayers)*(w.headDim/2+1), 4)
	words := int64(0) // a pass's tokens, positions, packing and targets
	if rows > 0 {
		sequences := int64(b.PassSequences)
		words = 4*rows + 3*sequences + 2*(rows/blockRows+3*sequences) + b.blockLimit() + 1
		if s.train && s.lora == nil {
			words += 3*rows + 1
		}
	}
	a.take(words, 4)
	a.take(b.chunk()/rowAlign+1, 4)
	a.take(2*stagingElements, 4)
	a.take(segments, 8)
	a.take(1, 8)
	a.take(slotWords*slots, 4)
	a.take(slots*s.tableWidth(), 4)
	a.take(decodeInputWords*slots, 4)
	a.take(slots*decodeSteps, 4)
	a.take(slots*decodeSteps, 4)
	words = 0 // a prefill's rows, pieces and page tables
	if slots > 0 {
		rows, pieces := b.prefillRows(), b.prefillRows()/rowAlign
		words = prefillRowWords*rows + 2*pieces + 5*(rows/blockRows+3*pieces) + rows + s.tableWidth()
	}
	a.take(words, 4)
	return a
}
