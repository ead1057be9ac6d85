package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// benchmarkShapes are the products of a small policy: layers forward, their
// gradients, and decode steps of 1 to 32 sequences.
var benchmarkShapes = []struct {
	op      string
	m, k, n int
}{
	{"packed", 512, 256, 1024},
	{"packed", 2048, 256, 1024},
	{"packed", 2048, 512, 2048},
	{"packed", 2048, 512, 4096},
	{"packed", 2048, 1024, 256},
	{"packed", 1, 512, 4096},
	{"packed", 8, 512, 4096},
	{"packed", 16, 512, 4096},
	{"packed", 32, 512, 4096},
	{"NT", 2048, 256, 1024},
	{"NN", 2048, 1024, 256},
	{"TN", 1024, 2048, 256},
	{"TN", 256, 2048, 1024},
	{"TNPairs", 1024, 2048, 256},
	{"TNPairs", 256, 2048, 1024},
	{"NT", 256, 64, 256},
	{"NN", 256, 256, 64},
	{"NT", 1, 64, 512},
	{"NN", 1, 512, 64},
	{"NT", 16, 16, 16},
}

func BenchmarkGEMM(b *testing.B) {
	for _, s := range benchmarkShapes {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s_%dx%dx%d/threads=%d", s.op, s.m, s.k, s.n, threads), func(b *testing.B) {
				x := newOperands(rand.New(rand.NewPCG(1, 2)), s.m, s.n, s.k)
				report(b, s.m, s.n, s.k, func() { x.multiply(s.op, threads) })
			})
		}
	}
}

func BenchmarkGonum(b *testing.B) {
	for _, s := range benchmarkShapes {
		b.Run(fmt.Sprintf("%s_%dx%dx%d", s.op, s.m, s.k, s.n), func(b *testing.B) {
			x := newOperands(rand.New(rand.NewPCG(1, 2)), s.m, s.n, s.k)
			a := blas32.General{Rows: s.m, Cols: s.k, Stride: s.k, Data: x.a}
			w := blas32.General{Rows: s.n, Cols: s.k, Stride: s.k, Data: x.bT}
			c := blas32.General{Rows: s.m, Cols: s.n, Stride: s.n, Data: x.c}
			report(b, s.m, s.n, s.k, func() { blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, w, 0, c) })
		})
	}
}

var formats = map[string]Format{"float32": Float32, "bfloat16": BFloat16, "pairs": BFloat16Pairs}

// BenchmarkDecode measures products of few rows with a matrix that is too large
// for the caches, by the bytes of the matrix that go through in a second.
func BenchmarkDecode(b *testing.B) {
	const n, k = 32768, 896 // 117 MB in float32
	w := make([]float32, n*k)
	fill(rand.New(rand.NewPCG(1, 2)), w)
	for name, format := range formats {
		p := Packed{Format: format}
		PackNT(w, n, k, &p, 2)
		for _, m := range []int{1, 2, 4, 8, 16} {
			a, c := make([]float32, m*k), make([]float32, m*n)
			fill(rand.New(rand.NewPCG(3, 4)), a)
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/rows=%d/threads=%d", name, m, threads), func(b *testing.B) {
					b.SetBytes(int64(p.Bytes()))
					for b.Loop() {
						MulPacked(c, n, a, k, m, &p, false, threads)
					}
				})
			}
		}
	}
}

// BenchmarkPeer measures what analysis/bench_products.py compares with oneDNN: a
// projection forward, its two gradients, and decoding, in float32 and bfloat16. A weight is
// packed once and used often, as the engine does; a weight's gradient is a product of
// two that are not.
func BenchmarkPeer(b *testing.B) {
	for _, s := range []struct {
		op      string
		m, k, n int
	}{
		{"packed", 2048, 256, 1280},
		{"packed", 2048, 512, 2816},
		{"packed", 2048, 1408, 512},
		{"packed", 2048, 896, 9728},
		{"TN", 1280, 2048, 256},
		{"TN", 2816, 2048, 512},
		{"TN", 9728, 2048, 896},
		{"packed", 1, 512, 2816},
		{"packed", 8, 512, 2816},
		{"packed", 64, 512, 2816},
		{"packed", 1, 896, 9728},
		{"packed", 8, 896, 9728},
		{"packed", 64, 896, 9728},
	} {
		x := newOperands(rand.New(rand.NewPCG(1, 2)), s.m, s.n, s.k)
		for _, pairs := range []bool{false, true} {
			for _, threads := range []int{1, 2} {
				op, dtype := s.op, "float32"
				if pairs {
					op, dtype = op+"Pairs", "bfloat16"
				}
				b.Run(fmt.Sprintf("%s/%dx%dx%d/%s/%d", s.op, s.m, s.k, s.n, dtype, threads), func(b *testing.B) {
					report(b, s.m, s.n, s.k, func() { x.multiply(op, threads) })
				})
			}
		}
	}
}

