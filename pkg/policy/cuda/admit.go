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
		if c.queue[0].Done < wanted(c.queue[0]) && free < len(c.slots) && free < (len(c.slots)+7)/8 {
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
				return exitcode.Bugf("generating: no room for a sequence of %d tokens among %d pages", len(c.queue[0].IDs), c.budgets.CachePages)
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
		pages -= pagesOf(len(p.IDs)) - len(p.Pages) + len(p.Requests)
		if pages < 0 && (len(chosen) > 0 || c.running() > 0) {
			break
		}
		free -= len(p.Requests)
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
			pieces[i] = piece{position: p.Done, tokens: p.IDs[p.Done : p.Done+p.n], pages: ids(p.Pages)}
		}
		if err := c.native.prefill(pieces); err != nil {
			return err
		}
		for _, p := range cut {
			p.Advance(c.pool, p.n)
		}
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
		p.Attach(c.pool)
		n := min(wanted(p)-p.Done, room/rowAlign*rowAlign)
		if n <= 0 || p.Done+pageTokens <= wanted(p) && underWay[p.Prefix.Extend(p.IDs[p.Done:])] {
			continue
		}
		if p.Done+n < wanted(p) && n > pageTokens {
			n -= (p.Done + n) % pageTokens
		}
		for len(p.Pages) < pagesOf(p.Done+n) {
			pg := c.pool.Get()
			for pg == nil && len(pieces) == 0 && c.running() == 0 && c.reclaim(p) {
				pg = c.pool.Get()
			}
			if pg == nil {
				n = len(p.Pages)*pageTokens - p.Done
				break
			}
			p.Pages = append(p.Pages, pg)
		}
		if n <= 0 {
			continue
		}
		upTo := p.Prefix
		for at := p.Done; at%pageTokens == 0 && at+pageTokens <= p.Done+n; at += pageTokens {
			upTo = upTo.Extend(p.IDs[at:])
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
		if len(c.queue) == 0 || c.queue[0].Done < wanted(c.queue[0]) {
			break
		}
		p := c.queue[0]
		r := &response{request: p.Requests[0], slot: slot, length: p.Done, prefix: p.Prefix, indexed: p.Done / pageTokens, order: c.started}
		ok, err := c.place(p, r)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		c.started++
		c.slots[slot] = r
		if len(p.Requests) == 0 {
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
			slot: slot, token: p.IDs[len(p.IDs)-1], position: len(p.IDs) - 1, remaining: c.remaining(r.request), stops: stops,
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
	if len(p.Requests) == 1 {
		r.pages, p.Pages = p.Pages, nil
		p.Requests = nil
		return true, nil
	}
	whole := p.Done / pageTokens
	r.pages = append(make([]*page, 0, whole+2), p.Pages[:whole]...)
	if whole < len(p.Pages) {
		own := c.pool.Get()
		for own == nil && c.running() == 0 && c.reclaim(p) {
			own = c.pool.Get()
		}
		if own == nil && c.running() == 0 {
			// There is room for one: the others' prompt is computed again.
			r.pages = p.Pages
			*p = prompt{IDs: p.IDs, Requests: p.Requests[1:], Keep: p.Keep}
			return true, nil
		}
		if own == nil {
			return false, nil
		}
		if err := c.native.copyPage(p.Pages[whole].Content, own.Content); err != nil {
			return false, err
		}
		r.pages = append(r.pages, own)
	}
	c.pool.Retain(p.Pages[:whole])
	p.Requests = p.Requests[1:]
	return true, nil
}

// reclaim takes the pages of a prompt that still waits, but not of one: it is
// computed again. It reports false when no other has pages.
func (c *call) reclaim(but *prompt) bool {
	for i := len(c.queue) - 1; i >= 0; i-- {
		if p := c.queue[i]; p != but && len(p.Pages) > 0 {
			p.Drop(c.pool)
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
