package cpu

import (
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// queryBlock is the number of queries whose scores are held at a time. It
// changes no bit: every score is a chain over the head's width, every output a
// chain over keys in ascending order to which masked keys add exact zeros.
const queryBlock = 64

// products are those of package gemm, in float32 or in pairs of bfloat16 values.
type products struct {
	pairs      bool
	nt, nn, tn func(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, accumulate bool, threads int)
}

func newProducts(pairs bool) products {
	if pairs {
		return products{true, gemm.NTPairs, gemm.NNPairs, gemm.TNPairs}
	}
	return products{false, gemm.NT, gemm.NN, gemm.TN}
}

// scoring is what a layer makes of scores before the softmax.
type scoring struct {
	scale  float32
	cap    float32 // 0 for none
	window int     // keys that a query sees, its own the last; 0 for all
}

func (e *Engine) scoring(layer int) scoring {
	return scoring{e.config.ScoreScale(), float32(e.config.AttentionCap), e.config.Layer(layer).Window}
}

// first is the first key that the last of so many keys' queries sees.
func (s scoring) first(keys int) int {
	if s.window == 0 {
		return 0
	}
	return max(0, keys-s.window)
}

// soften caps scores, and returns what they are still to be multiplied by.
func (s scoring) soften(scores []float32) (scale float32) {
	if s.cap == 0 {
		return s.scale
	}
	vec.SoftCap(scores, scores, s.scale, s.cap)
	return 1
}

// softmax turns those of the first n scores of a row that the query sees into
// exponentials, and the others into zeros.
func (s scoring) softmax(row []float32, n int) (shift, sum float32) {
	first := s.first(n)
	seen := row[first:n]
	scale := s.soften(seen)
	shift = scale * vec.Max(seen)
	sum = vec.ExpShiftSum(seen, seen, scale, shift)
	clear(row[:first])
	clear(row[n:])
	return shift, sum
}

// attend computes a layer's causal attention, each sequence by itself and with
// the keys and values of its shared prefix before its own: for head a and query i
//
//	mixed(i) = Σ_j exp(s_ij·scale - shift_i) v_j / sum_i,  i-window < j ≤ i,
//
// with s_ij = q_i·k_j and shift_i = scale·max_j s_ij. With a cap, s_ij·scale is
// cap·tanh(q_i·k_j·scale/cap). Query head a reads
// key-value head a / (heads / key-value heads).
//
// The last block asks what is wanted alone, and what is between.
func (p *pass) attend(index int) {
	c, l, scoring := p.e.config, &p.layers[index], p.e.scoring(index)
	heads, shared := c.NumKeyValueHeads, c.NumAttentionHeads/c.NumKeyValueHeads
	items := (len(p.offsets) - 1) * heads
	parallel(p.threads, items, 1, func(worker, from, to int) {
		for item := from; item < to; item++ {
			s, head := item/heads, item%heads
			for a := head * shared; a < (head+1)*shared; a++ {
				p.attendHead(l, &p.workers[worker], s, p.queries(index, s), a, head, scoring)
			}
		}
	})
}

// extent is where the tokens of sequence s start, and where those of its shared prefix,
// of which there are before.
func (p *pass) extent(s int) (start, prefixStart, before int) {
	start = int(p.offsets[s])
	if prefix := p.prefixes[s]; prefix >= 0 {
		prefixStart = int(p.offsets[prefix])
		before = int(p.offsets[prefix+1]) - prefixStart
	}
	return start, prefixStart, before
}

// queries are the tokens of sequence s, numbered in it, that ask in a layer.
func (p *pass) queries(index, s int) span {
	if p.wantedOf(index) != nil {
		return p.spans[s]
	}
	return span{0, int(p.offsets[s+1] - p.offsets[s])}
}

// head returns the columns of one query head and its key-value head in the rows
// from start: slices of qkv (N, q+2kv), whose rows are stride apart.
func (p *pass) head(qkv []float32, start, a, kvHead int) (query, key, value []float32, stride int) {
	c := p.e.config
	stride = wide(c)
	rows := qkv[start*stride:]
	keys := c.QueryWidth() + kvHead*c.HeadDim
	return rows[a*c.HeadDim:], rows[keys:], rows[keys+c.KeyValueWidth():], stride
}

func (p *pass) attendHead(l *layerActivations, scratch *workerScratch, s int, queries span, a, kvHead int, scoring scoring) {
	c := p.e.config
	d, width := c.HeadDim, c.QueryWidth()
	start, prefixStart, before := p.extent(s)
	if queries.from == queries.to {
		return
	}
	query, key, value, stride := p.head(l.qkv, start, a, kvHead)
	_, prefixKey, prefixValue, _ := p.head(l.qkv, prefixStart, a, kvHead)
	for first := queries.from; first < queries.to; first += queryBlock {
		rows := min(queryBlock, queries.to-first)
		own := first + rows
		keys := before + own
		scratch.scores = grow(scratch.scores, rows*keys)
		scores := scratch.scores
		p.against(scores, keys, query[first*stride:], stride, rows, prefixKey, before, key, own)
		for i := range rows {
			token := start + first + i
			shift, sum := scoring.softmax(scores[i*keys:(i+1)*keys], before+first+i+1)
			l.shift[token*c.NumAttentionHeads+a], l.sum[token*c.NumAttentionHeads+a] = shift, sum
		}
		mixed := l.mixed[(start+first)*width+a*d:]
		p.weigh(mixed, width, scores, keys, rows, prefixValue, before, value, own, scratch)
		for i := range rows {
			row := mixed[i*width : i*width+d]
			vec.Scale(row, 1/l.sum[(start+first+i)*c.NumAttentionHeads+a], row)
		}
	}
}

// against sets out_ij to y_i·x_j for i < rows, with the vectors x_j of [pass.weigh]. Rows
// are ldo, ldy and those of qkv apart.
func (p *pass) against(out []float32, ldo int, y []float32, ldy, rows int, prefix []float32, before int, x []float32, own int) {
	d, stride := p.e.config.HeadDim, wide(p.e.config)
	if before > 0 {
		p.e.nt(out, ldo, y, ldy, prefix, stride, rows, before, d, false, 1)
	}
	p.e.nt(out[before:], ldo, y, ldy, x, stride, rows, own, d, false, 1)
}

// weigh sets out_i to Σ_j weights_ij x_j for i < rows, where the vectors x_j (d) of keys
// or values are those before, of a shared prefix, and then own ones. Rows are ldo, ldw and those
// of qkv apart. In bfloat16 the sums go by blocks of keys from the first of the shared prefix on,
// and the block in which that ends is put together.
func (p *pass) weigh(out []float32, ldo int, weights []float32, ldw, rows int, prefix []float32, before int, x []float32, own int, scratch *workerScratch) {
	d, stride, nn := p.e.config.HeadDim, wide(p.e.config), p.e.nn
	if !p.e.pairs && before+own > p.e.stretchKeys {
		p.weighStretches(out, ldo, weights, ldw, rows, prefix, before, x, own, scratch)
		return
	}
	whole := before
	if p.e.pairs {
		whole -= before % gemm.PairBlock
	}
	if whole > 0 {
		nn(out, ldo, weights, ldw, prefix, stride, rows, d, whole, false, 1)
	}
	taken := 0 // of own
	if rest := before - whole; rest > 0 {
		taken = min(own, gemm.PairBlock-rest)
		scratch.block = grow(scratch.block, gemm.PairBlock*d)
		for j := range rest {
			copy(scratch.block[j*d:(j+1)*d], prefix[(whole+j)*stride:])
		}
		for j := range taken {
			copy(scratch.block[(rest+j)*d:(rest+j+1)*d], x[j*stride:])
		}
		nn(out, ldo, weights[whole:], ldw, scratch.block, d, rows, d, rest+taken, whole > 0, 1)
	}
	if taken < own {
		nn(out, ldo, weights[before+taken:], ldw, x[taken*stride:], stride, rows, d, own-taken, before > 0, 1)
	}
}

// weighStretches is weigh in float32 with more than one stretch: the sum of each, from
// the first key of a sequence on, and then the sum of these in their order.
func (p *pass) weighStretches(out []float32, ldo int, weights []float32, ldw, rows int, prefix []float32, before int, x []float32, own int, scratch *workerScratch) {
	d, stride, stretchKeys := p.e.config.HeadDim, wide(p.e.config), p.e.stretchKeys
	scratch.stretch = grow(scratch.stretch, rows*d)
	for first := 0; first < before+own; first += stretchKeys {
		to, dst, ld := min(first+stretchKeys, before+own), scratch.stretch, d
		if first == 0 {
			dst, ld = out, ldo
		}
		if first < before {
			p.e.nn(dst, ld, weights[first:], ldw, prefix[first*stride:], stride, rows, d, min(to, before)-first, false, 1)
		}
		if at := max(first, before); at < to {
			p.e.nn(dst, ld, weights[at:], ldw, x[(at-before)*stride:], stride, rows, d, to-at, at > first, 1)
		}
		if first > 0 {
			addStretch(out, ldo, dst, rows, d)
		}
	}
}

// addStretch adds the rows of a stretch's sums (rows, d) to those of out, which are ldo
// apart.
func addStretch(out []float32, ldo int, sums []float32, rows, d int) {
	for i := range rows {
		row := out[i*ldo : i*ldo+d]
		vec.Add(row, row, sums[i*d:(i+1)*d])
	}
}

// attendGrad takes the gradient of attention's output, dMixed (N, q), to that
// of queries, keys and values after rotary embedding, dQKV (N, q+2kv).
func (p *pass) attendGrad(index int, dQKV, dMixed []float32) {
	c, l, scoring := p.e.config, &p.layers[index], p.e.scoring(index)
	heads, shared := c.NumKeyValueHeads, c.NumAttentionHeads/c.NumKeyValueHeads
	stride := wide(c)
	// A shared prefix's keys are read by all that go on from it, so one goroutine takes
	// them all, in their order.
	items := (len(p.roots) - 1) * heads
	parallel(p.threads, items, 1, func(worker, from, to int) {
		for item := from; item < to; item++ {
			root, head := item/heads, item%heads
			first, last := int(p.roots[root]), int(p.roots[root+1])
			queries, keys := head*shared*c.HeadDim, c.QueryWidth()+head*c.HeadDim
			for i := int(p.offsets[first]); i < int(p.offsets[last]); i++ {
				clear(dQKV[i*stride+queries:][:shared*c.HeadDim])
				clear(dQKV[i*stride+keys:][:c.HeadDim])
				clear(dQKV[i*stride+keys+c.KeyValueWidth():][:c.HeadDim])
			}
			for s := first; s < last; s++ {
				for a := head * shared; a < (head+1)*shared; a++ {
					p.attendHeadGrad(l, &p.workers[worker], dQKV, dMixed, s, p.queries(index, s), a, head, scoring)
				}
			}
		}
	})
}

// attendHeadGrad adds to dQKV (N, q+2kv), given dMixed (N, q). It recomputes
// the exponentials e_ij of attendHead. With g_i = dMixed_i / sum_i and D_i =
// g_i·mixed_i it computes
//
//	dV_j += Σ_i e_ij g_i,   dS_ij = e_ij (g_i·v_j - D_i) scale,
//	dQ_i  = Σ_j dS_ij k_j,  dK_j += Σ_i dS_ij q_i
//
// and with a cap, of which y_ij is the capped score, dS_ij (1 - (y_ij/cap)²), with
// sums over queries in ascending order, those of a shared prefix first and then
// those of what goes on from it, in turn.
func (p *pass) attendHeadGrad(l *layerActivations, scratch *workerScratch, dQKV, dMixed []float32, s int, queries span, a, kvHead int, scoring scoring) {
	c := p.e.config
	d, width, heads := c.HeadDim, c.QueryWidth(), c.NumAttentionHeads
	start, prefixStart, before := p.extent(s)
	if queries.from == queries.to {
		return
	}
	query, key, value, stride := p.head(l.qkv, start, a, kvHead)
	dQuery, dKey, dValue, _ := p.head(dQKV, start, a, kvHead)
	_, prefixKey, prefixValue, _ := p.head(l.qkv, prefixStart, a, kvHead)
	_, dPrefixKey, dPrefixValue, _ := p.head(dQKV, prefixStart, a, kvHead)
	scratch.output = grow(scratch.output, queryBlock*d)
	for first := queries.from; first < queries.to; first += queryBlock {
		rows := min(queryBlock, queries.to-first)
		own := first + rows
		keys := before + own
		scratch.scores = grow(scratch.scores, rows*keys)
		scratch.grads = grow(scratch.grads, rows*keys)
		scores, grads, output := scratch.scores, scratch.grads, scratch.output
		if scoring.cap != 0 {
			scratch.capped = grow(scratch.capped, rows*keys)
		}
		capped := scratch.capped
		p.against(scores, keys, query[first*stride:], stride, rows, prefixKey, before, key, own)
		for i := range rows {
			token, row := start+first+i, scores[i*keys:(i+1)*keys]
			n := before + first + i + 1
			from := scoring.first(n)
			scale := scoring.soften(row[from:n])
			if scoring.cap != 0 {
				copy(capped[i*keys+from:], row[from:n])
			}
			vec.ExpShiftSum(row[from:n], row[from:n], scale, l.shift[token*heads+a])
			clear(row[:from])
			clear(row[n:])
			vec.Scale(output[i*d:(i+1)*d], 1/l.sum[token*heads+a], dMixed[token*width+a*d:token*width+(a+1)*d])
		}
		if before > 0 {
			p.e.tn(dPrefixValue, stride, scores, keys, output, d, before, d, rows, true, 1)
		}
		p.e.tn(dValue, stride, scores[before:], keys, output, d, own, d, rows, true, 1)
		p.against(grads, keys, output, d, rows, prefixValue, before, value, own)
		for i := range rows {
			token, row := start+first+i, grads[i*keys:(i+1)*keys]
			n := before + first + i + 1
			sum := vec.Dot(output[i*d:(i+1)*d], l.mixed[token*width+a*d:token*width+(a+1)*d])
			from := scoring.first(n)
			seen, weights := row[from:n], scores[i*keys+from:i*keys+n]
			if scoring.cap == 0 {
				vec.SoftmaxGrad(seen, weights, seen, sum, scoring.scale)
			} else {
				vec.SoftmaxGrad(seen, weights, seen, sum, 1)
				vec.SoftCapGrad(seen, seen, capped[i*keys+from:i*keys+n], scoring.scale, scoring.cap)
			}
			clear(row[:from])
			clear(row[n:])
		}
		if before > 0 {
			p.e.tn(dPrefixKey, stride, grads, keys, query[first*stride:], stride, before, d, rows, true, 1)
		}
		p.weigh(dQuery[first*stride:], stride, grads, keys, rows, prefixKey, before, key, own, scratch)
		p.e.tn(dKey, stride, grads[before:], keys, query[first*stride:], stride, own, d, rows, true, 1)
	}
}
