// Package kvcache hands out the pages of a paged cache of keys and values
// (Kwon et al., Efficient Memory Management for Large Language Model Serving
// with PagedAttention, SOSP 2023, section 4.1; a page is a block there): which
// are free, which are in use and by how many sequences, and which hold a prefix
// that another sequence may share. What a page is to a backend is the
// backend's own.
package kvcache

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// Tokens is the number of tokens whose keys and values share a page.
const Tokens = 64

// Page holds keys and values of up to Tokens consecutive tokens of a sequence,
// in all layers. A page that is full is never written to again, and may have
// many users.
type Page[T any] struct {
	Content T // where a backend has them

	refs    int           // sequences that use it
	keep    bool          // stays in the index without users, as memory allows
	prefix  Prefix        // under which the index has it
	indexed bool          // whether the index has it
	idle    *list.Element // its place among the idle pages
}

// Prefix names the tokens from the start of a sequence to the end of a page.
type Prefix [sha256.Size]byte

// Extend is the prefix with one more page of tokens. What the keys and
// values of a token are depends on the tokens up to it and the weights alone,
// so equal prefixes have equal pages.
func (p Prefix) Extend(tokens []int32) Prefix {
	var text [sha256.Size + 4*Tokens]byte
	copy(text[:], p[:])
	for i, id := range tokens[:Tokens] {
		binary.LittleEndian.PutUint32(text[sha256.Size+4*i:], uint32(id))
	}
	return sha256.Sum256(text[:])
}

// Pool hands out pages of one size, a bounded number. Several goroutines may
// share it.
type Pool[T any] struct {
	content func(number int) T // of a new page; numbers count up from 0

	sync.Mutex
	limit int        // pages at most
	made  int        // pages in existence
	free  []*Page[T] // without users and without worth
	index map[Prefix]*Page[T]
	idle  *list.List // pages of the index without users, the longest unused first
}

// New makes a pool of so many pages at most, whose content is made when they
// are used for the first time.
func New[T any](limit int, content func(number int) T) *Pool[T] {
	return &Pool[T]{content: content, limit: limit, index: map[Prefix]*Page[T]{}, idle: list.New()}
}

// SetLimit changes the number of pages. None may be in use.
func (p *Pool[T]) SetLimit(pages int) {
	p.Lock()
	defer p.Unlock()
	p.limit = pages
	for p.made > p.limit {
		if len(p.free) == 0 {
			p.evict()
		}
		p.free = p.free[:len(p.free)-1]
		p.made--
	}
}

// Clear empties the index: the weights have changed.
func (p *Pool[T]) Clear() {
	p.Lock()
	defer p.Unlock()
	for p.idle.Len() > 0 {
		p.evict()
	}
}

// evict frees the page that has been idle for longest.
func (p *Pool[T]) evict() {
	pg := p.idle.Remove(p.idle.Front()).(*Page[T])
	pg.idle = nil
	p.unindex(pg)
	p.free = append(p.free, pg)
}

func (p *Pool[T]) unindex(pg *Page[T]) {
	if pg.indexed {
		delete(p.index, pg.prefix)
		pg.indexed, pg.keep = false, false
	}
}

// Available is the number of pages that Get would return before it returns
// none.
func (p *Pool[T]) Available() int {
	p.Lock()
	defer p.Unlock()
	return p.limit - p.made + len(p.free) + p.idle.Len()
}

// Get returns a page with undefined content and one user, or nil when all
// pages are in use.
func (p *Pool[T]) Get() *Page[T] {
	p.Lock()
	defer p.Unlock()
	if len(p.free) == 0 {
		switch {
		case p.made < p.limit:
			p.made++
			return &Page[T]{Content: p.content(p.made - 1), refs: 1}
		case p.idle.Len() == 0:
			return nil
		}
		p.evict()
	}
	last := len(p.free) - 1
	got := p.free[last]
	p.free = p.free[:last]
	got.refs = 1
	return got
}

// Release takes away one user of each page. Pages that nobody uses any more
// are idle if one of their users wanted them kept, otherwise free.
func (p *Pool[T]) Release(pages []*Page[T], keep bool) {
	p.Lock()
	defer p.Unlock()
	// The last pages go first, since they are of no use without those before.
	for i := len(pages) - 1; i >= 0; i-- {
		pg := pages[i]
		pg.refs--
		pg.keep = pg.keep || keep
		switch {
		case pg.refs > 0:
		case pg.indexed && pg.keep:
			pg.idle = p.idle.PushBack(pg)
		default:
			p.unindex(pg)
			pg.keep = false
			p.free = append(p.free, pg)
		}
	}
}

// Retain adds a user to each page.
func (p *Pool[T]) Retain(pages []*Page[T]) {
	p.Lock()
	defer p.Unlock()
	for _, pg := range pages {
		pg.refs++
	}
}

// Lookup returns the page that ends a prefix, with one more user, or nil.
func (p *Pool[T]) Lookup(prefix Prefix) *Page[T] {
	p.Lock()
	defer p.Unlock()
	pg := p.index[prefix]
	if pg == nil {
		return nil
	}
	if pg.idle != nil {
		p.idle.Remove(pg.idle)
		pg.idle = nil
	}
	pg.refs++
	return pg
}

// Insert enters a full page into the index as the end of a prefix, unless one
// is there.
func (p *Pool[T]) Insert(pg *Page[T], prefix Prefix) {
	p.Lock()
	defer p.Unlock()
	if p.index[prefix] == nil {
		p.index[prefix] = pg
		pg.prefix, pg.indexed = prefix, true
	}
}

// CheckUnused reports pages that are still in use, or lost, for tests of those
// who should have released all of them.
func (p *Pool[T]) CheckUnused() error {
	p.Lock()
	defer p.Unlock()
	var faults []error
	if got := len(p.free) + p.idle.Len(); got != p.made || p.made > p.limit {
		faults = append(faults, fmt.Errorf("%d pages of %d are free or idle; %d are allowed", got, p.made, p.limit))
	}
	if len(p.index) != p.idle.Len() {
		faults = append(faults, fmt.Errorf("%d pages in the index, %d idle", len(p.index), p.idle.Len()))
	}
	for _, pg := range p.free {
		if pg.refs != 0 || pg.indexed || pg.keep || pg.idle != nil {
			faults = append(faults, fmt.Errorf("a free page has %d users, is indexed: %v, kept: %v", pg.refs, pg.indexed, pg.keep))
		}
	}
	for prefix, pg := range p.index {
		if pg.refs != 0 || pg.prefix != prefix || pg.idle == nil {
			faults = append(faults, fmt.Errorf("an idle page has %d users", pg.refs))
		}
	}
	return errors.Join(faults...)
}

// PagesOf is the number of pages of n tokens.
func PagesOf(n int) int { return (n + Tokens - 1) / Tokens }
