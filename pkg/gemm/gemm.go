package gemm

// Panic messages. They are constants so that a caller's test can name them.
const (
	badDimension = "gemm: negative dimension"
	badStrideA   = "gemm: leading dimension of A is too small"
	badStrideB   = "gemm: leading dimension of B is too small"
	badStrideC   = "gemm: leading dimension of C is too small"
	shortA       = "gemm: A is too short"
	shortB       = "gemm: B is too short"
	shortC       = "gemm: C is too short"
)

// NT computes C = A·Bᵀ, or C += A·Bᵀ if accumulate is set, with A of shape
// (m, k), B of shape (n, k) and C of shape (m, n). At most threads goroutines
// work on it.
func NT(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, accumulate bool, threads int) {
	run(product{c: c, ldc: ldc, a: a, lda: lda, b: b, ldb: ldb, bTransposed: true, m: m, n: n, k: k, accumulate: accumulate}, threads)
}

// NTPairs is NT with A and B rounded to bfloat16 and sums in pairs, as in products with
// a [Packed] in the format [BFloat16Pairs].
func NTPairs(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, accumulate bool, threads int) {
	run(product{c: c, ldc: ldc, a: a, lda: lda, b: b, ldb: ldb, bTransposed: true, m: m, n: n, k: k, accumulate: accumulate, pairs: true}, threads)
}

// NN computes C = A·B, or C += A·B if accumulate is set, with A of shape
// (m, k), B of shape (k, n) and C of shape (m, n). At most threads goroutines
// work on it.
func NN(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, accumulate bool, threads int) {
	run(product{c: c, ldc: ldc, a: a, lda: lda, b: b, ldb: ldb, m: m, n: n, k: k, accumulate: accumulate}, threads)
}

// NNPairs is to NN what [NTPairs] is to NT.
func NNPairs(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, accumulate bool, threads int) {
	run(product{c: c, ldc: ldc, a: a, lda: lda, b: b, ldb: ldb, m: m, n: n, k: k, accumulate: accumulate, pairs: true}, threads)
}

// TN computes C = Aᵀ·B, or C += Aᵀ·B if accumulate is set, with A of shape
// (k, m), B of shape (k, n) and C of shape (m, n). It is the product of weight
// gradients, where k runs over tokens. At most threads goroutines work on it.
func TN(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, accumulate bool, threads int) {
	run(product{c: c, ldc: ldc, a: a, lda: lda, aTransposed: true, b: b, ldb: ldb, m: m, n: n, k: k, accumulate: accumulate}, threads)
}

// TNPairs is to TN what [NTPairs] is to NT.
func TNPairs(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, accumulate bool, threads int) {
	run(product{c: c, ldc: ldc, a: a, lda: lda, aTransposed: true, b: b, ldb: ldb, m: m, n: n, k: k, accumulate: accumulate, pairs: true}, threads)
}

// run computes a product of matrices that are not packed, once they hold what it reads.
func run(p product, threads int) {
	checkShape(p.m, p.n, p.k)
	rowsA, columnsA := p.m, p.k
	if p.aTransposed {
		rowsA, columnsA = p.k, p.m
	}
	rowsB, columnsB := p.k, p.n
	if p.bTransposed {
		rowsB, columnsB = p.n, p.k
	}
	checkMatrix(p.a, p.lda, rowsA, columnsA, badStrideA, shortA)
	checkMatrix(p.b, p.ldb, rowsB, columnsB, badStrideB, shortB)
	checkMatrix(p.c, p.ldc, p.m, p.n, badStrideC, shortC)
	multiply(p, threads)
}

func checkShape(m, n, k int) {
	if m < 0 || n < 0 || k < 0 {
		panic(badDimension)
	}
}

// checkMatrix panics unless x holds a (rows, columns) matrix.
func checkMatrix(x []float32, stride, rows, columns int, badStride, short string) {
	if stride < columns {
		panic(badStride)
	}
	if rows > 0 && columns > 0 && len(x) < (rows-1)*stride+columns {
		panic(short)
	}
}
