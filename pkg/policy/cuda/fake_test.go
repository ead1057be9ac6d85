package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// fakeDevice decodes without arithmetic: its cache holds the tokens themselves,
// and the next token is a hash of all that the page table leads to. A page that
// is missing, shared too long, copied too late or written by a stranger changes
// what comes out. It checks what engine.h demands of its caller.
type fakeDevice struct {
	native // what is not implemented is not called

	config    policy.Config
	budgets   Budgets
	cache     [][pageTokens]int32 // -1 where nothing was written
	tables    [][]int32
	slots     []fakeSlot
	prefilled int // tokens that were computed by prefill
}

type fakeSlot struct {
	start
	running bool
}

func newFakeDevice(c policy.Config, b Budgets) *fakeDevice {
	d := &fakeDevice{config: c, budgets: b, cache: make([][pageTokens]int32, b.CachePages), tables: make([][]int32, b.Slots), slots: make([]fakeSlot, b.Slots)}
	for i := range d.cache {
		for j := range d.cache[i] {
			d.cache[i][j] = -1
		}
	}
	for i := range d.tables {
		d.tables[i] = make([]int32, pagesOf(c.MaxPositionEmbeddings))
	}
	return d
}

func refused(format string, args ...any) error {
	return statusError("fake device", statusArgument, fmt.Sprintf(format, args...))
}

func (d *fakeDevice) write(pages []int32, position int, token int32) error {
	if at := position / pageTokens; at >= len(pages) || pages[at] < 0 || int(pages[at]) >= len(d.cache) {
		return refused("position %d is in no page of %v", position, pages)
	}
	d.cache[pages[position/pageTokens]][position%pageTokens] = token
	return nil
}

func (d *fakeDevice) prefill(pieces []piece) error {
	rows := 0
	for _, p := range pieces {
		if len(p.tokens) == 0 {
			return refused("a piece without tokens")
		}
		rows += policy.RowsOf(len(p.tokens))
		for i, token := range p.tokens {
			if err := d.write(p.pages, p.position+i, token); err != nil {
				return err
			}
		}
		d.prefilled += len(p.tokens)
	}
	if rows > d.budgets.PrefillTokens {
		return refused("%d rows, room for %d", rows, d.budgets.PrefillTokens)
	}
	return nil
}

func (d *fakeDevice) copyPage(from, to int32) error {
	d.cache[to] = d.cache[from]
	return nil
}

func (d *fakeDevice) pages(slot, first int, pages []int32) error {
	copy(d.tables[slot][first:], pages)
	return nil
}

func (d *fakeDevice) start(requests []start) error {
	for _, r := range requests {
		if d.slots[r.slot].running || r.remaining < 1 || len(r.stops) > maxStops {
			return refused("slot %d: %+v", r.slot, r)
		}
		d.slots[r.slot] = fakeSlot{start: r, running: true}
	}
	return nil
}

func (d *fakeDevice) stop(slot int) error {
	d.slots[slot].running = false
	// Whatever the slot's table leads to now is another's.
	for i := range d.tables[slot] {
		d.tables[slot][i] = -1
	}
	return nil
}

func (d *fakeDevice) decode(steps int, tokens []int32, logProbs []float32, counts []int32, states []slotState) error {
	for slot := range d.slots {
		s := &d.slots[slot]
		counts[slot], states[slot] = 0, 3
		for range steps {
			if !s.running {
				break
			}
			if err := d.write(d.tables[slot], s.position, s.token); err != nil {
				return fmt.Errorf("slot %d: %w", slot, err)
			}
			sequence := make([]int32, s.position+1)
			for i := range sequence {
				if sequence[i] = d.cache[d.tables[slot][i/pageTokens]][i%pageTokens]; sequence[i] < 0 {
					return refused("slot %d reads position %d, which nobody wrote", slot, i)
				}
			}
			next, logProb := fakeNext(d.config, sequence, s.stream)
			at := slot*steps + int(counts[slot])
			tokens[at], logProbs[at] = next, logProb
			counts[slot]++
			s.token, s.position, s.remaining = next, s.position+1, s.remaining-1
			states[slot] = slotRunning
			switch {
			case slices.Contains(s.stops, next):
				s.running, states[slot] = false, slotStopped
			case s.remaining == 0 || s.position+1 == d.config.MaxPositionEmbeddings:
				s.running, states[slot] = false, slotLength
			}
		}
	}
	return nil
}

func (d *fakeDevice) close() {}

// fakeNext is the token that the fake model puts after a sequence.
func fakeNext(c policy.Config, sequence []int32, stream rng.Stream) (token int32, logProb float32) {
	h := uint64(14695981039346656037)
	for _, id := range sequence {
		h = (h ^ uint64(uint32(id)+1)) * 1099511628211
	}
	h ^= stream.Uint64(uint64(len(sequence)))
	return int32(h % uint64(c.VocabSize)), -float32(h%1000) / 7
}

// fakeAnswer is what one request is to get.
func fakeAnswer(c policy.Config, r policy.Request) policy.Completion {
	out := policy.Completion{FinishReason: policy.FinishLength}
	sequence := slices.Clone(r.Prompt)
	for len(out.TokenIDs) < r.MaxNewTokens && len(sequence) < c.MaxPositionEmbeddings {
		next, logProb := fakeNext(c, sequence, r.Stream)
		sequence = append(sequence, next)
		out.TokenIDs, out.LogProbs = append(out.TokenIDs, next), append(out.LogProbs, logProb)
		if slices.Contains(r.StopTokens, next) || r.Watch != nil && r.Watch(out.TokenIDs) {
			out.FinishReason = policy.FinishStop
			break
		}
	}
	return out
}

// newFakeEngine is an engine on a fake device.
func newFakeEngine(c policy.Config, slots, pages, prefill int) (*Engine, *fakeDevice) {
	b := Budgets{Slots: slots, CachePages: pages, PrefillTokens: prefill}
	d := newFakeDevice(c, b)
	return newEngine(d, shape{config: c}, Plan{Budgets: b}), d
}

// brokenDevice fails at its n-th decode.
type brokenDevice struct {
	*fakeDevice
	decodes int
}

func (d *brokenDevice) decode(steps int, tokens []int32, logProbs []float32, counts []int32, states []slotState) error {
	if d.decodes--; d.decodes < 0 {
		return statusError("decoding", statusDevice, "an illegal address was encountered")
	}
	return d.fakeDevice.decode(steps, tokens, logProbs, counts, states)
}

// nanDevice gives log-probabilities that are not numbers.
type nanDevice struct{ *fakeDevice }

func (d nanDevice) decode(steps int, tokens []int32, logProbs []float32, counts []int32, states []slotState) error {
	err := d.fakeDevice.decode(steps, tokens, logProbs, counts, states)
	for i := range logProbs {
		logProbs[i] = float32(math.NaN())
	}
	return err
}
