package cpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

const (
	prefillTokens = 2048 // prompt tokens of one prefill

	// Responses that one decoder works on at a time: as many as leave their
	// keys and values in a share of the last-level cache, within bounds. Fewer
	// would read the weights too often; more would gain nothing.
	minSlots      = 32
	minSlotsLarge = 64 // for models of more than largeModel bytes
	maxSlots      = 256
	largeModel    = 8 << 20
	cacheShare    = 10 << 20 // bytes

	// cacheBytes bounds the keys and values of all decoders together, as far
	// as one slot each fits.
	cacheBytes = 1 << 30
)

// slot is a response under way.
type slot struct {
	request int
	pages   []*page
	length  int   // tokens whose keys and values are in the cache
	token   int32 // the last token sampled, which is not in the cache yet
}

// decoder generates on one thread.
type decoder struct {
	e           *Engine
	threads     int
	longest     int // tokens of the longest sequence that may come about
	requests    []policy.Request
	completions []policy.Completion

	pool    pool
	prefill *pass     // whole prompts
	open    []*prompt // computed, with requests not yet started
	slots   []slot

	decode            *pass // one token of each slot
	tokens, positions []int32
	normed            []float32 // (slots, h)
	logits            []float32 // (some slots, V)
	scores, sums      []float32 // of one slot and key-value head
	dist              distribution
}

func newDecoder(e *Engine) *decoder {
	c := e.config
	return &decoder{
		e:    e,
		pool: pool{layers: c.NumHiddenLayers, heads: c.NumKeyValueHeads, headDim: c.HeadDim},
	}
}

// begin readies the decoder for a call.
func (d *decoder) begin(requests []policy.Request, completions []policy.Completion, longest, threads int) {
	d.requests, d.completions, d.longest, d.threads = requests, completions, longest, threads
	d.open, d.slots = nil, d.slots[:0]
	if d.prefill == nil || d.prefill.threads != threads {
		d.prefill = newPass(d.e, threads, false)
		d.decode = newPass(d.e, threads, false)
	}
}

// work decodes until the queue is empty and all slots are done.
func (d *decoder) work(ctx context.Context, queue *queue) error {
	defer d.dropAll()
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("generating: %w", err)
		}
		if err := d.admit(queue); err != nil {
			return err
		}
		if len(d.slots) == 0 {
			return nil
		}
		if err := d.step(); err != nil {
			return err
		}
	}
}

// dropAll gives all pages back.
func (d *decoder) dropAll() {
	for _, s := range d.slots {
		d.pool.release(s.pages)
	}
	for _, p := range d.open {
		d.pool.release(p.pages)
	}
	d.slots, d.open = d.slots[:0], nil
}

// capacity is the number of slots that may be used, given the longest sequence
// that the cache must hold.
func (d *decoder) capacity() int {
	perSlot := d.pool.bytes() * (d.longest/pageTokens + 1)
	least := minSlots
	if d.e.base.bytes() > largeModel {
		least = minSlotsLarge
	}
	slots := min(maxSlots, max(least, cacheShare/perSlot))
	return max(1, min(slots, cacheBytes/perSlot/max(1, len(d.e.decoders))))
}

// admit starts requests in free slots. New prompts are computed only once an
// eighth of the slots is free, so that several are computed together.
func (d *decoder) admit(queue *queue) error {
	capacity := d.capacity()
	for {
		for len(d.open) > 0 && len(d.slots) < capacity {
			if err := d.start(d.open[0]); err != nil {
				return err
			}
			if len(d.open[0].requests) == 0 {
				d.pool.release(d.open[0].pages)
				d.open = d.open[1:]
			}
		}
		free := capacity - len(d.slots)
		if len(d.open) > 0 || len(d.slots) > 0 && free < (capacity+7)/8 {
			return nil
		}
		taken := queue.take(free, prefillTokens)
		if len(taken) == 0 {
			return nil
		}
		d.compute(taken)
		d.open = taken
	}
}

// compute runs the prompts through the model and keeps their keys, values and
// last logits.
func (d *decoder) compute(prompts []*prompt) {
	e, c := d.e, d.e.config
	var tokens []int32
	offsets := []int32{0}
	for _, p := range prompts {
		tokens = append(tokens, p.ids...)
		offsets = append(offsets, int32(len(tokens)))
		for range (len(p.ids) + pageTokens - 1) / pageTokens {
			p.pages = append(p.pages, d.pool.get())
		}
	}
	wide := c.QueryWidth() + 2*c.KeyValueWidth()
	d.prefill.run(tokens, offsets, func(layer int, qkv []float32) {
		parallel(d.threads, len(prompts), 1, func(_, from, to int) {
			for i := from; i < to; i++ {
				for position := range prompts[i].ids {
					row := qkv[(int(offsets[i])+position)*wide:][:wide]
					d.pool.put(prompts[i].pages, layer, position, row[c.QueryWidth():], row[c.QueryWidth()+c.KeyValueWidth():])
				}
			}
		})
	})
	normed := make([]float32, len(prompts)*c.HiddenSize)
	logits := make([]float32, len(prompts)*c.VocabSize)
	for i, p := range prompts {
		last := d.prefill.final[(int(offsets[i+1])-1)*c.HiddenSize:][:c.HiddenSize]
		vec.RMSNorm(normed[i*c.HiddenSize:(i+1)*c.HiddenSize], last, e.model.norm.value, float32(c.RMSNormEps))
		p.logits = logits[i*c.VocabSize : (i+1)*c.VocabSize]
	}
	e.model.head.apply(logits, normed, len(prompts), d.threads, nil)
}

