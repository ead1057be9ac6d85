package cpu

import (
	"unsafe"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/kvcache"
)

const pageTokens = kvcache.Tokens

// page holds, for every layer and key-value head, keys transposed, (d,
// pageTokens), so that scores of neighbouring keys are computed side by side,
// and values (pageTokens, d): (layers, key-value heads, 2, d·pageTokens). In
// pairs both are rounded to bfloat16, as products read them.
type page = kvcache.Page[[]float32]

type (
	prefix = kvcache.Prefix
	prompt = kvcache.Prompt[[]float32]
)

// pagesOf is the number of pages of n tokens.
func pagesOf(n int) int { return kvcache.PagesOf(n) }

// pool is the pages of a policy. Several decoders may share it.
type pool struct {
	*kvcache.Pool[[]float32]
	layers, heads, headDim int
	pairs                  bool
	each                   int // float32 values that keys or values of a layer and head take
}

func newPool(c policy.Config, pairs bool) *pool {
	p := &pool{layers: c.NumHiddenLayers, heads: c.NumKeyValueHeads, headDim: c.HeadDim, pairs: pairs, each: c.HeadDim * pageTokens}
	if pairs {
		p.each = max(gemm.PairsSize(pageTokens, c.HeadDim), gemm.PairsSize(c.HeadDim, pageTokens)) / 2
	}
	p.Pool = kvcache.New(0, func(int) []float32 { return make([]float32, p.bytes()/4) })
	return p
}

// bytes is the size of a page.
func (p *pool) bytes() int { return 4 * p.layers * p.heads * 2 * p.each }

// at returns keys (d, pageTokens) and values (pageTokens, d) of one layer and
// head.
func (p *pool) at(pg *page, layer, head int) (keys, values []float32) {
	block := pg.Content[(layer*p.heads+head)*2*p.each:][:2*p.each]
	return block[:p.each], block[p.each:]
}

// halves is memory of float32 values as one of bfloat16 values.
func halves(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// put writes one token's key (d) and value (d) of one head at a position. Tokens of a
// page come one after the other.
func (p *pool) put(pages []*page, layer, head, position int, key, value []float32) {
	pg, row := pages[position/pageTokens], position%pageTokens
	k, v := p.at(pg, layer, head)
	if p.pairs {
		var packed gemm.Packed
		packed.View(halves(k), pageTokens, p.headDim, p.headDim)
		packed.SetColumn(row, key[:p.headDim])
		packed.View(halves(v), p.headDim, pageTokens, pageTokens)
		if row%gemm.PairBlock == 0 { // what another sequence has left there
			packed.ClearBlock(row)
		}
		packed.SetRow(row, value[:p.headDim])
		return
	}
	for i, x := range key[:p.headDim] {
		k[i*pageTokens+row] = x
	}
	copy(v[row*p.headDim:(row+1)*p.headDim], value)
}

// score sets scores[i·stride + j] to q_i·k_j for the queries i < rows, which are ldq
// apart, and the first n keys j of a page. What it sets the page's other scores to
// means nothing.
func (p *pool) score(scores []float32, stride int, q []float32, ldq, rows int, pg *page, layer, head, n int, packed *gemm.Packed) {
	k, _ := p.at(pg, layer, head)
	if p.pairs {
		packed.View(halves(k), pageTokens, p.headDim, p.headDim)
		gemm.MulPacked(scores, stride, q, ldq, rows, packed, false, 1)
		return
	}
	if ldq != p.headDim || !scoreRows(scores, stride, q, rows, p.headDim, k, n) {
		gemm.NN(scores, stride, q, ldq, k, pageTokens, rows, n, p.headDim, false, 1)
	}
}

// mix adds the first n values of a page, weighted by scores[i·stride:], to out_i for
// i < rows, which are ldo apart.
func (p *pool) mix(out []float32, ldo int, scores []float32, stride, rows int, pg *page, layer, head, n int, packed *gemm.Packed) {
	_, v := p.at(pg, layer, head)
	if p.pairs {
		packed.View(halves(v), p.headDim, n, pageTokens)
		gemm.MulPacked(out, ldo, scores, stride, rows, packed, true, 1)
		return
	}
	if ldo != p.headDim || !mixRows(out, scores, stride, rows, p.headDim, v, n) {
		gemm.NN(out, ldo, scores, stride, v, p.headDim, rows, p.headDim, n, true, 1)
	}
}
