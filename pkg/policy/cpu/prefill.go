package cpu

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// piece is a part of a prompt that is computed in one pass: n tokens after
// those that are done.
type piece struct {
	*prompt
	n, row int // the tokens are rows from row of the pass
}

// compute runs prompts through the model, a bounded number of tokens at a
// time, and samples the first token of their requests, which then wait for a
// place. Prompts for which there are no pages go back to the queue; starved
// reports that there were some.
func (d *decoder) compute(ctx context.Context, prompts []*prompt) (starved bool, err error) {
	phase.Mark(phase.Prefill)
	defer phase.Mark(phase.Decode)
	for _, p := range prompts {
		p.Users = 1 // this function, until the prompt is computed
	}
	pending := prompts
	for len(pending) > 0 && err == nil {
		if err = ctx.Err(); err != nil {
			err = fmt.Errorf("generating: %w", err)
			break
		}
		pieces := d.cut(pending)
		if len(pieces) == 0 {
			starved = true
			break
		}
		d.runPieces(pieces)
		err = d.sampleFirst(pieces)
		var left []*prompt
		for _, p := range pending {
			if p.Done < len(p.IDs) {
				left = append(left, p)
			} else {
				d.leave(p)
			}
		}
		pending = left
	}
	for _, p := range pending {
		d.leave(p)
	}
	if starved {
		d.queue.putBack(pending...)
	}
	return starved, err
}

// sampleFirst notes that pieces are computed, and samples the first tokens
// after the prompts that are complete.
func (d *decoder) sampleFirst(pieces []piece) error {
	var slots []slot
	var rows []int
	for _, p := range pieces {
		p.Advance(d.cache.Pool, p.n)
		if p.Done < len(p.IDs) {
			continue
		}
		for _, r := range p.Requests {
			slots = append(slots, slot{request: r, prompt: p.prompt, prefix: p.Prefix, length: p.Done})
			rows = append(rows, p.row+p.n-1)
		}
	}
	if err := d.sampleAll(slots, rows, d.prefill.final); err != nil {
		return err
	}
	for _, s := range slots {
		if !s.finished {
			s.prompt.Users++
			d.waiting = append(d.waiting, s)
		}
	}
	return nil
}

// cut chooses what is computed next and provides the pages for it. A prompt
// that begins with a page that another piece is about to fill waits for it.
func (d *decoder) cut(pending []*prompt) []piece {
	var pieces []piece
	underWay := map[prefix]bool{}
	row := 0
	for _, p := range pending {
		if row == d.e.limits.prefillTokens {
			break
		}
		p.Attach(d.cache.Pool)
		if p.Done+pageTokens < len(p.IDs) && underWay[p.Prefix.Extend(p.IDs[p.Done:])] {
			continue
		}
		n := min(d.e.limits.prefillTokens-row, len(p.IDs)-p.Done)
		if p.Done+n < len(p.IDs) {
			n -= n % pageTokens
		}
		for len(p.Pages) < pagesOf(p.Done+n) {
			pg := d.cache.Get()
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
		for at := p.Done; at+pageTokens <= p.Done+n; at += pageTokens {
			upTo = upTo.Extend(p.IDs[at:])
			underWay[upTo] = true
		}
		pieces = append(pieces, piece{prompt: p, n: n, row: row})
		row += n
	}
	return pieces
}

// runPieces computes the residual stream of the pieces' tokens, and puts their
// keys and values into the pages.
func (d *decoder) runPieces(pieces []piece) {
	c, p := d.e.config, d.prefill
	tokens, positions := d.tokens[:0], d.positions[:0]
	for _, piece := range pieces {
		for i := piece.Done; i < piece.Done+piece.n; i++ {
			tokens, positions = append(tokens, piece.IDs[i]), append(positions, int32(i))
		}
	}
	d.tokens, d.positions = tokens, positions
	// Blocks of queries of every key-value head are shared out to the threads.
	type block struct{ piece, first, head int }
	var blocks []block
	for i, piece := range pieces {
		for first := 0; first < piece.n; first += queryBlock {
			for head := range c.NumKeyValueHeads {
				blocks = append(blocks, block{i, first, head})
			}
		}
	}
	p.start(tokens, positions)
	for layer := range c.NumHiddenLayers {
		p.project(layer)
		l := &p.layers[layer]
		parallel(d.threads, len(blocks), 1, func(_, from, to int) {
			for _, b := range blocks[from:to] {
				piece := pieces[b.piece]
				for i := b.first; i < min(b.first+queryBlock, piece.n); i++ {
					d.keep(layer, b.head, piece.Pages, piece.Done+i, l.qkv[(piece.row+i)*wide(c):(piece.row+i+1)*wide(c)])
				}
			}
		})
		parallel(d.threads, len(blocks), 1, func(worker, from, to int) {
			for _, b := range blocks[from:to] {
				d.attendBlock(layer, b.head, pieces[b.piece], b.first, &d.workers[worker])
			}
		})
		p.combine(layer)
	}
}

// keep puts a token's key and value of one head, from its row (q+2kv) of
// queries, keys and values, into its page.
func (d *decoder) keep(layer, head int, pages []*page, position int, row []float32) {
	c := d.e.config
	key := row[c.QueryWidth()+head*c.HeadDim:]
	d.cache.put(pages, layer, head, position, key, key[c.KeyValueWidth():])
}

// attendBlock is [pass.attendHead] for a block of a piece's queries and the
// query heads of one key-value head, with keys and values in pages.
func (d *decoder) attendBlock(layer, head int, p piece, first int, scratch *decodeScratch) {
	c, l := d.e.config, &d.prefill.layers[layer]
	width, shared := c.HeadDim, c.NumAttentionHeads/c.NumKeyValueHeads
	rows := min(queryBlock, p.n-first)
	before := p.Done + first // tokens before the block
	keys := before + rows
	pages := p.Pages[:pagesOf(keys)]
	stride := len(pages) * pageTokens
	scoring := d.e.scoring(layer)
	hidden := scoring.first(before+1) / pageTokens // pages before what the first query sees
	scratch.scores = grow(scratch.scores, rows*stride)
	scratch.sums = grow(scratch.sums, rows)
	scores, sums := scratch.scores, scratch.sums
	for a := head * shared; a < (head+1)*shared; a++ {
		query := l.qkv[(p.row+first)*wide(c)+a*width:]
		mixed := l.mixed[(p.row+first)*c.QueryWidth()+a*width:]
		for i := hidden; i < len(pages); i++ {
			d.cache.score(scores[i*pageTokens:], stride, query, wide(c), rows, pages[i], layer, head, min(pageTokens, keys-i*pageTokens), &scratch.packed)
		}
		for i := range rows {
			_, sums[i] = scoring.softmax(scores[i*stride:i*stride+keys], before+i+1)
		}
		d.mixPages(mixed, c.QueryWidth(), scores, stride, rows, pages, hidden, keys, layer, head, scratch)
		for i := range rows {
			row := mixed[i*c.QueryWidth() : i*c.QueryWidth()+width]
			vec.Scale(row, 1/sums[i], row)
		}
	}
}
