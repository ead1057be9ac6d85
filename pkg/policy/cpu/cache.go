package cpu

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/kvcache"
)

const pageTokens = kvcache.Tokens

// page holds, for every layer and key-value head, keys transposed, (d,
// pageTokens), so that scores of neighbouring keys are computed side by side,
// and values (pageTokens, d): (layers, key-value heads, 2, d·pageTokens).
type page = kvcache.Page[[]float32]

type prefix = kvcache.Prefix

// pagesOf is the number of pages of n tokens.
func pagesOf(n int) int { return kvcache.PagesOf(n) }

// pool is the pages of a policy. Several decoders may share it.
type pool struct {
	*kvcache.Pool[[]float32]
	layers, heads, headDim int
}

func newPool(c policy.Config) *pool {
	p := &pool{layers: c.NumHiddenLayers, heads: c.NumKeyValueHeads, headDim: c.HeadDim}
	p.Pool = kvcache.New(0, func(int) []float32 { return make([]float32, p.bytes()/4) })
	return p
}

// bytes is the size of a page.
func (p *pool) bytes() int { return 4 * p.layers * p.heads * 2 * p.headDim * pageTokens }

// at returns keys (d, pageTokens) and values (pageTokens, d) of one layer and
// head.
func (p *pool) at(pg *page, layer, head int) (keys, values []float32) {
	size := p.headDim * pageTokens
	block := pg.Content[(layer*p.heads+head)*2*size:][:2*size]
	return block[:size], block[size:]
}

// put writes one token's key (d) and value (d) of one head at a position.
func (p *pool) put(pages []*page, layer, head, position int, key, value []float32) {
	pg, row := pages[position/pageTokens], position%pageTokens
	k, v := p.at(pg, layer, head)
	for i, x := range key[:p.headDim] {
		k[i*pageTokens+row] = x
	}
	copy(v[row*p.headDim:(row+1)*p.headDim], value)
}
