package cpu

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// queryBlock is the number of queries whose scores are held at a time. It
// changes no bit: every score is a chain over the head's width, every output a
// chain over keys in ascending order to which masked keys add exact zeros.
const queryBlock = 64

// scoreScale is what scores are multiplied by before the softmax.
func scoreScale(headDim int) float32 { return float32(1 / math.Sqrt(float64(headDim))) }

// attend computes a layer's causal attention, each sequence by itself: for
// head a and query i
//
//	mixed(i) = Σ_j exp(s_ij·scale - shift_i) v_j / sum_i,  j ≤ i,
//
// with s_ij = q_i·k_j and shift_i = scale·max_j s_ij. Query head a reads
// key-value head a / (heads / key-value heads).
func (p *pass) attend(l *layerActivations) {
	c := p.e.config
	heads, shared := c.NumKeyValueHeads, c.NumAttentionHeads/c.NumKeyValueHeads
	items := (len(p.offsets) - 1) * heads
	parallel(p.threads, items, 1, func(worker, from, to int) {
		for item := from; item < to; item++ {
			s, head := item/heads, item%heads
			start, end := int(p.offsets[s]), int(p.offsets[s+1])
			if start == end {
				continue
			}
			for a := head * shared; a < (head+1)*shared; a++ {
				p.attendHead(l, &p.workers[worker], start, end, a, head)
			}
		}
	})
}

// head returns the columns of one query head and its key-value head in the
// rows from start: slices of l.qkv whose rows are q+2kv apart.
func (p *pass) head(qkv []float32, start, a, kvHead int) (query, key, value []float32, stride int) {
	c := p.e.config
	stride = wide(c)
	rows := qkv[start*stride:]
	keys := c.QueryWidth() + kvHead*c.HeadDim
	return rows[a*c.HeadDim:], rows[keys:], rows[keys+c.KeyValueWidth():], stride
}

func (p *pass) attendHead(l *layerActivations, scratch *workerScratch, start, end, a, kvHead int) {
	c := p.e.config
	d, width := c.HeadDim, c.QueryWidth()
	query, key, value, stride := p.head(l.qkv, start, a, kvHead)
	for first := 0; first < end-start; first += queryBlock {
		rows := min(queryBlock, end-start-first)
		keys := first + rows
		scratch.scores = grow(scratch.scores, rows*keys)
		scores := scratch.scores
		gemm.NT(scores, keys, query[first*stride:], stride, key, stride, rows, keys, d, false, 1)
		for i := range rows {
			token := start + first + i
			shift, sum := softmaxRow(scores[i*keys:(i+1)*keys], first+i+1, scoreScale(d))
			l.shift[token*c.NumAttentionHeads+a], l.sum[token*c.NumAttentionHeads+a] = shift, sum
		}
		mixed := l.mixed[(start+first)*width+a*d:]
		gemm.NN(mixed, width, scores, keys, value, stride, rows, d, keys, false, 1)
		for i := range rows {
			row := mixed[i*width : i*width+d]
			vec.Scale(row, 1/l.sum[(start+first+i)*c.NumAttentionHeads+a], row)
		}
	}
}

// softmaxRow turns the first n scores of a row into exponentials and the rest
// into zeros.
func softmaxRow(row []float32, n int, scale float32) (shift, sum float32) {
	shift = scale * vec.Max(row[:n])
	sum = vec.ExpShiftSum(row[:n], row[:n], scale, shift)
	clear(row[n:])
	return shift, sum
}

// attendGrad takes the gradient of attention's output, dMixed (N, q), to that
// of queries, keys and values after rotary embedding, dQKV (N, q+2kv).
func (p *pass) attendGrad(l *layerActivations, dQKV, dMixed []float32) {
	c := p.e.config
	heads, shared := c.NumKeyValueHeads, c.NumAttentionHeads/c.NumKeyValueHeads
	stride := wide(c)
	items := (len(p.offsets) - 1) * heads
	parallel(p.threads, items, 1, func(worker, from, to int) {
		for item := from; item < to; item++ {
			s, head := item/heads, item%heads
			start, end := int(p.offsets[s]), int(p.offsets[s+1])
			if start == end {
				continue
			}
			keys := c.QueryWidth() + head*c.HeadDim
			for i := start; i < end; i++ {
				clear(dQKV[i*stride+keys:][:c.HeadDim])
				clear(dQKV[i*stride+keys+c.KeyValueWidth():][:c.HeadDim])
			}
			for a := head * shared; a < (head+1)*shared; a++ {
				p.attendHeadGrad(l, &p.workers[worker], dQKV, dMixed, start, end, a, head)
			}
		}
	})
}

// attendHeadGrad recomputes the exponentials e_ij of attendHead. With
// g_i = dMixed_i / sum_i and D_i = g_i·mixed_i it computes
//
//	dV_j += Σ_i e_ij g_i,   dS_ij = e_ij (g_i·v_j - D_i) scale,
//	dQ_i  = Σ_j dS_ij k_j,  dK_j += Σ_i dS_ij q_i
//
// with sums over queries in ascending order.
func (p *pass) attendHeadGrad(l *layerActivations, scratch *workerScratch, dQKV, dMixed []float32, start, end, a, kvHead int) {
	c := p.e.config
	d, width, heads := c.HeadDim, c.QueryWidth(), c.NumAttentionHeads
	scale := scoreScale(d)
	query, key, value, stride := p.head(l.qkv, start, a, kvHead)
	dQuery, dKey, dValue, _ := p.head(dQKV, start, a, kvHead)
	scratch.output = grow(scratch.output, queryBlock*d)
	for first := 0; first < end-start; first += queryBlock {
		rows := min(queryBlock, end-start-first)
		keys := first + rows
		scratch.scores = grow(scratch.scores, rows*keys)
		scratch.grads = grow(scratch.grads, rows*keys)
		scores, grads, output := scratch.scores, scratch.grads, scratch.output
		gemm.NT(scores, keys, query[first*stride:], stride, key, stride, rows, keys, d, false, 1)
		for i := range rows {
			token, row := start+first+i, scores[i*keys:(i+1)*keys]
			n := first + i + 1
			vec.ExpShiftSum(row[:n], row[:n], scale, l.shift[token*heads+a])
			clear(row[n:])
			vec.Scale(output[i*d:(i+1)*d], 1/l.sum[token*heads+a], dMixed[token*width+a*d:token*width+(a+1)*d])
		}
		gemm.TN(dValue, stride, scores, keys, output, d, keys, d, rows, true, 1)
		gemm.NT(grads, keys, output, d, value, stride, rows, keys, d, false, 1)
		for i := range rows {
			token, row := start+first+i, grads[i*keys:(i+1)*keys]
			n := first + i + 1
			sum := vec.Dot(output[i*d:(i+1)*d], l.mixed[token*width+a*d:token*width+(a+1)*d])
			vec.SoftmaxGrad(row[:n], scores[i*keys:i*keys+n], row[:n], sum, scale)
			clear(row[n:])
		}
		gemm.NN(dQuery[first*stride:], stride, grads, keys, key, stride, rows, d, keys, false, 1)
		gemm.TN(dKey, stride, grads, keys, query[first*stride:], stride, keys, d, rows, true, 1)
	}
}
