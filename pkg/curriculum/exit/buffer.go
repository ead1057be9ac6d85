package exit

import (
	"container/heap"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// buffer is the entries while an iteration is folded in. What is replaced is
// marked, so that an index stays the age of an entry, and left out at the end.
type buffer struct {
	capacity int
	entries  []shard.Entry // oldest first
	gone     []bool        // replaced, by entry
	held     int           // entries that are not gone
	lowest   *lowest       // nil until something is to be replaced
}

// newBuffer copies entries, with room for some more.
func newBuffer(entries []shard.Entry, capacity, more int) (*buffer, error) {
	for i := range entries {
		if math.IsNaN(entries[i].Potential) { // which has no place in an order
			return nil, exitcode.Dataf("entry %q has the score NaN", entries[i].EntryID)
		}
	}
	n := len(entries)
	return &buffer{
		capacity: capacity, entries: append(make([]shard.Entry, 0, n+more), entries...), gone: make([]bool, n, n+more), held: n,
	}, nil
}

// find returns the positions of those of the named entries that are there; of
// two with one name the older is meant.
func (b *buffer) find(ids map[string]bool) map[string]int {
	at := make(map[string]int, len(ids))
	for i := range b.entries {
		if id := b.entries[i].EntryID; ids[id] {
			if _, known := at[id]; !known {
				at[id] = i
			}
		}
	}
	return at
}

// visit records that a group was selected from an entry. One that has been replaced
// since is not brought back.
func (b *buffer) visit(i, iteration int) {
	b.entries[i].Visits++
	b.entries[i].LastSampled = int32(iteration)
}

// setScore gives an entry a new score.
func (b *buffer) setScore(i int, score float64) {
	b.entries[i].Potential = score
	if b.lowest != nil {
		heap.Push(b.lowest, candidate{score, i})
	}
}

// insert adds an entry, and returns its position, or -1. In a full buffer it
// replaces the oldest of the entries with the lowest score, when its own score
// is at least that (ExIt §4.1).
func (b *buffer) insert(entry shard.Entry) int {
	if b.held >= b.capacity {
		i := b.oldestLowest()
		if entry.Potential < b.entries[i].Potential {
			return -1
		}
		b.gone[i] = true
		b.held--
	}
	b.entries, b.gone = append(b.entries, entry), append(b.gone, false)
	b.held++
	i := len(b.entries) - 1
	if b.lowest != nil {
		heap.Push(b.lowest, candidate{entry.Potential, i})
	}
	return i
}

// oldestLowest is the position of the oldest of the entries with the lowest
// score.
func (b *buffer) oldestLowest() int {
	if b.lowest == nil {
		candidates := make(lowest, 0, cap(b.entries))
		for i := range b.entries {
			candidates = append(candidates, candidate{b.entries[i].Potential, i}) // nothing is gone yet
		}
		b.lowest = &candidates
		heap.Init(b.lowest)
	}
	for {
		// A candidate that was replaced, or has another score by now, is stale:
		// it stays until it comes to the top.
		top := (*b.lowest)[0]
		if !b.gone[top.entry] && b.entries[top.entry].Potential == top.score {
			return top.entry
		}
		heap.Pop(b.lowest)
	}
}

// left lists the entries that are not gone.
func (b *buffer) left() []shard.Entry {
	first := slices.Index(b.gone, true)
	if first < 0 {
		return b.entries
	}
	left := b.entries[:first]
	for i := first; i < len(b.entries); i++ {
		if !b.gone[i] {
			left = append(left, b.entries[i])
		}
	}
	return left
}

// candidate is an entry that may be replaced, with the score that it had.
type candidate struct {
	score float64
	entry int
}

// lowest is a heap of candidates: the lowest score first, and the oldest among
// equals.
type lowest []candidate

func (l lowest) Len() int { return len(l) }

func (l lowest) Less(i, j int) bool {
	return l[i].score < l[j].score || l[i].score == l[j].score && l[i].entry < l[j].entry
}

func (l lowest) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push appends, for package heap.
func (l *lowest) Push(c any) { *l = append(*l, c.(candidate)) }

// Pop takes the last candidate, for package heap.
func (l *lowest) Pop() any {
	last := len(*l) - 1
	c := (*l)[last]
	*l = (*l)[:last]
	return c
}
