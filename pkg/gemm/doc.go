// Package gemm multiplies float32 matrices for the CPU engine. Packed weights
// may be stored in bfloat16.
//
// All matrices are row-major. A leading dimension (lda, ldb, ldc) is the number
// of elements from the start of one row to the start of the next, so an operand
// may be a slice of the columns of a wider matrix.
//
// # Same bytes everywhere
//
// Every element of a result is one chain of fused multiply-adds over the inner
// index k in ascending order,
//
//	c ← FMA(a[k], b[k], c),   k = 0, 1, 2, ...
//
// that starts from 0, or from the element's present value if accumulate is set.
// Blocking stores and reloads the chain between two values of k, which changes
// nothing; tiles and threads only partition the elements. So the bits of an
// element depend on its row of A, its column of B and its start value alone:
// not on the number of rows in the batch, the position in it, the number of
// threads, or the instruction set (AVX-512, AVX2 with FMA or pure Go, see
// package vec). To add a bias, fill C with it and accumulate.
//
// # Products in bfloat16
//
// With a weight in the format [BFloat16Pairs], and in [TNPairs], both operands are
// rounded to bfloat16 (nearest, ties to even), and sums in float32 have the order of
// AMX's TDPBF16PS. The inner index goes in blocks of 32, the last filled up with zeros.
// Of a block, the even and the odd indices are a chain of fused multiply-adds from zero
// each; their sum is added to the element:
//
//	e ← FMA(a[k], b[k], e), o ← FMA(a[k+1], b[k+1], o),   k = k₀, k₀+2, ..., k₀+30
//	c ← c + (e + o)
//
// Subnormal operands and results are zeros of their sign throughout. Again the bits of
// an element depend on its row of A, its column of B and its start value alone. But a
// product whose inner index is divided in two calls has the same bits only where it is
// divided between blocks. AMX computes them where it is there, see [MatrixUnits].
//
// The payload of a NaN is not part of the contract.
//
// # Memory and threads
//
// With threads ≤ 1 a product runs on the calling goroutine. Otherwise it is
// divided among goroutines that end with the call; small products stay on one.
//
// The functions allocate nothing once their pooled workspaces exist, and may be
// called from many goroutines at once. C must not overlap A or B.
package gemm
