package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/vec"
)

// ops are the products under test by name.
var ops = []string{
	"NT", "NN", "TN", "PackNT", "PackNT16", "SetColumns", "SetColumns16",
	"NTPairs", "NNPairs", "TNPairs", "PackNTPairs", "SetColumnsPairs", "SetColumnPairs", "SetRowPairs",
}

// guard is the value around and between the rows of C in a test; no product
// may change it.
const guard = float32(-7.25e17)

// problem is one product with operands in wider rows than it needs.
type problem struct {
	op            string
	m, n, k       int
	lda, ldb, ldc int
	a, b          []float32 // in the layout of op
	seenA, seenB  []float32 // the same as the product sees them, which may round them: m × k and n × k
	pairs         bool      // both operands are rounded, and summed in pairs
	start         []float32 // C before the product, with guards
	accumulate    bool
}

// newProblem draws the operands of a product, the same for every op. padding widens the
// rows of all matrices that may be wider; specials is the probability of NaN, infinities
// and other edge values.
func newProblem(op string, m, n, k, padding int, accumulate bool, specials float64, seed uint64) *problem {
	p := &problem{op: op, m: m, n: n, k: k, accumulate: accumulate, pairs: strings.HasSuffix(op, "Pairs")}
	r := rand.New(rand.NewPCG(seed, 3))
	p.seenA, p.seenB = make([]float32, m*k), make([]float32, n*k)
	draw(r, p.seenA, specials)
	draw(r, p.seenB, specials)
	p.a, p.lda = laidOut(p.seenA, m, k, padding, aTransposed(op))
	paddingB := padding
	if packs(op) {
		paddingB = 0
	}
	p.b, p.ldb = laidOut(p.seenB, n, k, paddingB, !bTransposed(op))
	if p.pairs {
		p.seenA = rounded(p.seenA)
	}
	if p.pairs || strings.HasSuffix(op, "16") {
		p.seenB = rounded(p.seenB)
	}
	const margin = 64
	p.ldc = n + padding
	p.start = slices.Repeat([]float32{guard}, m*p.ldc+2*margin)
	for i := range m {
		draw(r, p.start[margin+i*p.ldc:][:n], specials)
	}
	return p
}

// laidOut copies a matrix of rows × columns, or its transpose, into rows with padding,
// and returns their stride.
func laidOut(x []float32, rows, columns, padding int, transposed bool) (wide []float32, stride int) {
	if transposed {
		stride, wide = rows+padding, slices.Repeat([]float32{guard}, columns*(rows+padding))
		for i := range rows {
			for j := range columns {
				wide[j*stride+i] = x[i*columns+j]
			}
		}
		return wide, stride
	}
	stride, wide = columns+padding, slices.Repeat([]float32{guard}, rows*(columns+padding))
	for i := range rows {
		copy(wide[i*stride:], x[i*columns:(i+1)*columns])
	}
	return wide, stride
}

// aTransposed tells whether an operation takes the transpose of A.
func aTransposed(op string) bool { return strings.HasPrefix(op, "TN") }

// bTransposed tells whether an operation takes the transpose of B.
func bTransposed(op string) bool {
	return strings.HasPrefix(op, "NT") || strings.HasPrefix(op, "PackNT") || strings.HasPrefix(op, "SetColumn")
}

// packs tells whether an operation packs B.
func packs(op string) bool {
	return strings.HasPrefix(op, "Pack") || strings.HasPrefix(op, "Set")
}

// rounded returns x rounded to bfloat16.
func rounded(x []float32) []float32 {
	half, wide := make([]uint16, len(x)), make([]float32, len(x))
	vec.RoundBF16(half, x)
	vec.WidenBF16(wide, half)
	return wide
}

// fill fills x with values in [-1, 1).
func fill(r *rand.Rand, x []float32) {
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
}

func draw(r *rand.Rand, x []float32, specials float64) {
	fill(r, x)
	special := []float32{
		0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-126, 0x1p-70,
	}
	for i := range x {
		if r.Float64() < specials {
			x[i] = special[r.IntN(len(special))]
		}
	}
}

