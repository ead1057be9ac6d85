package gemm

const (
	shortW = "gemm: weight is too short"
)

// panelWidth is the number of columns of one panel of a packed matrix: two
// AVX-512 registers, four AVX2 registers. The layout is the same for every
// instruction set.
const panelWidth = 32

// Packed is a weight matrix laid out for [MulPacked]: the columns of a (k, n)
// matrix B in panels of 32, each panel holding its 32 columns depth by depth.
// The last panel is filled up with zeros. The zero value is ready for packing;
// packing again reuses the memory. A Packed may be read by many goroutines, but
// not while it is being packed.
type Packed struct {
	n, k int
	data []float32 // shape (panels, k, panelWidth)
}

// N returns the number of columns of B, which are the outputs of the layer.
func (p *Packed) N() int { return p.n }

// K returns the number of rows of B, the depth of the product.
func (p *Packed) K() int { return p.k }

// PackNT packs w of shape (n, k), a weight in the [out, in] layout of Hugging
// Face files, so that MulPacked computes x·wᵀ.
func PackNT(w []float32, n, k int, dst *Packed, threads int) {
	checkShape(0, n, k)
	if len(w) < n*k {
		panic(shortW)
	}
	dst.resize(n, k)
	pack(packing{dst: dst.data, src: w, stride: k, transposed: true, n: n, k: k}, threads)
}

// PackNN packs w of shape (k, n) so that MulPacked computes x·w. With w in the
// [out, in] layout and k = out it is the product that takes the gradient of a
// layer's output to that of its input.
func PackNN(w []float32, k, n int, dst *Packed, threads int) {
	checkShape(0, n, k)
	if len(w) < n*k {
		panic(shortW)
	}
	dst.resize(n, k)
	pack(packing{dst: dst.data, src: w, stride: n, n: n, k: k}, threads)
}

// resize gives dst the shape (k, n) with undefined elements.
func (p *Packed) resize(n, k int) {
	p.n, p.k = n, k
	size := panels(n) * k * panelWidth
	if cap(p.data) < size {
		p.data = alignedFloats(size)
	}
	p.data = p.data[:size]
}

// panels returns the number of panels of n columns.
func panels(n int) int { return (n + panelWidth - 1) / panelWidth }

// MulPacked computes C = A·B, or C += A·B if accumulate is set, with A of shape
// (m, K), B the packed matrix of shape (K, N) and C of shape (m, N). At most
// threads goroutines work on it.
func MulPacked(c []float32, ldc int, a []float32, lda, m int, b *Packed, accumulate bool, threads int) {
	checkShape(m, b.n, b.k)
	checkMatrix(a, lda, m, b.k, badStrideA, shortA)
	checkMatrix(c, ldc, m, b.n, badStrideC, shortC)
	multiply(product{
		c: c, ldc: ldc, a: a, lda: lda, packed: b.data,
		m: m, n: b.n, k: b.k, accumulate: accumulate,
	}, threads)
}
