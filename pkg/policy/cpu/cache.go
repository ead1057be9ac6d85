package cpu

// pageTokens is the number of tokens whose keys and values share a page.
const pageTokens = 64

// page holds keys and values of up to pageTokens consecutive tokens, for every
// layer and key-value head: keys transposed, (d, pageTokens), so that scores
// of neighbouring keys are computed side by side, and values (pageTokens, d).
// Pages of a prompt are shared by the responses to it.
type page struct {
	data  []float32 // (layers, key-value heads, 2, d·pageTokens)
	users int
}

// pool hands out pages of one size.
type pool struct {
	layers, heads, headDim int
	free                   []*page
}

// bytes is the size of a page.
func (p *pool) bytes() int { return 4 * p.layers * p.heads * 2 * p.headDim * pageTokens }

// get returns a page with undefined content and one user.
func (p *pool) get() *page {
	if last := len(p.free) - 1; last >= 0 {
		got := p.free[last]
		p.free = p.free[:last]
		got.users = 1
		return got
	}
	return &page{data: make([]float32, p.bytes()/4), users: 1}
}

// release takes away one user of each page.
func (p *pool) release(pages []*page) {
	for _, used := range pages {
		used.users--
		if used.users == 0 {
			p.free = append(p.free, used)
		}
	}
}

// share returns the pages of n tokens for one more user. A last page that is
// not full is copied, since its users will write to it.
func (p *pool) share(pages []*page, n int) []*page {
	shared := make([]*page, len(pages), len(pages)+2)
	copy(shared, pages)
	for i, used := range pages {
		if (i+1)*pageTokens > n {
			shared[i] = p.get()
			copy(shared[i].data, used.data)
			continue
		}
		used.users++
	}
	return shared
}

// at returns keys and values of one layer and head.
func (p *pool) at(pg *page, layer, head int) (keys, values []float32) {
	size := p.headDim * pageTokens
	block := pg.data[(layer*p.heads+head)*2*size:][:2*size]
	return block[:size], block[size:]
}

// put writes one token's keys and values, (heads, d) each, at a position.
func (p *pool) put(pages []*page, layer, position int, keys, values []float32) {
	pg, row := pages[position/pageTokens], position%pageTokens
	for head := range p.heads {
		k, v := p.at(pg, layer, head)
		for i, x := range keys[head*p.headDim : (head+1)*p.headDim] {
			k[i*pageTokens+row] = x
		}
		copy(v[row*p.headDim:(row+1)*p.headDim], values[head*p.headDim:])
	}
}
