package cpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/kvcache"
	"github.com/lathe-rl/lathe/pkg/vec"
)

const (
	// Responses that one decoder works on at a time: as many as leave their
	// keys and values in a share of the last-level cache, within bounds. Fewer
	// would read the weights too often; more would gain nothing.
	minSlots      = 32
	minSlotsLarge = 64 // for models that threads share
	maxSlots      = 256
	cacheShare    = 10 << 20 // bytes
)

// slot is a response under way.
type slot struct {
	request  int
	prompt   *prompt // whose pages it takes over when it gets a place; nil then
	pages    []*page
	prefix   prefix // of the whole pages
	length   int    // tokens whose keys and values are in the cache
	token    int32  // the last token sampled, which is not in the cache yet
	finished bool
}

// decodeScratch is one thread's memory.
type decodeScratch struct {
	scores []float32 // of the queries of one key-value head
	sums   []float32
	packed gemm.Packed // keys or values of a page

	stretch []float32 // (queries, d) a stretch's sums
	dist    distribution
}

// decoder generates, on one or several threads.
type decoder struct {
	e           *Engine
	threads     int
	capacity    int // slots
	requests    []policy.Request
	completions []policy.Completion

	queue   *queue
	cache   *pool
	waiting []slot // their prompts are computed, their first tokens sampled
	slots   []slot // the oldest first

	prefill, decode   *pass // pieces of prompts; one token of each slot
	tokens, positions []int32
	rows, index       []int
	normed            []float32 // (rows, h)
	logits            []float32 // (rows, V)
	low               lowScratch
	errs              []error
	workers           []decodeScratch
}

func newDecoder(e *Engine) *decoder { return &decoder{e: e} }

// begin readies the decoder for a call, the longest sequence of which has so
// many tokens.
func (d *decoder) begin(requests []policy.Request, completions []policy.Completion, work *queue, longest, threads int) {
	d.requests, d.completions, d.queue, d.cache = requests, completions, work, d.e.cache
	if d.threads != threads {
		d.threads, d.workers = threads, make([]decodeScratch, threads)
		d.prefill = newPass(d.e, threads, false)
		d.decode = newPass(d.e, threads, false)
	}
	least := minSlots
	if d.e.sharesWeights() {
		least = minSlotsLarge
	}
	d.capacity = min(maxSlots, max(least, cacheShare/(d.cache.bytes()*pagesOf(longest))))
}

// work decodes until the queue is empty and all slots are done, or until there
// are no pages for what is in the queue.
func (d *decoder) work(ctx context.Context) error {
	defer d.dropAll()
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("generating: %w", err)
		}
		if err := d.admit(ctx); err != nil {
			return err
		}
		d.provide()
		if len(d.slots) == 0 {
			return nil
		}
		if err := d.step(); err != nil {
			return err
		}
	}
}

// dropAll gives all pages back, after an error.
func (d *decoder) dropAll() {
	for _, s := range d.slots {
		d.cache.Release(s.pages, false)
	}
	for _, s := range d.waiting {
		d.leave(s.prompt)
	}
	d.slots, d.waiting = d.slots[:0], nil
}

// leave takes away one of the slots that wait for a prompt's pages.
func (d *decoder) leave(p *prompt) {
	if p.Users--; p.Users == 0 {
		p.Drop(d.cache.Pool)
	}
}

// admit gives places to responses that wait, and computes new prompts. It does
// the latter only once an eighth of the places is free, so that several are
// computed together.
func (d *decoder) admit(ctx context.Context) error {
	for {
		for len(d.waiting) > 0 && len(d.slots) < d.capacity && d.place() {
		}
		free := d.capacity - len(d.slots)
		if len(d.waiting) > 0 || len(d.slots) > 0 && free < (d.capacity+7)/8 {
			break
		}
		least := 0
		if len(d.slots) == 0 {
			least = 1
		}
		// The slots' next pages are spoken for.
		taken := d.queue.take(free, d.cache.Available()-len(d.slots), least)
		if len(taken) == 0 {
			break
		}
		starved, err := d.compute(ctx, taken)
		if err != nil {
			return err
		}
		if starved {
			break
		}
	}
	// With no response under way that could end, those that wait make room for
	// the first of them.
	for len(d.slots) == 0 && len(d.waiting) > 0 && !d.place() {
		d.putOff()
	}
	return nil
}

// place gives the first response that waits a place. It reports false when
// there is no page for it.
func (d *decoder) place() bool {
	s := d.waiting[0]
	p := s.prompt
	if p.Users == 1 {
		s.pages, p.Pages = p.Pages, nil
		d.leave(p)
	} else {
		// The last page is written to, so all but one user need a copy.
		whole := s.length / pageTokens
		s.pages = append(make([]*page, 0, whole+2), p.Pages[:whole]...)
		if whole < len(p.Pages) {
			own := d.cache.Get()
			if own == nil {
				return false
			}
			copy(own.Content, p.Pages[whole].Content)
			s.pages = append(s.pages, own)
		}
		d.cache.Retain(s.pages[:whole])
		p.Users--
	}
	s.prompt = nil
	d.waiting = d.waiting[1:]
	d.slots = append(d.slots, s)
	return true
}

