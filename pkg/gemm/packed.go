package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

const (
	shortW      = "gemm: weight is too short"
	badColumn   = "gemm: column out of range"
	badRow      = "gemm: row out of range"
	shortColumn = "gemm: a column is as long as the matrix is deep"
)

// panelWidth is the number of columns of one panel of a packed matrix: two
// AVX-512 registers, four AVX2 registers. The layout is the same for every
// instruction set.
const panelWidth = 32

// Format is how a packed matrix stores its elements.
type Format uint8

// The formats. With BFloat16 a product widens the elements to float32 in registers:
// its bits are those of the product with a float32 matrix of the same values, and it
// reads half the memory. With BFloat16Pairs it rounds A too and sums in pairs, see the
// package's comment.
const (
	Float32 Format = iota
	BFloat16
	BFloat16Pairs
)

// Packed is a weight matrix laid out for [MulPacked]: the columns of a (k, n)
// matrix B in panels of 32, each panel holding its 32 columns depth by depth.
// The last panel is filled up with zeros. The zero value is ready for packing
// in float32; packing again reuses the memory. Packing in bfloat16 rounds to
// nearest, ties to even. A Packed may be read by many goroutines, but not while
// it is being packed.
type Packed struct {
	Format Format // of the elements from the next packing on

	n, k  int
	depth int       // of a panel: k, filled up with zeros to whole blocks in pairs
	data  []float32 // shape (panels, depth, panelWidth)
	half  []uint16  // the same in bfloat16, instead of data
	pairs bool      // half is (panels, depth/2, panelWidth, 2): two depths of a column side by side
}

// at is the index of depth k of column j in data or half.
func (p *Packed) at(j, k int) int {
	panel, column := j/panelWidth*p.depth*panelWidth, j%panelWidth
	if p.pairs {
		return panel + k/2*2*panelWidth + 2*column + k%2
	}
	return panel + k*panelWidth + column
}

// N returns the number of columns of B, which are the outputs of the layer.
func (p *Packed) N() int { return p.n }

// K returns the number of rows of B, the depth of the product.
func (p *Packed) K() int { return p.k }

// Bytes returns the size of the matrix in memory.
func (p *Packed) Bytes() int { return 4*len(p.data) + 2*len(p.half) }

// Reset makes p a (k, n) matrix with undefined elements, except that the last
// panel is filled up with zeros. [Packed.SetColumns] fills it.
func (p *Packed) Reset(n, k int) {
	checkShape(0, n, k)
	p.resize(n, k)
	if p.pairs {
		for panel := range panels(n) {
			whole := p.half[panel*p.depth*panelWidth:][:p.depth*panelWidth]
			clear(whole[k/2*2*panelWidth:])
		}
	}
	if n%panelWidth != 0 {
		last := n / panelWidth * p.depth * panelWidth
		if p.half != nil {
			clear(p.half[last:])
		} else {
			clear(p.data[last:])
		}
	}
}

// SetColumns packs w of shape (count, k), a part of a weight in the [out, in]
// layout of Hugging Face files, as columns first to first+count-1 of B.
func (p *Packed) SetColumns(first int, w []float32, count, threads int) {
	if first < 0 || count < 0 || first+count > p.n {
		panic(badColumn)
	}
	if len(w) < count*p.k {
		panic(shortW)
	}
	pack(packing{dst: p, src: w, first: first, end: first + count}, threads)
}

// PairsSize is how many bfloat16 values a (k, n) matrix in pairs takes, with the zeros
// that fill it up.
func PairsSize(n, k int) int { return panels(n) * padded(k) * panelWidth }

// View makes p the first k rows of a (depth, n) matrix in pairs that lies in half, whose
// [PairsSize] values were zeros at first. [Packed.SetColumn] and [Packed.SetRow] fill it.
// A product goes by whole blocks of 32 rows: those of the last block that are not among
// the first k must be finite.
func (p *Packed) View(half []uint16, n, k, depth int) {
	checkShape(depth, n, k)
	if k > depth || len(half) < PairsSize(n, depth) {
		panic(shortW)
	}
	*p = Packed{Format: BFloat16Pairs, n: n, k: k, depth: padded(depth), half: half, pairs: true}
}

// SetColumn makes x (K), rounded, column j of a matrix in pairs.
func (p *Packed) SetColumn(j int, x []float32) {
	if !p.pairs || j < 0 || j >= p.n {
		panic(badColumn)
	}
	var rounded [2 * panelWidth]uint16
	for k := 0; k < p.k; k += len(rounded) {
		part := rounded[:min(len(rounded), p.k-k)]
		vec.RoundBF16(part, x[k:k+len(part)])
		column := p.half[p.at(j, k):]
		for i, value := range part {
			column[i/2*2*panelWidth+i%2] = value
		}
	}
}

// SetRow makes x (N), rounded, row k of a matrix in pairs.
func (p *Packed) SetRow(k int, x []float32) {
	if !p.pairs || k < 0 || k >= p.k {
		panic(badRow)
	}
	var rounded [panelWidth]uint16
	for j := 0; j < p.n; j += panelWidth {
		part := rounded[:min(panelWidth, p.n-j)]
		vec.RoundBF16(part, x[j:j+len(part)])
		row := p.half[p.at(j, k):]
		for i, value := range part {
			row[2*i] = value
		}
	}
}

// ClearBlock makes the 32 rows from row k on zeros, k being a multiple of 32.
func (p *Packed) ClearBlock(k int) {
	if !p.pairs || k%PairBlock != 0 || k < 0 || k >= p.depth {
		panic(badRow)
	}
	for panel := range panels(p.n) {
		clear(p.half[(panel*p.depth+k)*panelWidth:][:PairBlock*panelWidth])
	}
}

// Column copies column j of B to dst, widened to float32: row j of a weight in
// the [out, in] layout.
func (p *Packed) Column(dst []float32, j int) {
	if j < 0 || j >= p.n {
		panic(badColumn)
	}
	if len(dst) != p.k {
		panic(shortColumn)
	}
	if p.half != nil {
		for k := range dst {
			dst[k] = widened(p.half[p.at(j, k)])
		}
		return
	}
	for k := range dst {
		dst[k] = p.data[p.at(j, k)]
	}
}

// PackNT packs w of shape (n, k), a weight in the [out, in] layout of Hugging
// Face files, so that MulPacked computes x·wᵀ.
func PackNT(w []float32, n, k int, dst *Packed, threads int) {
	checkShape(0, n, k)
	if len(w) < n*k {
		panic(shortW)
	}
	dst.resize(n, k)
	pack(packing{dst: dst, src: w, end: n}, threads)
}

// resize gives dst the shape (k, n) with undefined elements.
func (p *Packed) resize(n, k int) {
	p.n, p.k, p.depth, p.pairs = n, k, k, p.Format == BFloat16Pairs
	if p.pairs {
		p.depth = padded(k)
	}
	size := panels(n) * p.depth * panelWidth
	if p.Format != Float32 {
		if cap(p.half) < size {
			p.half = aligned[uint16](size)
		}
		p.half, p.data = p.half[:size], nil
		return
	}
	if cap(p.data) < size {
		p.data = aligned[float32](size)
	}
	p.data, p.half = p.data[:size], nil
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
		c: c, ldc: ldc, a: a, lda: lda, packed: b, pairs: b.pairs,
		m: m, n: b.n, k: b.k, accumulate: accumulate,
	}, threads)
}
