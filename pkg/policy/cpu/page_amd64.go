//go:build !noasm

package cpu

import "github.com/lathe-rl/lathe/pkg/vec"

// scorePageAVX512 sets at least n ≤ 64 scores of each of two queries, in steps
// of 32: dst[j] is the chain of fused multiply-adds of q[i] and keys[64·i + j]
// over i < d, from zero. d must not be zero. The two queries may be the same.
//
//go:noescape
func scorePageAVX512(dst0, dst1, q0, q1, keys *float32, d, n int)

// mixPageAVX512 continues the chains dst[c] over p[j] and values[stride·j + c]
// for j < n, for each of two rows and the columns c < 64 whose bit is set in
// the mask. n must not be zero. The two rows may be the same.
//
//go:noescape
func mixPageAVX512(dst0, dst1, p0, p1, values *float32, stride, n int, mask uint64)

// scorePageAVX2 is scorePageAVX512 in 256-bit registers.
//
//go:noescape
func scorePageAVX2(dst0, dst1, q0, q1, keys *float32, d, n int)

// mixPageAVX2 is mixPageAVX512 for 32 columns, without a mask.
//
//go:noescape
func mixPageAVX2(dst0, dst1, p0, p1, values *float32, stride, n int)

// scoreRows sets scores[a·stride + j], j < n, for the queries q[a·d:(a+1)·d], a
// < rows, and the first n keys of a page (d, 64); it may write to all 64 of
// each row. It reports whether there is a kernel for it.
func scoreRows(scores []float32, stride int, q []float32, rows, d int, keys []float32, n int) bool {
	kernel := scorePageAVX512
	switch vec.Active() {
	case vec.AVX512:
	case vec.AVX2:
		kernel = scorePageAVX2
	default:
		return false
	}
	_, _, _ = scores[(rows-1)*stride+pageTokens-1], q[rows*d-1], keys[d*pageTokens-1]
	for a := 0; a < rows; a += 2 {
		b := min(a+1, rows-1)
		kernel(&scores[a*stride], &scores[b*stride], &q[a*d], &q[b*d], &keys[0], d, n)
	}
	return true
}

// mixRows adds to out[a·d:(a+1)·d], a < rows, the first n values of a page (64,
// d) weighted by scores[a·stride:]. It reports whether there is a kernel for
// it.
func mixRows(out, scores []float32, stride, rows, d int, values []float32, n int) bool {
	level := vec.Active()
	if level == vec.Go || level == vec.AVX2 && d%32 != 0 {
		return false
	}
	_, _, _ = scores[(rows-1)*stride+n-1], out[rows*d-1], values[n*d-1]
	for a := 0; a < rows; a += 2 {
		b := min(a+1, rows-1)
		if level == vec.AVX2 {
			for column := 0; column < d; column += 32 {
				mixPageAVX2(&out[a*d+column], &out[b*d+column], &scores[a*stride], &scores[b*stride], &values[column], d, n)
			}
			continue
		}
		for column := 0; column < d; column += 64 {
			mask := ^uint64(0) >> (64 - min(64, d-column))
			mixPageAVX512(&out[a*d+column], &out[b*d+column], &scores[a*stride], &scores[b*stride], &values[column], d, n, mask)
		}
	}
	return true
}