// run returns C with its guards after the product.
func (p *problem) run(threads int) []float32 {
	whole := append([]float32(nil), p.start...)
	c := whole[64 : len(whole)-64]
	switch p.op {
	case "NT":
		NT(c, p.ldc, p.a, p.lda, p.b, p.ldb, p.m, p.n, p.k, p.accumulate, threads)
	case "NN":
		NN(c, p.ldc, p.a, p.lda, p.b, p.ldb, p.m, p.n, p.k, p.accumulate, threads)
	case "TN":
		TN(c, p.ldc, p.a, p.lda, p.b, p.ldb, p.m, p.n, p.k, p.accumulate, threads)
	case "NTPairs":
		NTPairs(c, p.ldc, p.a, p.lda, p.b, p.ldb, p.m, p.n, p.k, p.accumulate, threads)
	case "NNPairs":
		NNPairs(c, p.ldc, p.a, p.lda, p.b, p.ldb, p.m, p.n, p.k, p.accumulate, threads)
	case "TNPairs":
		TNPairs(c, p.ldc, p.a, p.lda, p.b, p.ldb, p.m, p.n, p.k, p.accumulate, threads)
	default:
		var b Packed
		switch {
		case strings.HasSuffix(p.op, "16"):
			b.Format = BFloat16
		case p.pairs:
			b.Format = BFloat16Pairs
		}
		switch {
		case strings.HasPrefix(p.op, "PackNT"):
			PackNT(p.b, p.n, p.k, &b, threads)
		case p.op == "SetColumnPairs":
			b.View(make([]uint16, PairsSize(p.n, p.k)), p.n, p.k, p.k)
			for j := range p.n {
				b.SetColumn(j, p.b[j*p.k:(j+1)*p.k])
			}
		case p.op == "SetRowPairs":
			p.setRows(&b)
		default:
			// In parts that begin and end inside of panels and at their edges,
			// the last part first.
			b.Reset(p.n, p.k)
			to := p.n
			for _, from := range []int{p.n - 1, 96, 40, 32, 7, 0} {
				if from = max(0, from); from < to {
					b.SetColumns(from, p.b[from*p.k:], to-from, threads)
					to = from
				}
			}
		}
		MulPacked(c, p.ldc, p.a, p.lda, p.m, &b, p.accumulate, threads)
	}
	return whole
}

// setRows makes b the first rows of a deeper matrix, which held infinities before: a
// block of rows is cleared when its first row comes.
func (p *problem) setRows(b *Packed) {
	depth := p.k + 40
	half := make([]uint16, PairsSize(p.n, depth))
	for i := range half {
		half[i] = 0x7f80
	}
	b.View(half, p.n, p.k, depth)
	for k := range p.k {
		if k%PairBlock == 0 {
			b.ClearBlock(k)
		}
		b.SetRow(k, p.b[k*p.n:(k+1)*p.n])
	}
}

// elementA returns A(i, k), elementB returns B(k, j), as the product sees them.
func (p *problem) elementA(i, k int) float32 { return p.seenA[i*p.k+k] }
func (p *problem) elementB(k, j int) float32 { return p.seenB[j*p.k+k] }

// want returns what run must return, of a definition.
func (p *problem) want(c []float32) []float32 {
	whole := slices.Clone(p.start)
	for i := range p.m {
		copy(whole[64+i*p.ldc:], c[i*p.n:(i+1)*p.n])
	}
	return whole
}

// definition returns the product, m × n: one chain of fused multiply-adds for each
// element, or two for each 32 of it.
func (p *problem) definition() []float32 {
	product := make([]float32, p.m*p.n)
	for i := range p.m {
		for j := range p.n {
			c := &product[i*p.n+j]
			if p.accumulate {
				*c = p.start[64+i*p.ldc+j]
			}
			if p.pairs {
				*c = p.inPairs(i, j, *c)
				continue
			}
			for k := range p.k {
				*c = vec.FMA(p.elementA(i, k), p.elementB(k, j), *c)
			}
		}
	}
	return product
}

// inPairs is an element that is summed in pairs from c on.
func (p *problem) inPairs(i, j int, c float32) float32 {
	for block := 0; block < p.k; block += 32 {
		var chains [2]float32
		for k := block; k < block+32; k++ {
			var a, b float32
			if k < p.k {
				a, b = p.elementA(i, k), p.elementB(k, j)
			}
			chains[k%2] = vec.FMAFlushed(a, b, chains[k%2])
		}
		c = vec.AddFlushed(c, vec.AddFlushed(chains[0], chains[1]))
	}
	return c
}

// firstDifference returns the first index where the bits differ, or -1. All
// NaNs are the same.
func firstDifference(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return i
		}
	}
	return -1
}
