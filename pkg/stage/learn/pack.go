package learn

import (
	"github.com/lathe-rl/lathe/pkg/policy"
)

// bundle is sequences in a row that are packed as one piece: each by itself, or
// several responses of a group with one copy of what all begin with.
type bundle struct {
	sequences []sequence
	shared    int // leading tokens of each that are packed once; 0 for a single sequence
}

// bundles groups sequences, in order. With a limit, those of a group that are
// next to each other share their prompt but for its last token, from which the
// first token of the response is predicted, in pieces of at most limit tokens,
// with the prompt's and each response's rounded up to [policy.RowTokens]. Pieces
// depend on the sequences and the limit alone.
func bundles(sequences []sequence, limit int) []bundle {
	var all []bundle
	rows := 0 // of the last bundle, once it shares
	for i, s := range sequences {
		if limit > 0 && i > 0 {
			last := &all[len(all)-1]
			if shared := sharedTokens(last.sequences[0], s); shared > 0 && (last.shared == 0 || last.shared == shared) {
				longer := rows
				if last.shared == 0 {
					longer = policy.RowsOf(shared) + policy.RowsOf(len(last.sequences[0].TokenIDs)-shared)
				}
				if longer += policy.RowsOf(len(s.TokenIDs) - shared); longer <= limit {
					last.sequences, last.shared, rows = append(last.sequences, s), shared, longer
					continue
				}
			}
		}
		all = append(all, bundle{sequences: []sequence{s}})
	}
	return all
}

// lengths are those of the sequences that a bundle is packed as: what is shared,
// and what goes on from it.
func (b bundle) lengths() []int {
	var lengths []int
	if b.shared > 0 {
		lengths = append(lengths, b.shared)
	}
	for _, s := range b.sequences {
		lengths = append(lengths, len(s.TokenIDs)-b.shared)
	}
	return lengths
}

// sharedTokens is the number of tokens that two responses to a prompt may
// share: it, without its last token.
func sharedTokens(a, b sequence) int {
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
func (b bundle) tokens() int {
	n := 0
	for _, tokens := range b.lengths() {
		n += tokens
	}
	return n
}

// microBatches cuts bundles, in order, into runs as long as an engine has room
// for, and of at most limit tokens if that is not 0; a larger bundle is a run
// of its own. Where the cuts are changes no bit of any result.
func microBatches(bundles []bundle, limit int, room func(families [][]int) int) [][]bundle {
	families := make([][]int, len(bundles))
	for i, b := range bundles {
		families[i] = b.lengths()
	}
	var runs [][]bundle
	for len(bundles) > 0 {
		n, tokens := 0, 0
		for ; n < len(bundles); n++ {
			if tokens += bundles[n].tokens(); n > 0 && limit > 0 && tokens > limit {
				break
			}
		}
		n = room(families[:n])
		runs = append(runs, bundles[:n])
		bundles, families = bundles[n:], families[n:]
	}
	return runs
}

// packed is a batch and where the sequences are that it was made of.
type packed struct {
	policy.Batch
	sequences []sequence
	places    []place // of each sequence
}

// place is where the tokens of a sequence are, but for the first of them that
// it shares: its token t ≥ shared is token from+t-shared of the batch.
type place struct{ from, shared int }

// pack lays bundles one after the other.
func pack(bundles []bundle) packed {
	p := packed{Batch: policy.Batch{Offsets: []int32{0}}}
	put := func(s sequence, from, to, trunk int) {
		p.TokenIDs = append(p.TokenIDs, s.TokenIDs[from:to]...)
		p.Targets = append(p.Targets, s.LossMask[from:to]...)
		p.Offsets = append(p.Offsets, int32(len(p.TokenIDs)))
		p.Trunks = append(p.Trunks, int32(trunk))
	}
	sharing := false
	for _, b := range bundles {
		trunk := -1
		if b.shared > 0 {
			trunk, sharing = len(p.Trunks), true
			put(b.sequences[0], 0, b.shared, -1)
		}
		for _, s := range b.sequences {
			p.sequences = append(p.sequences, s)
			p.places = append(p.places, place{from: len(p.TokenIDs), shared: b.shared})
			put(s, b.shared, len(s.TokenIDs), trunk)
		}
	}
	if !sharing {
		p.Trunks = nil
	}
	return p
}

// of is what an engine computed for each token of the i-th sequence, and 0 for
// those that it shares, of which nothing is learned.
func (p packed) of(i int, values []float32) []float32 {
	at, n := p.places[i], len(p.sequences[i].TokenIDs)
	own := make([]float32, n)
	copy(own[at.shared:], values[at.from:at.from+n-at.shared])
	return own
}

// set puts numbers for each token of the i-th sequence into those of the batch.
func (p packed) set(i int, dst []float32, values []float64) {
	at := p.places[i]
	for t, v := range values[at.shared:] {
		dst[at.from+t] = float32(v)
	}
}
