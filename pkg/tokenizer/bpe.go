package tokenizer

import "container/heap"

// appendMerged encodes one piece of split text: it starts from single bytes
// and applies the merge of lowest rank, the leftmost of equals, until none
// applies. A linked list of symbols and a heap of candidate merges keep it at
// O(n log n) for long runs.
func (t *Tokenizer) appendMerged(ids []int32, piece string) []int32 {
	if len(piece) == 1 {
		return append(ids, t.byteID[piece[0]])
	}
	symbols := make([]symbol, len(piece))
	for i := range symbols {
		symbols[i] = symbol{id: t.byteID[piece[i]], previous: i - 1, next: i + 1}
	}
	symbols[len(symbols)-1].next = -1
	queue := make(candidates, 0, len(piece))
	for i := range len(symbols) - 1 {
		if m, ok := t.merges[pairKey(symbols[i].id, symbols[i+1].id)]; ok {
			queue = append(queue, candidate{merge: m, at: i, left: symbols[i].id, right: symbols[i+1].id})
		}
	}
	heap.Init(&queue)
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		left := &symbols[c.at]
		// A symbol that another merge has changed or swallowed no longer fits.
		if left.id != c.left || left.next < 0 || symbols[left.next].id != c.right {
			continue
		}
		right := &symbols[left.next]
		left.id = c.id
		left.next = right.next
		right.id = -1
		if left.next >= 0 {
			symbols[left.next].previous = c.at
		}
		if left.previous >= 0 {
			queue.consider(t, symbols, left.previous)
		}
		if left.next >= 0 {
			queue.consider(t, symbols, c.at)
		}
	}
	for i := 0; i >= 0; i = symbols[i].next {
		ids = append(ids, symbols[i].id)
	}
	return ids
}

// symbol is one node of the list; previous and next are indices or negative.
type symbol struct {
	id             int32 // negative once swallowed by its left neighbour
	previous, next int
}

// candidate is a merge of the symbol at an index with its right neighbour.
type candidate struct {
	merge
	at          int
	left, right int32
}

type candidates []candidate

func (q *candidates) consider(t *Tokenizer, symbols []symbol, at int) {
	left, right := symbols[at].id, symbols[symbols[at].next].id
	if m, ok := t.merges[pairKey(left, right)]; ok {
		heap.Push(q, candidate{merge: m, at: at, left: left, right: right})
	}
}

func (q candidates) Len() int { return len(q) }
func (q candidates) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].at < q[j].at
}
func (q candidates) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *candidates) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *candidates) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
