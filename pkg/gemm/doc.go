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
