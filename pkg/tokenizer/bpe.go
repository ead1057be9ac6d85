package tokenizer

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"unicode/utf8"
)

// rule merges two adjacent tokens into one. The rules are applied by rank,
// which is their place in the list: the lowest first.
type rule struct{ left, right, id int32 }

// noMerge is the rank of a pair that no rule merges.
const noMerge = math.MaxInt32

// pairTable finds the rule of a pair: an open-addressed table, at most half
// full, hashed with a seed of this process so that no file can be made to
// collide.
type pairTable struct {
	seed  [2]uint64
	shift int
	slots []pairSlot
}

// pairSlot is empty when its rank is negative.
type pairSlot struct{ left, right, rank, id int32 }

func newPairTable(rules []rule) pairTable {
	width := bits.Len(uint(len(rules))) + 1
	t := pairTable{
		seed:  [2]uint64{rand.Uint64(), rand.Uint64() | 1},
		shift: 64 - width,
		slots: make([]pairSlot, 1<<width),
	}
	for i := range t.slots {
		t.slots[i].rank = -1
	}
	for rank, r := range rules {
		i := t.home(r.left, r.right)
		for t.slots[i].rank >= 0 {
			i = (i + 1) & (len(t.slots) - 1)
		}
		t.slots[i] = pairSlot{left: r.left, right: r.right, rank: int32(rank), id: r.id}
	}
	return t
}

func (t *pairTable) home(left, right int32) int {
	key := uint64(uint32(left))<<32 | uint64(uint32(right))
	high, low := bits.Mul64(key^t.seed[0], t.seed[1])
	return int((high ^ low) * 0x9e3779b97f4a7c15 >> t.shift)
}

// find returns the rank and the result of a pair's rule, or noMerge.
func (t *pairTable) find(left, right int32) (rank, id int32) {
	for i := t.home(left, right); ; i = (i + 1) & (len(t.slots) - 1) {
		switch s := &t.slots[i]; {
		case s.rank < 0:
			return noMerge, -1
		case s.left == left && s.right == right:
			return s.rank, s.id
		}
	}
}

// appendPiece encodes one piece of split text: a token that stands for the
// whole piece, or what the merges make of its characters.
func (t *Tokenizer) appendPiece(ids []int32, piece string) []int32 {
	if len(piece) == 1 && t.complete {
		return append(ids, t.byteID[piece[0]])
	}
	if id, ok := t.whole[piece]; ok {
		return append(ids, id)
	}
	if len(piece) > shortPiece {
		return t.appendMerged(ids, piece)
	}
	return t.cache.append(ids, piece, t)
}

// shortPiece is the number of symbols up to which searching all pairs for the
// lowest rank beats a heap, and of bytes up to which pieces are remembered.
const shortPiece = 64

// appendMerged starts from single characters and applies the merge of lowest
// rank, the leftmost of equals, until none applies.
func (t *Tokenizer) appendMerged(ids []int32, piece string) []int32 {
	if len(piece) <= shortPiece {
		var buffer [shortPiece]int32 // a byte may have more tokens to fall back on
		if symbols := t.appendSymbols(buffer[:0], piece); len(symbols) <= shortPiece {
			return t.appendShort(ids, symbols)
		}
	}
	m := longMerges.Get().(*longMerge)
	defer longMerges.Put(m)
	m.start = t.appendSymbols(m.start[:0], piece)
	return t.appendLong(ids, m)
}

// appendSymbols appends the tokens of single characters. Where one has none,
// its bytes may have; else it becomes the token for what is unknown, which the
// peer puts before the next character that is known.
func (t *Tokenizer) appendSymbols(symbols []int32, piece string) []int32 {
	if t.complete {
		for i := range len(piece) {
			symbols = append(symbols, t.byteID[piece[i]])
		}
		return symbols
	}
	pending := false
	for piece != "" {
		id, size := t.symbol(piece)
		character := piece[:size]
		piece = piece[size:]
		if id >= 0 {
			if pending {
				symbols, pending = append(symbols, t.unknown), false
			}
			symbols = append(symbols, id)
			continue
		}
		if t.bytes {
			character = string(byteRunes[character[0]])
		}
		before := len(symbols)
		if symbols = t.appendFallback(symbols, character); len(symbols) > before {
			continue
		}
		if t.unknown < 0 {
			continue
		}
		if pending && !t.fuseUnknown {
			symbols = append(symbols, t.unknown)
		}
		pending = true
	}
	if pending {
		symbols = append(symbols, t.unknown)
	}
	return symbols
}

