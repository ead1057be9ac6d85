package cpu

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// prompt is one prompt and the requests that continue it.
type prompt struct {
	ids      []int32
	requests []int // indices into the call's requests, not yet started
	pages    []*page
	logits   []float32 // (V) after the prompt
}

// queue hands out prompts to decoders.
type queue struct {
	sync.Mutex
	prompts []*prompt
	failed  error // the first error of a decoder; the others then stop
}

// take removes prompts from the front: up to a number of requests and of
// tokens, but at least one.
func (q *queue) take(requests, tokens int) []*prompt {
	q.Lock()
	defer q.Unlock()
	if q.failed != nil {
		return nil
	}
	n := 0
	for n < len(q.prompts) {
		requests -= len(q.prompts[n].requests)
		tokens -= len(q.prompts[n].ids)
		if n > 0 && (requests < 0 || tokens < 0) {
			break
		}
		n++
	}
	taken := q.prompts[:n]
	q.prompts = q.prompts[n:]
	return taken
}

func (q *queue) fail(err error) {
	q.Lock()
	defer q.Unlock()
	if q.failed == nil {
		q.failed = err
	}
	q.prompts = nil
}

// Generate implements [policy.Engine]. Each thread decodes requests of its
// own; a prompt is computed once for all requests that share it, or once for
// each thread when there are fewer prompts than threads.
func (e *Engine) Generate(ctx context.Context, requests []policy.Request) ([]policy.Completion, error) {
	completions := make([]policy.Completion, len(requests))
	prompts, err := e.groupPrompts(requests, completions)
	if err != nil || len(prompts) == 0 {
		return completions, err
	}
	longest := 0
	for _, p := range prompts {
		longest = max(longest, len(p.ids))
		for _, r := range p.requests {
			longest = max(longest, min(len(p.ids)+requests[r].MaxNewTokens, e.config.MaxPositionEmbeddings))
		}
	}
	e.rope.extend(longest)
	prompts = splitPrompts(prompts, e.threads)
	used := min(e.threads, len(prompts))
	for len(e.decoders) < used {
		e.decoders = append(e.decoders, newDecoder(e))
	}
	work := &queue{prompts: prompts}
	var group sync.WaitGroup
	for _, d := range e.decoders[:used] {
		d.begin(requests, completions, longest, e.threads/used)
		group.Go(func() {
			if err := d.work(ctx, work); err != nil {
				work.fail(err)
			}
		})
	}
	group.Wait()
	if work.failed != nil {
		return nil, work.failed
	}
	return completions, nil
}

// groupPrompts checks the requests and groups those that want tokens by
// prompt, in the order of their first appearance.
func (e *Engine) groupPrompts(requests []policy.Request, completions []policy.Completion) ([]*prompt, error) {
	var prompts []*prompt
	byIDs := map[string]*prompt{}
	var key []byte
	for i, r := range requests {
		if len(r.Prompt) == 0 {
			return nil, exit.Dataf("request %d has an empty prompt; at least one token is needed", i)
		}
		if len(r.Prompt) > e.config.MaxPositionEmbeddings {
			return nil, exit.Dataf("request %d has a prompt of %d tokens; the policy takes %d", i, len(r.Prompt), e.config.MaxPositionEmbeddings)
		}
		if err := e.checkTokens(r.Prompt); err != nil {
			return nil, exit.Dataf("request %d: %w", i, err)
		}
		if err := checkSampling(r.Sampling); err != nil {
			return nil, exit.Usagef("request %d: %w", i, err)
		}
		completions[i].FinishReason = policy.FinishLength
		if r.MaxNewTokens <= 0 || len(r.Prompt) == e.config.MaxPositionEmbeddings {
			continue
		}
		key = key[:0]
		for _, id := range r.Prompt {
			key = binary.LittleEndian.AppendUint32(key, uint32(id))
		}
		p := byIDs[string(key)]
		if p == nil {
			p = &prompt{ids: r.Prompt}
			byIDs[string(key)] = p
			prompts = append(prompts, p)
		}
		p.requests = append(p.requests, i)
	}
	return prompts, nil
}

// splitPrompts shares the requests of each prompt out when there are too few
// prompts to keep the threads busy.
func splitPrompts(prompts []*prompt, threads int) []*prompt {
	if len(prompts) >= threads {
		return prompts
	}
	var parts []*prompt
	for _, p := range prompts {
		size := (len(p.requests) + threads - 1) / threads
		for part := range slices.Chunk(p.requests, size) {
			parts = append(parts, &prompt{ids: p.ids, requests: part})
		}
	}
	return parts
}