// BenchmarkPanels measures tiles whose matrix stays in the caches.
func BenchmarkPanels(b *testing.B) {
	const m, k, n = 448, 896, 1152
	a, w, c := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n)
	fill(rand.New(rand.NewPCG(1, 2)), w)
	fill(rand.New(rand.NewPCG(3, 4)), a)
	for name, format := range formats {
		p := Packed{Format: format}
		PackNT(w, n, k, &p, 1)
		b.Run(name, func(b *testing.B) {
			report(b, m, n, k, func() { MulPacked(c, n, a, k, m, &p, false, 1) })
		})
	}
}

func BenchmarkPack(b *testing.B) {
	const n, k = 4096, 512
	w := make([]float32, n*k)
	fill(rand.New(rand.NewPCG(1, 2)), w)
	for name, format := range formats {
		p, transposed := Packed{Format: format}, Packed{}
		for _, c := range []struct {
			name string
			f    func()
		}{
			{"NT", func() { PackNT(w, n, k, &p, 1) }},
			{"Columns", func() { p.Columns(w, 0, p.N(), 1) }},
			{"Transpose", func() { p.Transpose(&transposed, 0, p.N(), 1) }},
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.SetBytes(4 * n * k)
				for b.Loop() {
					c.f()
				}
			})
		}
	}
}

// report runs a product of shape (m, n) and depth k and reports its speed in the fastest of
// many rounds of 0.2 GFLOP, as analysis/bench_products.py measures its peer: other programs
// only ever slow things down.
func report(b *testing.B, m, n, k int, f func()) {
	b.ReportAllocs()
	f()
	const round = 2e8
	work := 2 * float64(m) * float64(n) * float64(k)
	calls := max(1, int(round/work))
	fastest, began, done := math.Inf(1), time.Now(), 0
	for b.Loop() {
		f()
		if done++; done%calls == 0 {
			now := time.Now()
			fastest, began = min(fastest, now.Sub(began).Seconds()/float64(calls)), now
		}
	}
	fastest = min(fastest, b.Elapsed().Seconds()/float64(b.N)) // of fewer calls than a round
	b.ReportMetric(work/fastest/1e9, "GF/s")
}

// operands are the same product in every layout.
type operands struct {
	m, n, k           int
	a, aT, b, bT, c   []float32
	packedNT, pairsNT Packed
}

func newOperands(r *rand.Rand, m, n, k int) *operands {
	x := &operands{m: m, n: n, k: k}
	x.a, x.b, x.c = make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	fill(r, x.a)
	fill(r, x.b)
	x.aT, x.bT = transposed(x.a, m, k), transposed(x.b, k, n)
	PackNT(x.bT, n, k, &x.packedNT, 1)
	x.pairsNT.Format = BFloat16Pairs
	PackNT(x.bT, n, k, &x.pairsNT, 1)
	return x
}

func (x *operands) multiply(op string, threads int) {
	switch op {
	case "NT":
		NT(x.c, x.n, x.a, x.k, x.bT, x.k, x.m, x.n, x.k, false, threads)
	case "NN":
		NN(x.c, x.n, x.a, x.k, x.b, x.n, x.m, x.n, x.k, false, threads)
	case "TN":
		TN(x.c, x.n, x.aT, x.m, x.b, x.n, x.m, x.n, x.k, false, threads)
	case "TNPairs":
		TNPairs(x.c, x.n, x.aT, x.m, x.b, x.n, x.m, x.n, x.k, false, threads)
	case "packed":
		MulPacked(x.c, x.n, x.a, x.k, x.m, &x.packedNT, false, threads)
	case "packedPairs":
		MulPacked(x.c, x.n, x.a, x.k, x.m, &x.pairsNT, false, threads)
	}
}

func transposed(x []float32, rows, columns int) []float32 {
	y := make([]float32, len(x))
	for i := range rows {
		for j := range columns {
			y[j*rows+i] = x[i*columns+j]
		}
	}
	return y
}

// BenchmarkPage is the product of a page of keys with three queries, of which decoding
// does a million a second: on all processors at once it takes as many times less.
func BenchmarkPage(b *testing.B) {
	half := make([]uint16, PairsSize(64, 64))
	product := func() func() {
		var keys Packed
		keys.View(half, 64, 64, 64)
		a, c := make([]float32, 3*64), make([]float32, 3*64)
		return func() { MulPacked(c, 64, a, 64, 3, &keys, false, 1) }
	}
	b.Run("on one", func(b *testing.B) {
		f := product()
		for b.Loop() {
			f()
		}
	})
	b.Run("on all", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for f := product(); pb.Next(); {
				f()
			}
		})
	})
}