// start samples the first token of a prompt's next request.
func (d *decoder) start(p *prompt) error {
	s := slot{request: p.requests[0], length: len(p.ids)}
	p.requests = p.requests[1:]
	done, err := d.sample(&s, p.logits)
	if err != nil || done {
		return err
	}
	s.pages = d.pool.share(p.pages, len(p.ids))
	d.slots = append(d.slots, s)
	return nil
}

// sample draws the token at position s.length from its logits and adds it to
// the response. It reports whether the response is finished.
func (d *decoder) sample(s *slot, logits []float32) (done bool, err error) {
	r, out := &d.requests[s.request], &d.completions[s.request]
	d.dist.set(logits, r.Sampling, -1)
	if !d.dist.finite() {
		return true, exit.Dataf("request %d: the logits after %d tokens are not finite: the policy's weights are damaged or have diverged", s.request, s.length)
	}
	if r.Sampling.Temperature == 0 {
		s.token = argmax(logits)
	} else {
		s.token = d.dist.sample(r.Stream.Float64(uint64(s.length)))
	}
	out.TokenIDs = append(out.TokenIDs, s.token)
	out.LogProbs = append(out.LogProbs, d.dist.logProb(logits, s.token))
	if slices.Contains(r.StopTokens, s.token) || r.Watch != nil && r.Watch(out.TokenIDs) {
		out.FinishReason = policy.FinishStop
		return true, nil
	}
	return len(out.TokenIDs) == r.MaxNewTokens || s.length+1 == d.e.config.MaxPositionEmbeddings, nil
}

// step feeds every slot's last token and samples the next one.
func (d *decoder) step() error {
	c, p := d.e.config, d.decode
	m := len(d.slots)
	d.tokens, d.positions = grow(d.tokens, m), grow(d.positions, m)
	for i := range d.slots {
		s := &d.slots[i]
		d.tokens[i], d.positions[i] = s.token, int32(s.length)
		if s.length%pageTokens == 0 {
			s.pages = append(s.pages, d.pool.get())
		}
	}
	p.start(d.tokens, d.positions)
	for layer := range c.NumHiddenLayers {
		p.project(layer)
		l := &p.layers[layer]
		for i := range d.slots {
			s, row := &d.slots[i], l.qkv[i*wide(c):(i+1)*wide(c)]
			d.pool.put(s.pages, layer, s.length, row[c.QueryWidth():], row[c.QueryWidth()+c.KeyValueWidth():])
			d.attend(layer, s, row[:c.QueryWidth()], l.mixed[i*c.QueryWidth():(i+1)*c.QueryWidth()])
		}
		p.combine(layer)
	}
	return d.sampleAll()
}

// attend is attendHead for the one query of a slot, whose keys and values are
// in the cache up to and including its own.
func (d *decoder) attend(layer int, s *slot, query, mixed []float32) {
	c := d.e.config
	width, shared := c.HeadDim, c.NumAttentionHeads/c.NumKeyValueHeads
	keys, stride := s.length+1, len(s.pages)*pageTokens
	d.scores = grow(d.scores, shared*stride)
	d.sums = grow(d.sums, shared)
	clear(mixed)
	for head := range c.NumKeyValueHeads {
		q := query[head*shared*width : (head+1)*shared*width]
		out := mixed[head*shared*width : (head+1)*shared*width]
		for i, pg := range s.pages {
			k, _ := d.pool.at(pg, layer, head)
			scores := d.scores[i*pageTokens:]
			n := min(pageTokens, keys-i*pageTokens)
			if !scoreRows(scores, stride, q, shared, width, k, n) {
				gemm.NN(scores, stride, q, width, k, pageTokens, shared, n, width, false, 1)
			}
		}
		for a := range shared {
			_, d.sums[a] = softmaxRow(d.scores[a*stride:a*stride+keys], keys, scoreScale(width))
		}
		for i, pg := range s.pages {
			_, v := d.pool.at(pg, layer, head)
			scores, n := d.scores[i*pageTokens:], min(pageTokens, keys-i*pageTokens)
			if !mixRows(out, scores, stride, shared, width, v, n) {
				gemm.NN(out, width, scores, stride, v, width, shared, width, n, true, 1)
			}
		}
		for a := range shared {
			vec.Scale(out[a*width:(a+1)*width], 1/d.sums[a], out[a*width:(a+1)*width])
		}
	}
}

// sampleAll samples a token for each slot and drops the finished ones.
func (d *decoder) sampleAll() error {
	c := d.e.config
	size, hidden := d.e.chunkRows(), c.HiddenSize
	d.normed = grow(d.normed, len(d.slots)*hidden)
	for i := range d.slots {
		vec.RMSNorm(d.normed[i*hidden:(i+1)*hidden], d.decode.final[i*hidden:(i+1)*hidden], d.e.model.norm.value, float32(c.RMSNormEps))
	}
	live := 0
	for from := 0; from < len(d.slots); from += size {
		to := min(len(d.slots), from+size)
		d.logits = grow(d.logits, (to-from)*c.VocabSize)
		d.e.model.head.apply(d.logits, d.normed[from*hidden:], to-from, d.threads, nil)
		for i := from; i < to; i++ {
			s := d.slots[i]
			s.length++
			done, err := d.sample(&s, d.logits[(i-from)*c.VocabSize:(i-from+1)*c.VocabSize])
			if err != nil {
				return err
			}
			if done {
				d.pool.release(s.pages)
				continue
			}
			d.slots[live] = s
			live++
		}
	}
	d.slots = d.slots[:live]
	return nil
}