// putOff makes room: what came last goes back to the queue, to be computed
// again later. What it has sampled stays sampled.
func (d *decoder) putOff() {
	var s slot
	if last := len(d.waiting) - 1; last >= 0 {
		s = d.waiting[last]
		d.waiting = d.waiting[:last]
		d.leave(s.prompt)
	} else {
		last := len(d.slots) - 1
		s = d.slots[last]
		d.slots = d.slots[:last]
		d.cache.Release(s.pages, true)
	}
	r := d.requests[s.request]
	d.queue.putBack(&prompt{
		IDs: slices.Concat(r.Prompt, d.completions[s.request].TokenIDs), Requests: []int{s.request}, Keep: r.Keep,
	})
}

// provide gets the pages that the slots' next tokens need.
func (d *decoder) provide() {
	for i := 0; i < len(d.slots); i++ {
		for i < len(d.slots) && d.slots[i].length == len(d.slots[i].pages)*pageTokens {
			if pg := d.cache.Get(); pg != nil {
				d.slots[i].pages = append(d.slots[i].pages, pg)
			} else {
				d.putOff()
			}
		}
	}
}

// step feeds every slot's last token and samples the next one.
func (d *decoder) step() error {
	c, p := d.e.config, d.decode
	m := len(d.slots)
	d.tokens, d.positions, d.rows = grow(d.tokens, m), grow(d.positions, m), grow(d.rows, m)
	work := 0
	for i, s := range d.slots {
		d.tokens[i], d.positions[i], d.rows[i] = s.token, int32(s.length), i
		work += (s.length + 1) * c.QueryWidth()
	}
	heads := c.NumKeyValueHeads
	grain := 1 + m*heads*attentionGrain/(work+1)
	p.start(d.tokens, d.positions)
	for layer := range c.NumHiddenLayers {
		p.project(layer)
		l := &p.layers[layer]
		parallel(d.threads, m*heads, grain, func(worker, from, to int) {
			for item := from; item < to; item++ {
				i, head := item/heads, item%heads
				row := l.qkv[i*wide(c) : (i+1)*wide(c)]
				d.keep(layer, head, d.slots[i].pages, d.slots[i].length, row)
				d.attend(layer, head, &d.slots[i], row[:c.QueryWidth()], l.mixed[i*c.QueryWidth():(i+1)*c.QueryWidth()], &d.workers[worker])
			}
		})
		p.combine(layer)
	}
	for i := range d.slots {
		d.fed(&d.slots[i])
	}
	if err := d.sampleAll(d.slots, d.rows, p.final); err != nil {
		return err
	}
	live := 0
	for _, s := range d.slots {
		if s.finished {
			d.cache.Release(s.pages, d.requests[s.request].Keep)
			continue
		}
		d.slots[live] = s
		live++
	}
	d.slots = d.slots[:live]
	return nil
}

// fed notes that a slot's token is in the cache, and enters a page that is full
// now into the index.
func (d *decoder) fed(s *slot) {
	s.length++
	if s.length%pageTokens != 0 {
		return
	}
	s.prefix = s.prefix.Extend(kvcache.PageOf(s.length/pageTokens-1, d.requests[s.request].Prompt, d.completions[s.request].TokenIDs))
	d.cache.Insert(s.pages[len(s.pages)-1], s.prefix)
}

// attentionGrain is the work of attention, in multiply-adds of scores, that is
// worth another goroutine.
const attentionGrain = 64 << 10

// attend is [pass.attendHead] for the one query of a slot and the query heads
// of one key-value head, whose keys and values are in pages up to and including
// the query's own. query and mixed are (query heads, d).
func (d *decoder) attend(layer, head int, s *slot, query, mixed []float32, scratch *decodeScratch) {
	c := d.e.config
	width, shared := c.HeadDim, c.NumAttentionHeads/c.NumKeyValueHeads
	keys, stride := s.length+1, len(s.pages)*pageTokens
	scoring := d.e.scoring(layer)
	hidden := scoring.first(keys) / pageTokens // pages before it have no weight
	scratch.scores = grow(scratch.scores, shared*stride)
	scratch.sums = grow(scratch.sums, shared)
	scores, sums := scratch.scores, scratch.sums
	q := query[head*shared*width : (head+1)*shared*width]
	out := mixed[head*shared*width : (head+1)*shared*width]
	for i := hidden; i < len(s.pages); i++ {
		d.cache.score(scores[i*pageTokens:], stride, q, width, shared, s.pages[i], layer, head, min(pageTokens, keys-i*pageTokens), &scratch.packed)
	}
	for a := range shared {
		_, sums[a] = scoring.softmax(scores[a*stride:a*stride+keys], keys)
	}
	d.mixPages(out, width, scores, stride, shared, s.pages, hidden, keys, layer, head, scratch)
	for a := range shared {
		vec.Scale(out[a*width:(a+1)*width], 1/sums[a], out[a*width:(a+1)*width])
	}
}

