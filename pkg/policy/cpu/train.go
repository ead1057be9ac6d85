package cpu

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// limits bound what is in memory at a time.
type limits struct {
	// chunkTokens is the number of tokens of which all activations are held,
	// sparseTokens of which those before each block alone are, and Backward
	// computes the others again, block by block. A batch with more is worked off
	// in chunks of whole sequences of at most chunkTokens, and Backward computes
	// them again; only a single sequence, with those that go on from it, may be
	// longer.
	chunkTokens  int
	sparseTokens int
	logits       int // logits that are computed at a time
	headRows     int // targets at least whose logits are computed at a time
	keptLogits   int // logits that are kept for Backward; with more they are computed again
	// prefillTokens is the number of prompt tokens that Generate computes at a
	// time, in whole pages.
	prefillTokens int
	// sampledLogits is the number of logits that Generate computes at a time.
	// Every time reads the head's weights.
	sampledLogits int
	// ownWeights is the size of a model in bytes up to which each of Generate's
	// threads reads all weights for requests of its own.
	ownWeights int
}

// What activations may take.
const (
	denseBytes     = 1 << 30
	sparseBytes    = 4 << 30
	inferenceBytes = 64 << 20 // nothing is kept, so stay near the caches
)

// cachedHead is the size of a head that stays in the last-level cache.
const cachedHead = 16 << 20 // bytes

// limitsOf are those of an engine of a policy, of which so many elements are trained and
// whose head has so many bytes.
func limitsOf(c policy.Config, train bool, trained, headBytes int) limits {
	perLayer := layerBytesPerToken(c)
	l := limits{
		chunkTokens: max(1, inferenceBytes/perLayer),
		logits:      1 << 20,
		headRows:    16,
		// A quarter of what the gradients take, if that is more.
		keptLogits:    max(32<<20, trained/4),
		prefillTokens: min(2048, max(4, inferenceBytes/perLayer/pageTokens)*pageTokens),
		sampledLogits: 16 << 20,
		ownWeights:    8 << 20,
	}
	if train {
		l.chunkTokens = max(1, denseBytes/(perLayer*c.NumHiddenLayers))
		// The inputs of all blocks, the activations of one, and their gradients.
		l.sparseTokens = sparseBytes / (4*c.NumHiddenLayers*c.HiddenSize + 2*perLayer)
	}
	if headBytes > cachedHead {
		l.headRows = largeBlock
	}
	return l
}

// chunkRows is the number of targets whose logits are computed at a time.
func (l limits) chunkRows(c policy.Config) int { return max(1, l.headRows, l.logits/c.VocabSize) }

// lastForward is what Backward needs of the last Forward, beside activations.
type lastForward struct {
	valid    bool
	batch    policy.Batch // shares memory with the caller
	sampling policy.Sampling
	chunks   []chunk
	values   []float32 // (N) of the value head, 0 where there is no target
}

// chunk is a range of sequences.
type chunk struct{ from, to int }

// layerBytesPerToken is the size of one token's activations in one layer.
func layerBytesPerToken(c policy.Config) int {
	stream := 2 * c.HiddenSize
	if c.Norms.After() {
		stream *= 2
	}
	// What experts read and make, and the router's numbers.
	stream += c.ExpertsPerToken*(c.HiddenSize+4) + c.Experts
	return 4 * (stream + 2*c.QueryWidth() + 2*c.KeyValueWidth() + 2*c.NumAttentionHeads + 2*c.LargestInnerWidth())
}

// divide cuts a batch into chunks, none between a shared prefix and what goes on from
// it. The cuts depend on the batch and the model's shape alone.
func (e *Engine) divide(batch policy.Batch) []chunk {
	offsets := batch.Offsets
	sequences := len(offsets) - 1
	if sequences > 0 && int(offsets[sequences]) <= e.limits.sparseTokens {
		return []chunk{{0, sequences}}
	}
	var chunks []chunk
	for s := 0; s < sequences; {
		end := batch.PrefixGroupEnd(s)
		for end < sequences && int(offsets[batch.PrefixGroupEnd(end)]-offsets[s]) <= e.limits.chunkTokens {
			end = batch.PrefixGroupEnd(end)
		}
		chunks = append(chunks, chunk{s, end})
		s = end
	}
	return chunks
}

// runChunk lists the targets of one chunk and computes the activations that they
// ask for.
func (e *Engine) runChunk(batch policy.Batch, c chunk) {
	e.head.setTargets(batch, int(batch.Offsets[c.from]), int(batch.Offsets[c.to]))
	e.runTokens(batch, c, e.head.rows)
}

// runTokens computes the activations of one chunk, and the states after the
// last block of those tokens that are wanted; nil for all.
func (e *Engine) runTokens(batch policy.Batch, c chunk, wanted []int32) {
	first, end := batch.Offsets[c.from], batch.Offsets[c.to]
	offsets := make([]int32, 0, c.to-c.from+1)
	for s := c.from; s <= c.to; s++ {
		offsets = append(offsets, batch.Offsets[s]-first)
	}
	prefixes := make([]int32, c.to-c.from)
	for s := range prefixes {
		prefixes[s] = int32(max(-1, batch.Prefix(c.from+s)-c.from))
	}
	e.pass.sparse = e.train && int(end-first) > e.limits.chunkTokens
	e.pass.run(batch.TokenIDs[first:end], offsets, prefixes, wanted)
}

// Forward implements [policy.Scorer].
func (e *Engine) Forward(batch policy.Batch, sampling policy.Sampling, logProbs, entropy []float32) error {
	defer phase.Enter(phase.Forward)()
	if err := policy.CheckForward(e.config, batch, sampling, logProbs, entropy); err != nil {
		return err
	}
	clear(logProbs)
	clear(entropy)
	e.last = lastForward{valid: true, batch: batch, sampling: sampling, chunks: e.divide(batch)}
	if e.value != nil {
		e.last.values = make([]float32, len(batch.TokenIDs))
	}
	for _, c := range e.last.chunks {
		e.runChunk(batch, c)
		e.head.forward(e.pass, sampling, logProbs, entropy)
		if e.value != nil {
			e.head.valuesTo(e.pass, e.last.values)
		}
	}
	return nil
}

// Backward implements [policy.Trainer].
func (e *Engine) Backward(coefficients policy.Coefficients) error {
	defer phase.Enter(phase.Backward)()
	if !e.train {
		return exitcode.Bugf("backward pass: the engine was opened without Train")
	}
	if e.bare && e.lora != nil {
		return exitcode.Bugf("backward pass: the trained adapter is switched off")
	}
	last := e.last
	if !last.valid {
		return exitcode.Bugf("backward pass: Backward called before Forward")
	}
	n := len(last.batch.TokenIDs)
	if err := coefficients.Validate(n, e.value != nil); err != nil {
		return err
	}
	for _, c := range last.chunks {
		if len(last.chunks) > 1 {
			e.runChunk(last.batch, c)
			scratch := make([]float32, n)
			e.head.forward(e.pass, last.sampling, scratch, scratch)
		}
		g := &e.pass.gradients
		g.stream = grow(g.stream, len(e.pass.tokens)*e.config.HiddenSize)
		e.head.backward(e.pass, last.sampling, coefficients, g.stream)
		e.pass.back()
	}
	e.last = lastForward{}
	return nil
}
