package cuda

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// admit gives free slots to requests, and computes the prompts that they need.
// It computes prompts only once an eighth of the slots is free, so that several
// are computed together.
func (c *call) admit(ctx context.Context) error {
	for {
		free := len(c.slots) - c.running()
		if len(c.queue) == 0 || free == 0 {
			return nil
		}
		if c.queue[0].done < c.queue[0].wanted() && free < len(c.slots) && free < (len(c.slots)+7)/8 {
			return nil
		}
		if err := c.compute(ctx, free); err != nil {
			return err
		}
		began, err := c.begin()
		if err != nil {
			return err
		}
		if began == 0 {
			if c.running() == 0 {
				return exitcode.Bugf("generating: no room for a sequence of %d tokens among %d pages", len(c.queue[0].ids), c.budgets.CachePages)
			}
			return nil // until one that runs ends
		}
	}
}

// compute fills the cache for prompts from the front of the queue, as many as
// have use for free slots and as there are pages for.
func (c *call) compute(ctx context.Context, free int) error {
	// The pages of the running slots' next tokens are spoken for, and so is the
	// first new page of each response that is to start.
	pages := c.pool.Available() - c.running()
	var chosen []*prompt
	for _, p := range c.queue {
		if free <= 0 {
			break
		}
		pages -= pagesOf(len(p.ids)) - len(p.pages) + len(p.requests)
		if pages < 0 && (len(chosen) > 0 || c.running() > 0) {
			break
		}
		free -= len(p.requests)
		chosen = append(chosen, p)
	}
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("generating: %w", err)
		}
		cut := c.cut(chosen)
		if len(cut) == 0 {
			return nil
		}
		pieces := make([]piece, len(cut))
		for i, p := range cut {
			pieces[i] = piece{position: p.done, tokens: p.ids[p.done : p.done+p.n], pages: ids(p.pages)}
		}
		if err := c.native.prefill(pieces); err != nil {
			return err
		}
		for _, p := range cut {
			c.advance(p.prompt, p.n)
		}
	}
}

// attach gives a prompt the pages of its start that the cache has.
func (c *call) attach(p *prompt) {
	for p.done == len(p.pages)*pageTokens && p.done+pageTokens <= p.wanted() {
		upTo := p.prefix.Extend(p.ids[p.done:])
		pg := c.pool.Lookup(upTo)
		if pg == nil {
			return
		}
		p.pages, p.prefix, p.done = append(p.pages, pg), upTo, p.done+pageTokens
	}
}

// advance notes that n more tokens are computed and enters the pages that are
// full now into the index.
func (c *call) advance(p *prompt, n int) {
	whole := p.done / pageTokens
	p.done += n
	for ; (whole+1)*pageTokens <= p.done; whole++ {
		p.prefix = p.prefix.Extend(p.ids[whole*pageTokens:])
		c.pool.Insert(p.pages[whole], p.prefix)
	}
}

// promptPiece is what of a prompt is computed in one pass: n tokens after those
// that are done.
type promptPiece struct {
	*prompt
	n int
}

// cut chooses what is computed next and provides the pages for it. A prompt
// that begins with a page that another piece is about to fill waits for it.
func (c *call) cut(prompts []*prompt) []promptPiece {
	var pieces []promptPiece
	underWay := map[prefix]bool{}
	room := c.budgets.PrefillTokens
	for _, p := range prompts {
		if room < rowAlign {
			break
		}
		c.attach(p)
		n := min(p.wanted()-p.done, room/rowAlign*rowAlign)
		if n <= 0 || p.done+pageTokens <= p.wanted() && underWay[p.prefix.Extend(p.ids[p.done:])] {
			continue
		}
		if p.done+n < p.wanted() && n > pageTokens {
			n -= (p.done + n) % pageTokens
		}
		for len(p.pages) < pagesOf(p.done+n) {
			pg := c.pool.Get()
			for pg == nil && len(pieces) == 0 && c.running() == 0 && c.reclaim(p) {
				pg = c.pool.Get()
			}
			if pg == nil {
				n = len(p.pages)*pageTokens - p.done
				break
			}
			p.pages = append(p.pages, pg)
		}
		if n <= 0 {
			continue
		}
		upTo := p.prefix
		for at := p.done; at%pageTokens == 0 && at+pageTokens <= p.done+n; at += pageTokens {
			upTo = upTo.Extend(p.ids[at:])
			underWay[upTo] = true
		}
		pieces = append(pieces, promptPiece{p, n})
		room -= policy.RowsOf(n)
	}
	return pieces
}

