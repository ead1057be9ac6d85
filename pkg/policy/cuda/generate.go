package cuda

import (
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/kvcache"
)

// Decode steps that the device takes by itself before the host looks. A longer
// burst asks the device less often, but a response that ends inside one leaves
// its slot idle for the rest, and tokens after the one at which Watch stops a
// response are thrown away.
const (
	longBurst  = 32 // nobody waits for a slot and nobody watches
	shortBurst = 8
)

// rollout is what an engine needs for Generate.
type rollout struct {
	pool  *pool
	slots []*response // by slot; nil where one is free
}

func newRollout(pages, slots int) rollout {
	return rollout{pool: newPool(pages), slots: make([]*response, slots)}
}

// wanted is the number of tokens of a prompt that are to be computed before decoding.
// The last one is left to the first decode step, which is what computes the logits that
// follow it.
func wanted(p *prompt) int { return len(p.IDs) - 1 }

// response is a request that has a slot.
type response struct {
	request int
	slot    int
	pages   []*page
	prefix  prefix // of the whole pages that the index knows
	indexed int    // how many these are
	length  int    // tokens whose keys and values are in the cache
	order   int    // responses started before it
}

// call is one call of Generate.
type call struct {
	*Engine
	requests    []policy.Request
	completions []policy.Completion
	queue       []*prompt // the front is next
	started     int

	tokens   []int32 // (slots, steps) of a burst
	logProbs []float32
	counts   []int32
	states   []slotState
}

// Generate implements [policy.Sampler]. A prompt is computed once for all
// requests that share it, and so is what prompts have in common from their
// start, in whole pages. Responses take slots as they become free.
func (e *Engine) Generate(ctx context.Context, requests []policy.Request) ([]policy.Completion, error) {
	defer phase.Enter(phase.Decode)()
	if e.failed != nil {
		return nil, e.failed
	}
	if len(e.slots) == 0 && len(requests) > 0 {
		return nil, exitcode.Bugf("generating: the engine was opened without Generate")
	}
	c := &call{Engine: e, requests: requests, completions: make([]policy.Completion, len(requests))}
	if err := c.group(); err != nil {
		return nil, err
	}
	defer c.dropAll()
	e.last = lastForward{} // the device's memory for activations is used
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("generating: %w", err)
		}
		phase.Mark(phase.Prefill)
		if err := c.admit(ctx); err != nil {
			return nil, err
		}
		phase.Mark(phase.Decode)
		if c.running() == 0 {
			return c.completions, nil
		}
		if err := c.burst(); err != nil {
			return nil, err
		}
	}
}

// group checks the requests and groups those that want tokens by prompt, in the
// order of their first appearance.
func (c *call) group() error {
	var prompts kvcache.Prompts[int32]
	for i, r := range c.requests {
		if err := r.Validate(c.config); err != nil {
			return &policy.RequestError{Index: i, Err: err}
		}
		c.completions[i].FinishReason = policy.FinishLength
		if r.MaxNewTokens <= 0 || len(r.Prompt) == c.config.MaxPositionEmbeddings {
			continue
		}
		if longest := len(r.Prompt) + c.remaining(i) - 1; pagesOf(longest) > c.budgets.CachePages {
			return &policy.RequestError{Index: i, Err: exitcode.WithHint(
				exitcode.Unavailablef("a sequence of up to %d tokens; the GPU's memory has room for the keys and values of %d", longest, c.budgets.CachePages*pageTokens),
				"request fewer new tokens, or use a GPU with more memory")}
		}
		prompts.Add(r.Prompt, i, r.Keep)
	}
	c.queue = prompts.List
	return nil
}

// remaining is the number of tokens that a request may still get.
func (c *call) remaining(request int) int {
	r, have := c.requests[request], len(c.completions[request].TokenIDs)
	return min(r.MaxNewTokens-have, c.config.MaxPositionEmbeddings-len(r.Prompt)-have)
}

// running is the number of slots in use.
func (c *call) running() int {
	n := 0
	for _, r := range c.slots {
		if r != nil {
			n++
		}
	}
	return n
}

// dropAll frees all slots and pages, after an error.
func (c *call) dropAll() {
	for slot, r := range c.slots {
		if r != nil {
			c.fail(c.free(slot))
		}
	}
	for _, p := range c.queue {
		p.Drop(c.pool)
	}
}

// free takes a slot from a response.
func (c *call) free(slot int) error {
	r := c.slots[slot]
	c.slots[slot] = nil
	c.pool.Release(r.pages, c.requests[r.request].Keep)
	return c.native.stop(slot)
}

// putOff makes room: the response that was started last goes back to the
// queue, to be computed again later. What it has sampled stays sampled.
func (c *call) putOff() error {
	var last *response
	for _, r := range c.slots {
		if r != nil && (last == nil || r.order > last.order) {
			last = r
		}
	}
	r := c.requests[last.request]
	ids := slices.Concat(r.Prompt, c.completions[last.request].TokenIDs)
	c.queue = slices.Insert(c.queue, 0, &prompt{IDs: ids, Requests: []int{last.request}, Keep: r.Keep})
	return c.free(last.slot)
}

// burst lets the device decode, and takes what it has sampled.
func (c *call) burst() error {
	steps, err := c.provide()
	if err != nil {
		return err
	}
	n := len(c.slots)
	c.tokens, c.logProbs = grow(c.tokens, n*steps), grow(c.logProbs, n*steps)
	c.counts, c.states = grow(c.counts, n), grow(c.states, n)
	if err := c.native.decode(steps, c.tokens, c.logProbs, c.counts, c.states); err != nil {
		return err
	}
	for slot, r := range c.slots {
		if r == nil {
			continue
		}
		count := int(c.counts[slot])
		if count < 1 || count > steps {
			return exitcode.Bugf("decoding: slot %d took %d of %d steps", slot, count, steps)
		}
		ended, err := c.take(r, c.tokens[slot*steps:slot*steps+count], c.logProbs[slot*steps:slot*steps+count], c.states[slot])
		if err == nil && ended {
			err = c.free(slot)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take adds sampled tokens, and as many log-probabilities, to a response, and
// says whether it has ended.
func (c *call) take(r *response, tokens []int32, logProbs []float32, state slotState) (ended bool, err error) {
	request, out := &c.requests[r.request], &c.completions[r.request]
	for i, id := range tokens {
		if logProbs[i] != logProbs[i] {
			return false, &policy.RequestError{Index: r.request, Err: exitcode.Dataf(
				"the logits after %d tokens are not finite: the policy's weights are damaged or have diverged", len(request.Prompt)+len(out.TokenIDs))}
		}
		r.length++
		out.TokenIDs, out.LogProbs = append(out.TokenIDs, id), append(out.LogProbs, logProbs[i])
		if slices.Contains(request.StopTokens, id) || request.Watch != nil && request.Watch(out.TokenIDs) {
			out.FinishReason = policy.FinishStop
			ended = true
			break
		}
	}
	if request.Keep {
		c.indexFull(r)
	}
	return ended || state != slotRunning, nil
}

// indexFull enters a response's pages that are full into the index.
func (c *call) indexFull(r *response) {
	request, out := &c.requests[r.request], &c.completions[r.request]
	for ; (r.indexed+1)*pageTokens <= r.length; r.indexed++ {
		r.prefix = r.prefix.Extend(kvcache.PageOf(r.indexed, request.Prompt, out.TokenIDs))
		c.pool.Insert(r.pages[r.indexed], r.prefix)
	}
}

// grow returns a slice of length n, the given one where it has room.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
