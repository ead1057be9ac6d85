package cpu

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// pageTokens is the number of tokens whose keys and values share a page.
const pageTokens = 64

// page holds keys and values of up to pageTokens consecutive tokens, for every
// layer and key-value head: keys transposed, (d, pageTokens), so that scores
// of neighbouring keys are computed side by side, and values (pageTokens, d).
// A page that is full is never written to again, and may have many users.
type page struct {
	data  []float32 // (layers, key-value heads, 2, d·pageTokens)
	users int
	keep  bool          // stays in the index without users, as memory allows
	name  prefix        // under which the index has it
	named bool          // whether the index has it
	idle  *list.Element // its place among the idle pages
}

// prefix names the tokens from the start of a sequence to the end of a page.
type prefix [sha256.Size]byte

// then is the prefix that goes on with a page of tokens. What the keys and
// values of a token are depends on the tokens up to it and the weights alone,
// so equal prefixes have equal pages.
func (p prefix) then(tokens []int32) prefix {
	var text [sha256.Size + 4*pageTokens]byte
	copy(text[:], p[:])
	for i, id := range tokens[:pageTokens] {
		binary.LittleEndian.PutUint32(text[sha256.Size+4*i:], uint32(id))
	}
	return sha256.Sum256(text[:])
}

// pool hands out pages of one size, a bounded number. Several decoders may
// share it.
type pool struct {
	layers, heads, headDim int

	sync.Mutex
	limit int     // pages at most
	made  int     // pages in existence
	free  []*page // without users and without worth
	index map[prefix]*page
	idle  *list.List // pages of the index without users, the longest unused first
}

func newPool(c policy.Config) *pool {
	return &pool{
		layers: c.NumHiddenLayers, heads: c.NumKeyValueHeads, headDim: c.HeadDim,
		index: map[prefix]*page{}, idle: list.New(),
	}
}

// bytes is the size of a page.
func (p *pool) bytes() int { return 4 * p.layers * p.heads * 2 * p.headDim * pageTokens }

// setLimit changes the number of pages. None may be in use.
func (p *pool) setLimit(pages int) {
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

// forget empties the index: the weights have changed.
func (p *pool) forget() {
	p.Lock()
	defer p.Unlock()
	for p.idle.Len() > 0 {
		p.evict()
	}
}

// evict frees the page that has been idle for longest.
func (p *pool) evict() {
	pg := p.idle.Remove(p.idle.Front()).(*page)
	pg.idle = nil
	p.unname(pg)
	p.free = append(p.free, pg)
}

func (p *pool) unname(pg *page) {
	if pg.named {
		delete(p.index, pg.name)
		pg.named, pg.keep = false, false
	}
}

// available is the number of pages that get would return before it returns
// none.
func (p *pool) available() int {
	p.Lock()
	defer p.Unlock()
	return p.limit - p.made + len(p.free) + p.idle.Len()
}

// get returns a page with undefined content and one user, or nil when all
// pages are in use.
func (p *pool) get() *page {
	p.Lock()
	defer p.Unlock()
	if len(p.free) == 0 {
		switch {
		case p.made < p.limit:
			p.made++
			return &page{data: make([]float32, p.bytes()/4), users: 1}
		case p.idle.Len() == 0:
			return nil
		}
		p.evict()
	}
	last := len(p.free) - 1
	got := p.free[last]
	p.free = p.free[:last]
	got.users = 1
	return got
}

// release takes away one user of each page. Pages that nobody uses any more
// are idle if one of their users wanted them kept, otherwise free.
func (p *pool) release(pages []*page, keep bool) {
	p.Lock()
	defer p.Unlock()
	// The last pages go first, since they are of no use without those before.
	for i := len(pages) - 1; i >= 0; i-- {
		pg := pages[i]
		pg.users--
		pg.keep = pg.keep || keep
		switch {
		case pg.users > 0:
		case pg.named && pg.keep:
			pg.idle = p.idle.PushBack(pg)
		default:
			p.unname(pg)
			pg.keep = false
			p.free = append(p.free, pg)
		}
	}
}

// use adds a user to each page.
func (p *pool) use(pages []*page) {
	p.Lock()
	defer p.Unlock()
	for _, pg := range pages {
		pg.users++
	}
}

// find returns the page that ends a prefix, with one more user, or nil.
func (p *pool) find(name prefix) *page {
	p.Lock()
	defer p.Unlock()
	pg := p.index[name]
	if pg == nil {
		return nil
	}
	if pg.idle != nil {
		p.idle.Remove(pg.idle)
		pg.idle = nil
	}
	pg.users++
	return pg
}

// call enters a full page into the index, unless a page of the same content
// is there.
func (p *pool) call(pg *page, name prefix) {
	p.Lock()
	defer p.Unlock()
	if p.index[name] == nil {
		p.index[name] = pg
		pg.name, pg.named = name, true
	}
}

// at returns keys and values of one layer and head.
func (p *pool) at(pg *page, layer, head int) (keys, values []float32) {
	size := p.headDim * pageTokens
	block := pg.data[(layer*p.heads+head)*2*size:][:2*size]
	return block[:size], block[size:]
}

// put writes one token's key and value of one head at a position.
func (p *pool) put(pages []*page, layer, head, position int, key, value []float32) {
	pg, row := pages[position/pageTokens], position%pageTokens
	k, v := p.at(pg, layer, head)
	for i, x := range key[:p.headDim] {
		k[i*pageTokens+row] = x
	}
	copy(v[row*p.headDim:(row+1)*p.headDim], value)
}

// pagesOf is the number of pages of n tokens.
func pagesOf(n int) int { return (n + pageTokens - 1) / pageTokens }