// begin gives slots to the requests of prompts that are computed, from the
// front of the queue, as long as there are slots and pages.
func (c *call) begin() (began int, err error) {
	var starts []start
	for slot := range c.slots {
		if c.slots[slot] != nil {
			continue
		}
		if len(c.queue) == 0 || c.queue[0].done < c.queue[0].wanted() {
			break
		}
		p := c.queue[0]
		r := &response{request: p.requests[0], slot: slot, length: p.done, prefix: p.prefix, indexed: p.done / pageTokens, order: c.started}
		ok, err := c.place(p, r)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		c.started++
		c.slots[slot] = r
		if len(p.requests) == 0 {
			c.queue = c.queue[1:]
		}
		request := &c.requests[r.request]
		stops := request.StopTokens
		if len(stops) > maxStops {
			stops = nil // take looks for all of them
		}
		if len(r.pages) > 0 {
			if err := c.native.pages(slot, 0, ids(r.pages)); err != nil {
				return 0, err
			}
		}
		starts = append(starts, start{
			slot: slot, token: p.ids[len(p.ids)-1], position: len(p.ids) - 1, remaining: c.remaining(r.request), stops: stops,
			stream: request.Stream, sampling: request.Sampling,
		})
	}
	if len(starts) == 0 {
		return 0, nil
	}
	return len(starts), c.native.start(starts)
}

// place gives a response its pages: those of its prompt that are full, which
// all its prompt's requests share, and a copy of the last one, if that is
// unfinished; the last of the requests takes the prompt's own.
func (c *call) place(p *prompt, r *response) (ok bool, err error) {
	if len(p.requests) == 1 {
		r.pages, p.pages = p.pages, nil
		p.requests = nil
		return true, nil
	}
	whole := p.done / pageTokens
	r.pages = append(make([]*page, 0, whole+2), p.pages[:whole]...)
	if whole < len(p.pages) {
		own := c.pool.Get()
		for own == nil && c.running() == 0 && c.reclaim(p) {
			own = c.pool.Get()
		}
		if own == nil && c.running() == 0 {
			// There is room for one: the others' prompt is computed again.
			r.pages = p.pages
			*p = prompt{ids: p.ids, requests: p.requests[1:], keep: p.keep}
			return true, nil
		}
		if own == nil {
			return false, nil
		}
		if err := c.native.copyPage(p.pages[whole].Content, own.Content); err != nil {
			return false, err
		}
		r.pages = append(r.pages, own)
	}
	c.pool.Retain(p.pages[:whole])
	p.requests = p.requests[1:]
	return true, nil
}

// reclaim takes the pages of a prompt that still waits, but not of one: it is
// computed again. It reports false when no other has pages.
func (c *call) reclaim(but *prompt) bool {
	for i := len(c.queue) - 1; i >= 0; i-- {
		if p := c.queue[i]; p != but && len(p.pages) > 0 {
			c.drop(p)
			return true
		}
	}
	return false
}

// provide chooses the number of steps of a burst, and gets the pages that they
// need; responses make room for others where there are too few.
func (c *call) provide() (steps int, err error) {
	steps = longBurst
	longest := 0
	for _, r := range c.slots {
		if r == nil {
			continue
		}
		request := &c.requests[r.request]
		if len(c.queue) > 0 || request.Watch != nil || len(request.StopTokens) > maxStops {
			steps = shortBurst
		}
		longest = max(longest, c.remaining(r.request))
	}
	steps = min(steps, longest)
	// The oldest first, so that what was started last makes room.
	for {
		r := c.next(steps)
		if r == nil {
			return steps, nil
		}
		pg := c.pool.Get()
		if pg == nil {
			if c.reclaim(nil) {
				continue
			}
			if err := c.putOff(); err != nil {
				return 0, err
			}
			continue
		}
		r.pages = append(r.pages, pg)
		if err := c.native.pages(r.slot, len(r.pages)-1, []int32{pg.Content}); err != nil {
			return 0, err
		}
	}
}

// next is the oldest response that needs a page for its next steps, or nil.
func (c *call) next(steps int) *response {
	var oldest *response
	for _, r := range c.slots {
		if r == nil || pagesOf(r.length+min(steps, c.remaining(r.request))) <= len(r.pages) {
			continue
		}
		if oldest == nil || r.order < oldest.order {
			oldest = r
		}
	}
	return oldest
}
