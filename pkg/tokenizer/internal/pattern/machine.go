package pattern

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// machine matches one pattern in one text.
type machine struct {
	pattern *Pattern
	text    string
	tracks  []*track // of the main program, and of the inner ones behind it
}

// track is what is known of a program's states (an alternative at a place of
// the text). A state that has failed once fails always.
type track struct {
	failed []uint64
	ends   []int32  // of an inner part, by state: one more than where its match ends
	open   []uint64 // states of the search that goes on, by their number
	stack  []choice
}

// choice is where to go on when what was tried first has failed. All states
// opened since have then failed for good.
type choice struct {
	pc   uint32
	at   int
	open int
}

func (m *machine) reset(p *Pattern, text string) {
	m.pattern, m.text = p, text
	for len(m.tracks) <= len(p.inner) {
		m.tracks = append(m.tracks, &track{})
	}
	m.tracks[0].reset(p.main.count*(len(text)+1), 0)
	for i := range p.inner {
		states := p.inner[i].program.count * (len(text) + 1)
		m.tracks[i+1].reset(states, states)
	}
}

// reset forgets everything. The main program's matches do not overlap, so that
// it need not remember where they end.
func (t *track) reset(states, ends int) {
	words := (states + 63) / 64
	t.failed = slices.Grow(t.failed[:0], words)[:words]
	clear(t.failed)
	t.ends = slices.Grow(t.ends[:0], ends)[:ends]
	clear(t.ends)
}

// find returns the first match that begins at a place or behind it, or -1.
func (m *machine) find(at int) (from, to int) {
	for at <= len(m.text) {
		if at < len(m.text) {
			if b := m.text[at]; b < utf8.RuneSelf && !m.pattern.starts[b] {
				at++
				continue
			}
		}
		if to := m.match(m.pattern.main, m.tracks[0], at); to >= 0 {
			return at, to
		}
		_, size := utf8.DecodeRuneInString(m.text[at:])
		at += max(1, size)
	}
	return -1, -1
}

// match returns where the match that begins at a place ends, or -1.
func (m *machine) match(p *program, t *track, at int) int {
	t.open, t.stack = t.open[:0], append(t.stack[:0], choice{pc: uint32(p.Start), at: at})
	for len(t.stack) > 0 {
		next := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.open = t.open[:next.open]
		if end := m.run(p, t, next.pc, next.at); end >= 0 {
			// What was opened on the way here has not failed.
			for _, state := range t.open {
				t.failed[state/64] &^= 1 << (state % 64)
				if len(t.ends) > 0 {
					t.ends[state] = int32(end) + 1
				}
			}
			return end
		}
	}
	return -1
}

// run follows one way through a program until it matches or fails.
func (m *machine) run(p *program, t *track, pc uint32, at int) int {
	for {
		inst := &p.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			state := uint64(p.branches[pc])*uint64(len(m.text)+1) + uint64(at)
			if t.failed[state/64]>>(state%64)&1 != 0 {
				return -1
			}
			if len(t.ends) > 0 && t.ends[state] > 0 {
				return int(t.ends[state]) - 1
			}
			t.failed[state/64] |= 1 << (state % 64)
			t.open = append(t.open, state)
			t.stack = append(t.stack, choice{pc: inst.Arg, at: at, open: len(t.open)})
		case syntax.InstCapture, syntax.InstNop:
		case syntax.InstMatch:
			return at
		case syntax.InstFail:
			return -1
		case syntax.InstEmptyWidth:
			if !m.holds(syntax.EmptyOp(inst.Arg), at) {
				return -1
			}
		default:
			if part := m.pattern.innerAt(inst); part != nil {
				end := m.match(part.program, m.tracks[1+inst.Rune[0]-firstInner], at)
				if (end >= 0) == part.negated {
					return -1
				}
				if !part.ahead {
					at = end
				}
				break
			}
			if at == len(m.text) {
				return -1
			}
			if b := m.text[at]; b < utf8.RuneSelf {
				if p.ascii[pc][b/64]>>(b%64)&1 == 0 {
					return -1
				}
				at++
				break
			}
			r, size := utf8.DecodeRuneInString(m.text[at:])
			if !matches(inst, r) {
				return -1
			}
			at += size
		}
		pc = inst.Out
	}
}

// holds reports whether a condition that takes no text holds at a place.
func (m *machine) holds(op syntax.EmptyOp, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(m.text[:at])
	after, _ := utf8.DecodeRuneInString(m.text[at:])
	first, last := at == 0, at == len(m.text)
	boundary := (!first && inRanges(m.pattern.word, before)) != (!last && inRanges(m.pattern.word, after))
	switch op {
	case syntax.EmptyBeginLine:
		return first || before == '\n' && !last
	case syntax.EmptyEndLine:
		return last || after == '\n'
	case syntax.EmptyBeginText:
		return first
	case syntax.EmptyEndText:
		return last
	case syntax.EmptyWordBoundary:
		return boundary
	}
	return !boundary
}

func inRanges(ranges []rune, r rune) bool {
	i, found := slices.BinarySearch(ranges, r)
	return found || i%2 == 1
}
