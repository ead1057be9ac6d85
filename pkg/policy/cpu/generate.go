package cpu

import (
	"context"
	"slices"
	"sync"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/kvcache"
)

// queue hands out prompts to decoders.
type queue struct {
	sync.Mutex
	prompts []*prompt
	failed  error // the first error of a decoder; the others then stop
}

// take removes prompts from the front: up to a number of requests, as far as
// there are pages for the prompts and for the first new token of each
// request, but at least so many prompts.
func (q *queue) take(requests, pages, least int) []*prompt {
	q.Lock()
	defer q.Unlock()
	n := 0
	for n < len(q.prompts) {
		requests -= len(q.prompts[n].Requests)
		pages -= pagesOf(len(q.prompts[n].IDs)) + len(q.prompts[n].Requests)
		if n >= least && (requests < 0 || pages < 0) {
			break
		}
		n++
	}
	taken := q.prompts[:n:n]
	q.prompts = q.prompts[n:]
	return taken
}

// putBack returns prompts to the front.
func (q *queue) putBack(prompts ...*prompt) {
	q.Lock()
	defer q.Unlock()
	if q.failed == nil {
		q.prompts = append(slices.Clone(prompts), q.prompts...)
	}
}

func (q *queue) fail(err error) {
	q.Lock()
	defer q.Unlock()
	if q.failed == nil {
		q.failed = err
	}
	q.prompts = nil
}

// Generate implements [policy.Sampler]. A prompt is computed once for all
// requests that share it, and so is what prompts have in common from their
// start, in whole pages.
//
// When the weights are too many for a thread's own cache, all threads work on
// the same requests, each with a share of the columns of every product, so
// that a step reads the weights once. Otherwise each thread decodes requests
// of its own and waits for nobody.
func (e *Engine) Generate(ctx context.Context, requests []policy.Request) ([]policy.Completion, error) {
	defer phase.Enter(phase.Decode)()
	completions := make([]policy.Completion, len(requests))
	prompts, err := e.groupPrompts(requests, completions)
	if err != nil || len(prompts) == 0 {
		return completions, err
	}
	longest, wanted := 0, 0
	for _, p := range prompts {
		for _, r := range p.Requests {
			longest = max(longest, len(p.IDs)+min(requests[r].MaxNewTokens, e.config.MaxPositionEmbeddings-len(p.IDs)))
		}
		wanted += len(p.Requests)
	}
	e.extendRope(longest)
	if e.cache == nil {
		e.cache = newPool(e.config, e.pairs)
	}
	// One sequence must find room beside the unfinished page of its prompt.
	e.cache.SetLimit(max(int(e.cacheBytes)/e.cache.bytes(), pagesOf(longest)+1))

	used := 1
	if wanted > 1 && !e.sharesWeights() {
		prompts = splitPrompts(prompts, e.threads)
		used = min(e.threads, len(prompts))
	}
	for len(e.decoders) < used {
		e.decoders = append(e.decoders, newDecoder(e))
	}
	work := &queue{prompts: prompts}
	var group sync.WaitGroup
	for _, d := range e.decoders[:used] {
		d.begin(requests, completions, work, longest, e.threads/used)
		group.Go(func() {
			if err := d.work(ctx); err != nil {
				work.fail(err)
			}
		})
	}
	group.Wait()
	// A decoder that finds no pages leaves its requests to the others. What is
	// left when they are through has all pages to itself.
	for tokens := -1; len(work.prompts) > 0; {
		before := tokens
		tokens = 0
		for _, c := range completions {
			tokens += len(c.TokenIDs)
		}
		if tokens == before {
			return nil, exitcode.Bugf("generating: no room for %d prompts", len(work.prompts))
		}
		if err := e.decoders[0].work(ctx); err != nil {
			work.fail(err)
		}
	}
	if work.failed != nil {
		return nil, work.failed
	}
	return completions, nil
}

// sharesWeights reports whether threads share the work of each product rather
// than the requests.
func (e *Engine) sharesWeights() bool {
	return e.base.bytes() > e.limits.ownWeights
}

// groupPrompts checks the requests and groups those that want tokens by
// prompt, in the order of their first appearance.
func (e *Engine) groupPrompts(requests []policy.Request, completions []policy.Completion) ([]*prompt, error) {
	var prompts kvcache.Prompts[[]float32]
	for i, r := range requests {
		if err := r.Validate(e.config); err != nil {
			return nil, &policy.RequestError{Index: i, Err: err}
		}
		completions[i].FinishReason = policy.FinishLength
		if r.MaxNewTokens > 0 && len(r.Prompt) < e.config.MaxPositionEmbeddings {
			prompts.Add(r.Prompt, i, r.Keep)
		}
	}
	return prompts.List, nil
}

// splitPrompts shares the requests of each prompt out when there are too few
// prompts to keep the threads busy.
func splitPrompts(prompts []*prompt, threads int) []*prompt {
	if len(prompts) >= threads {
		return prompts
	}
	var parts []*prompt
	for _, p := range prompts {
		size := (len(p.Requests) + threads - 1) / threads
		for part := range slices.Chunk(p.Requests, size) {
			parts = append(parts, &prompt{IDs: p.IDs, Requests: part, Keep: p.Keep})
		}
	}
	return parts
}
