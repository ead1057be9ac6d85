package tokenizer

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Train learns a byte-level BPE of vocabSize ids: the 256 bytes, merges, and
// the special tokens last (Sennrich, Haddow and Birch, Neural Machine
// Translation of Rare Words with Subword Units, ACL 2016, Algorithm 1, on
// bytes). Each step merges the most frequent pair; of equals, the one with the
// lowest left id, then the lowest right id. The result depends on the counts
// of words alone, not on the order of the texts. There are fewer ids when no
// pair is left to merge.
func Train(texts []string, vocabSize int, specials []string, roles Roles) (*Tokenizer, error) {
	if vocabSize < 256+len(specials) {
		return nil, exitcode.Usagef("a vocabulary of %d cannot hold 256 bytes and %d special tokens", vocabSize, len(specials))
	}
	t := newOwn(ownSplit{gpt2: true})
	t.learnMerges(newTrainer(texts, splitGPT2), vocabSize-len(specials))
	return t, t.finishOwn(specials, roles)
}

// TrainNumbers is [Train] with the split of Llama 3, whose numbers are cut into
// groups of three digits from the left, and with every group of one, two or
// three digits a token from the start: 256 bytes, 1,100 groups, merges of what
// is no number, and the special tokens last.
func TrainNumbers(texts []string, vocabSize int, specials []string, roles Roles) (*Tokenizer, error) {
	if vocabSize < 256+digitGroups+len(specials) {
		return nil, exitcode.Usagef("a vocabulary of %d cannot hold 256 bytes, %d groups of digits and %d special tokens", vocabSize, digitGroups, len(specials))
	}
	t := newOwn(ownSplit{pattern: patternLlama3})
	t.addDigitGroups()
	trainer := newTrainer(texts, func(c *characters, text string) int {
		// A number's merges are made: each of its bytes stands by itself.
		if '0' <= text[0] && text[0] <= '9' {
			return 1
		}
		return splitters[patternLlama3](c, text)
	})
	t.learnMerges(trainer, vocabSize-len(specials))
	return t, t.finishOwn(specials, roles)
}

// digitGroups is how many groups of two or three digits there are.
const digitGroups = 100 + 1000

// addDigitGroups adds the groups of two digits and then those of three. Which
// two of three digits are merged first depends on their ranks, so that a group
// of three has a rule for both.
func (t *Tokenizer) addDigitGroups() {
	for number := range 100 {
		piece := fmt.Sprintf("%02d", number)
		t.merges = append(t.merges, rule{left: t.tokens[piece[:1]], right: t.tokens[piece[1:]], id: t.addToken(piece)})
	}
	for number := range 1000 {
		piece := fmt.Sprintf("%03d", number)
		id := t.addToken(piece)
		t.merges = append(t.merges, rule{left: t.tokens[piece[:2]], right: t.tokens[piece[2:]], id: id})
		t.merges = append(t.merges, rule{left: t.tokens[piece[:1]], right: t.tokens[piece[1:]], id: id})
	}
}

// learnMerges adds merges until there are size tokens, or no pair is left.
func (t *Tokenizer) learnMerges(trainer *trainer, size int) {
	ruled := map[pair]bool{}
	for len(t.tokens) < size {
		pair, ok := trainer.best()
		if !ok {
			break
		}
		// Two pairs can spell the same token, which then has two rules; and a
		// pair that has its rule can come up again when a later rule makes
		// one of its parts.
		piece := t.pieces[pair.left] + t.pieces[pair.right]
		id, known := t.tokens[piece]
		if !known {
			id = t.addToken(piece)
		}
		if !ruled[pair] {
			ruled[pair] = true
			t.merges = append(t.merges, rule{left: pair.left, right: pair.right, id: id})
		}
		trainer.apply(pair, id)
	}
}

type pair struct{ left, right int32 }

// word is a distinct piece of split text as a list of symbols.
type word struct {
	symbols []int32
	count   int
}

type trainer struct {
	words  []word
	counts map[pair]int
	where  map[pair]map[int]bool // words that have held the pair
	queue  pairQueue             // counts as they were when pushed: stale ones are skipped
}

func newTrainer(texts []string, split splitter) *trainer {
	frequency := map[string]int{}
	characters := unicodeTables()
	for _, text := range texts {
		for text != "" {
			n := split(characters, text)
			frequency[text[:n]]++
			text = text[n:]
		}
	}
	t := &trainer{counts: map[pair]int{}, where: map[pair]map[int]bool{}}
	for i, piece := range slices.Sorted(maps.Keys(frequency)) {
		symbols := make([]int32, len(piece))
		for j := range symbols {
			symbols[j] = int32(piece[j])
		}
		t.words = append(t.words, word{symbols: symbols, count: frequency[piece]})
		t.count(i, +1, nil)
	}
	for p, n := range t.counts {
		t.queue = append(t.queue, queuedPair{pair: p, count: n})
	}
	heap.Init(&t.queue)
	return t
}

// count adds (sign +1) or takes away (-1) the pairs of a word and notes in
// touched which counts changed.
func (t *trainer) count(index, sign int, touched map[pair]bool) {
	w := t.words[index]
	for j := range len(w.symbols) - 1 {
		p := pair{w.symbols[j], w.symbols[j+1]}
		t.counts[p] += sign * w.count
		if touched != nil {
			touched[p] = true
		}
		if sign > 0 {
			if t.where[p] == nil {
				t.where[p] = map[int]bool{}
			}
			t.where[p][index] = true
		}
	}
}

// best takes the pair with the highest count off the queue.
func (t *trainer) best() (pair, bool) {
	for len(t.queue) > 0 {
		top := heap.Pop(&t.queue).(queuedPair)
		if top.count > 0 && t.counts[top.pair] == top.count {
			return top.pair, true
		}
	}
	return pair{}, false
}

// apply replaces the pair by id in every word that holds it, left to right.
func (t *trainer) apply(p pair, id int32) {
	touched := map[pair]bool{}
	for index := range t.where[p] { // any order: words do not share symbols
		t.count(index, -1, touched)
		symbols := t.words[index].symbols
		merged := symbols[:0]
		for j := 0; j < len(symbols); j++ {
			if j+1 < len(symbols) && symbols[j] == p.left && symbols[j+1] == p.right {
				merged = append(merged, id)
				j++
				continue
			}
			merged = append(merged, symbols[j])
		}
		t.words[index].symbols = merged
		t.count(index, +1, touched)
	}
	delete(t.where, p)
	for q := range touched { // any order: the queue's order is total
		if n := t.counts[q]; n > 0 {
			heap.Push(&t.queue, queuedPair{pair: q, count: n})
		} else {
			delete(t.counts, q)
		}
	}
}

type queuedPair struct {
	pair
	count int
}

type pairQueue []queuedPair

func (q pairQueue) Len() int { return len(q) }
func (q pairQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.left, b.left), cmp.Compare(a.right, b.right)) < 0
}
func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pairQueue) Push(x any)   { *q = append(*q, x.(queuedPair)) }
func (q *pairQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