// mixPages is [pass.weigh] for values in pages: it sets out_i for i < rows, which are
// ldo apart, to the sum of the first keys values, weighted by scores[i·stride:], of which
// those of the first hidden pages are zeros.
func (d *decoder) mixPages(out []float32, ldo int, scores []float32, stride, rows int, pages []*page, hidden, keys, layer, head int, scratch *decodeScratch) {
	width, each := d.e.config.HeadDim, len(pages)
	if !d.e.pairs {
		each = d.e.stretchKeys / pageTokens
	}
	for i := range rows {
		clear(out[i*ldo : i*ldo+width])
	}
	for i := hidden; i < len(pages); {
		dst, ld, later := out, ldo, i >= each
		if later {
			scratch.stretch = grow(scratch.stretch, rows*width)
			dst, ld = scratch.stretch, width
			clear(dst)
		}
		for end := min(len(pages), (i/each+1)*each); i < end; i++ {
			d.cache.mix(dst, ld, scores[i*pageTokens:], stride, rows, pages[i], layer, head, min(pageTokens, keys-i*pageTokens), &scratch.packed)
		}
		if later {
			addStretch(out, ldo, dst, rows, width)
		}
	}
}

// sampleAll samples the next token of each slot, from its row of the residual
// stream (rows, h) after the last block. Slots with the same row lie together.
func (d *decoder) sampleAll(slots []slot, rows []int, stream []float32) error {
	c, hidden := d.e.config, d.e.config.HiddenSize
	size := max(1, d.e.limits.sampledLogits/c.VocabSize)
	d.errs = grow(d.errs, len(slots))
	clear(d.errs)
	for from := 0; from < len(slots); {
		d.normed = d.normed[:0]
		index := d.index[:0] // of a slot's row among the normed ones
		to, m := from, 0
		for ; to < len(slots); to++ {
			if to == from || rows[to] != rows[to-1] {
				if m == size {
					break
				}
				m++
				d.normed = slices.Grow(d.normed, hidden)[:m*hidden]
				vec.RMSNorm(d.normed[(m-1)*hidden:], stream[rows[to]*hidden:(rows[to]+1)*hidden], d.e.model.norm.multiplier, float32(c.RMSNormEps))
			}
			index = append(index, m-1)
		}
		d.index = index
		d.logits = grow(d.logits, m*c.VocabSize)
		d.e.model.head.apply(d.logits, d.normed, m, d.threads, &d.low)
		d.e.finish(d.logits[:m*c.VocabSize], d.threads)
		parallel(d.threads, to-from, 1+samplingGrain/c.VocabSize, func(worker, first, last int) {
			for i := first; i < last; i++ {
				logits := d.logits[index[i]*c.VocabSize : (index[i]+1)*c.VocabSize]
				d.errs[from+i] = d.sample(&slots[from+i], logits, &d.workers[worker].dist)
			}
		})
		from = to
	}
	return cmp.Or(d.errs...)
}

// samplingGrain is the number of logits that are worth another goroutine.
const samplingGrain = 16 << 10

// sample draws the token at position s.length from its logits (V) and adds it
// to the response.
func (d *decoder) sample(s *slot, logits []float32, dist *distribution) error {
	r, out := &d.requests[s.request], &d.completions[s.request]
	dist.set(logits, r.Sampling, -1)
	if !dist.finite() {
		return &policy.RequestError{Index: s.request, Err: exitcode.Dataf("the logits after %d tokens are not finite: the policy's weights are damaged or have diverged", s.length)}
	}
	if r.Sampling.Temperature == 0 {
		s.token = argmax(logits)
	} else {
		s.token = dist.sample(r.Stream.Float64(uint64(s.length)))
	}
	out.TokenIDs = append(out.TokenIDs, s.token)
	out.LogProbs = append(out.LogProbs, dist.logProb(logits, s.token))
	if slices.Contains(r.StopTokens, s.token) || r.Watch != nil && r.Watch(out.TokenIDs) {
		out.FinishReason = policy.FinishStop
		s.finished = true
		return nil
	}
	s.finished = len(out.TokenIDs) == r.MaxNewTokens || s.length+1 == d.e.config.MaxPositionEmbeddings
	return nil
}