// symbol returns the token of a text's first character, or -1, and the size of
// the character. A byte that is not UTF-8 is a character without a token.
func (t *Tokenizer) symbol(text string) (id int32, size int) {
	if t.bytes {
		return t.byteID[text[0]], 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if id, ok := t.runeID[r]; ok && (r != utf8.RuneError || size > 1) {
		return id, size
	}
	return -1, size
}

// appendFallback appends the tokens of a character's bytes, if all have one.
func (t *Tokenizer) appendFallback(symbols []int32, character string) []int32 {
	start := len(symbols)
	for i := range len(character) {
		id := t.fallback[character[i]]
		if id < 0 {
			return symbols[:start]
		}
		symbols = append(symbols, id)
	}
	return symbols
}

// appendShort merges up to shortPiece symbols.
func (t *Tokenizer) appendShort(ids, symbols []int32) []int32 {
	var (
		ranks, merged [shortPiece]int32 // ranks and results of each symbol with the next
		n             = len(symbols)
	)
	for i := range max(0, n-1) {
		ranks[i], merged[i] = t.pairs.find(symbols[i], symbols[i+1])
	}
	for n > 1 {
		at, lowest := 0, int32(noMerge)
		for i, rank := range ranks[:n-1] {
			if rank < lowest {
				at, lowest = i, rank
			}
		}
		if lowest == noMerge {
			break
		}
		symbols[at] = merged[at]
		n--
		copy(symbols[at+1:n], symbols[at+2:n+1])
		copy(ranks[at+1:n], ranks[at+2:n+1])
		copy(merged[at+1:n], merged[at+2:n+1])
		if at > 0 {
			ranks[at-1], merged[at-1] = t.pairs.find(symbols[at-1], symbols[at])
		}
		if at < n-1 {
			ranks[at], merged[at] = t.pairs.find(symbols[at], symbols[at+1])
		}
	}
	return append(ids, symbols[:n]...)
}

// symbol is one node of the list that a long piece is kept in. Previous and
// next are indices or negative; rank and merged are those of the rule that
// merges it with the next, noMerge if there is none or it has been swallowed.
type symbol struct{ id, previous, next, rank, merged int32 }

// longMerge is what appendLong works in: the symbols and a heap of the merges
// that apply. An entry of the heap is a rank and, below it, an index, so that
// the least is the leftmost of the lowest rank. It is stale when the symbol
// there has another rank by now.
type longMerge struct {
	start   []int32 // the tokens of single characters
	symbols []symbol
	heap    []uint64
}

var longMerges = sync.Pool{New: func() any { return new(longMerge) }}

// appendLong is O(n log n) for n symbols, n < 2^31.
func (t *Tokenizer) appendLong(ids []int32, m *longMerge) []int32 {
	n := len(m.start)
	if n > math.MaxInt32 {
		panic("tokenizer: a single word of 2 GiB")
	}
	if n == 0 {
		return ids
	}
	m.symbols, m.heap = slices.Grow(m.symbols[:0], n), slices.Grow(m.heap[:0], n)
	for i, id := range m.start {
		m.symbols = append(m.symbols, symbol{id: id, previous: int32(i - 1), next: int32(i + 1)})
	}
	m.symbols[n-1].next = -1
	for i := range int32(n) {
		m.consider(t, i)
	}
	for i := len(m.heap) / heapWidth; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		entry := m.pop()
		at := int32(uint32(entry))
		left := &m.symbols[at]
		if left.rank != int32(entry>>32) {
			continue
		}
		right := &m.symbols[left.next]
		left.id, left.next = left.merged, right.next
		right.rank = noMerge
		if left.next >= 0 {
			m.symbols[left.next].previous = at
		}
		if m.consider(t, at) {
			m.up(len(m.heap) - 1)
		}
		if left.previous >= 0 && m.consider(t, left.previous) {
			m.up(len(m.heap) - 1)
		}
	}
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		ids = append(ids, m.symbols[i].id)
	}
	return ids
}

// consider looks up the rule that merges a symbol with the next and, if there
// is one, puts it at the end of the heap's slice.
func (m *longMerge) consider(t *Tokenizer, at int32) bool {
	s := &m.symbols[at]
	s.rank = noMerge
	if s.next >= 0 {
		s.rank, s.merged = t.pairs.find(s.id, m.symbols[s.next].id)
	}
	if s.rank == noMerge {
		return false
	}
	m.heap = append(m.heap, uint64(s.rank)<<32|uint64(at))
	return true
}

// heapWidth is the number of children of an entry: four share a cache line.
const heapWidth = 4

func (m *longMerge) pop() uint64 {
	top := m.heap[0]
	last := len(m.heap) - 1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	m.down(0)
	return top
}

func (m *longMerge) up(i int) {
	entry := m.heap[i]
	for i > 0 {
		parent := (i - 1) / heapWidth
		if m.heap[parent] <= entry {
			break
		}
		m.heap[i] = m.heap[parent]
		i = parent
	}
	m.heap[i] = entry
}

func (m *longMerge) down(i int) {
	if i >= len(m.heap) {
		return
	}
	entry := m.heap[i]
	for {
		child := heapWidth*i + 1
		if child >= len(m.heap) {
			break
		}
		least := child
		for c := child + 1; c < min(child+heapWidth, len(m.heap)); c++ {
			if m.heap[c] < m.heap[least] {
				least = c
			}
		}
		if entry <= m.heap[least] {
			break
		}
		m.heap[i] = m.heap[least]
		i = least
	}
	m.heap[i] = entry
}
