package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// cacheSlots bounds the cache: with pieces of at most shortPiece bytes it
// holds less than 4 MiB.
const cacheSlots = 1 << 13

// pieceCache remembers how short pieces that are no token of their own were
// encoded. Each piece has one slot, and the last one to be encoded keeps it.
// Entries never change, so that readers need no lock.
type pieceCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cachedPiece]
}

type cachedPiece struct {
	piece string
	ids   []int32
}

func newPieceCache() *pieceCache { return &pieceCache{seed: maphash.MakeSeed()} }

func (c *pieceCache) append(ids []int32, piece string, t *Tokenizer) []int32 {
	slot := &c.slots[maphash.String(c.seed, piece)%cacheSlots]
	if entry := slot.Load(); entry != nil && entry.piece == piece {
		return append(ids, entry.ids...)
	}
	start := len(ids)
	ids = t.appendMerged(ids, piece)
	// The clones let go of the text and of the caller's slice.
	slot.Store(&cachedPiece{piece: strings.Clone(piece), ids: slices.Clone(ids[start:])})
	return ids
}
