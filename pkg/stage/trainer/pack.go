package trainer

import (
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// Bundle is sequences in a row that are packed as one piece: each by itself, or
// several responses of a group with one copy of what all begin with.
type Bundle struct {
	Sequences []Sequence
	shared    int // leading tokens of each that are packed once; 0 for a single sequence
}

// Bundles groups sequences, in order. With a limit, those of a group that are
// next to each other share their prompt but for its last token, from which the
// first token of the response is predicted, in pieces of at most limit tokens,
// with the prompt's and each response's rounded up to [policy.RowTokens]. Pieces
// depend on the sequences and the limit alone.
func Bundles(sequences []Sequence, limit int) []Bundle {
	var all []Bundle
	rows := 0 // of the last bundle, once it shares
	for i, s := range sequences {
		if limit > 0 && i > 0 {
			last := &all[len(all)-1]
			if shared := sharedTokens(last.Sequences[0], s); shared > 0 && (last.shared == 0 || last.shared == shared) {
				longer := rows
				if last.shared == 0 {
					longer = policy.RowsOf(shared) + policy.RowsOf(len(last.Sequences[0].TokenIDs)-shared)
				}
				if longer += policy.RowsOf(len(s.TokenIDs) - shared); longer <= limit {
					last.Sequences, last.shared, rows = append(last.Sequences, s), shared, longer
					continue
				}
			}
		}
		all = append(all, Bundle{Sequences: []Sequence{s}})
	}
	return all
}

// lengths are those of the sequences that a bundle is packed as: what is shared,
// and what goes on from it.
func (b Bundle) lengths() []int {
	var lengths []int
	if b.shared > 0 {
		lengths = append(lengths, b.shared)
	}
	for _, s := range b.Sequences {
		lengths = append(lengths, len(s.TokenIDs)-b.shared)
	}
	return lengths
}

// sharedTokens is the number of tokens that two responses to a prompt may
// share: it, without its last token.
func sharedTokens(a, b Sequence) int {
	if a.GroupID != b.GroupID {
		return 0
	}
	shared := 0
	for shared < min(len(a.TokenIDs), len(b.TokenIDs)) && a.TokenIDs[shared] == b.TokenIDs[shared] && !a.LossMask[shared] && !b.LossMask[shared] {
		shared++
	}
	return max(0, shared-1)
}

// tokens is the number that a bundle is packed into.
func (b Bundle) tokens() int {
	n := 0
	for _, tokens := range b.lengths() {
		n += tokens
	}
	return n
}

// MicroBatches cuts bundles, in order, into runs as long as an engine has room
// for, and of at most limit tokens if that is not 0; a larger bundle is a run
// of its own. Where the cuts are changes no bit of any result.
func MicroBatches(bundles []Bundle, limit int, room func(groups [][]int) int) [][]Bundle {
	groups := make([][]int, len(bundles))
	for i, b := range bundles {
		groups[i] = b.lengths()
	}
	var runs [][]Bundle
	for len(bundles) > 0 {
		n, tokens := 0, 0
		for ; n < len(bundles); n++ {
			if tokens += bundles[n].tokens(); n > 0 && limit > 0 && tokens > limit {
				break
			}
		}
		n = room(groups[:n])
		runs = append(runs, bundles[:n])
		bundles, groups = bundles[n:], groups[n:]
	}
	return runs
}

// Packed is a batch and where the sequences are that it was made of.
type Packed struct {
	policy.Batch
	Sequences []Sequence
	Places    []Place // of each sequence
}

// Place is where the tokens of a sequence are, but for the first of them that
// it shares: its token t ≥ shared is token from+t-shared of the batch.
type Place struct{ From, Shared int }

// Pack lays bundles one after the other.
func Pack(bundles []Bundle) Packed {
	p := Packed{Batch: policy.Batch{Offsets: []int32{0}}}
	put := func(s Sequence, from, to, prefix int) {
		p.TokenIDs = append(p.TokenIDs, s.TokenIDs[from:to]...)
		p.Targets = append(p.Targets, s.LossMask[from:to]...)
		p.Offsets = append(p.Offsets, int32(len(p.TokenIDs)))
		p.Prefixes = append(p.Prefixes, int32(prefix))
	}
	sharing := false
	for _, b := range bundles {
		prefix := -1
		if b.shared > 0 {
			prefix, sharing = len(p.Prefixes), true
			put(b.Sequences[0], 0, b.shared, -1)
		}
		for _, s := range b.Sequences {
			p.Sequences = append(p.Sequences, s)
			p.Places = append(p.Places, Place{From: len(p.TokenIDs), Shared: b.shared})
			put(s, b.shared, len(s.TokenIDs), prefix)
		}
	}
	if !sharing {
		p.Prefixes = nil
	}
	return p
}

// WantMasked has an engine compute what it does for learned tokens for those
// between the first and the last of a sequence, too.
func (p Packed) WantMasked() {
	for i, s := range p.Sequences {
		at := p.Places[i]
		first, end := credit.LearnedSpan(s.LossMask)
		for t := first; t < end; t++ {
			p.Targets[at.From+t-at.Shared] = true
		}
	}
}

// Of is what an engine computed for each token of the i-th sequence, and 0 for
// those that it shares, of which nothing is learned.
func (p Packed) Of(i int, values []float32) []float32 {
	at, n := p.Places[i], len(p.Sequences[i].TokenIDs)
	own := make([]float32, n)
	copy(own[at.Shared:], values[at.From:at.From+n-at.Shared])
	return own
}

// Set puts numbers for each token of the i-th sequence into those of the batch.
func (p Packed) Set(i int, dst []float32, values []float64) {
	at := p.Places[i]
	for t, v := range values[at.Shared:] {
		dst[at.From+t] = float32(v)
	}
}
