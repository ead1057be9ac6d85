package gemm

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/vec"
)

// TestConcurrentCallers runs products of all kinds at once on shared operands.
func TestConcurrentCallers(t *testing.T) {
	t.Parallel()
	var problems []*problem
	var want [][]float32
	for i, op := range ops {
		p := newProblem(op, 40+i, 300, 170, i, true, 0, uint64(i))
		problems = append(problems, p)
		want = append(want, p.run(1))
	}
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for i := range 20 {
				j := (caller + i) % len(problems)
				if d := firstDifference(problems[j].run(1+i%4), want[j]); d >= 0 {
					t.Errorf("%s: element %d differs among concurrent callers", ops[j], d)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestNoAllocations(t *testing.T) {
	x := newOperands(rand.New(rand.NewPCG(1, 2)), 40, 500, 300)
	for _, op := range []string{"NT", "NN", "TN", "packed"} {
		for _, threads := range []int{1, 2} {
			x.multiply(op, threads)
			if n := testing.AllocsPerRun(20, func() { x.multiply(op, threads) }); n > 0 {
				t.Errorf("%s on %d threads: %v allocations", op, threads, n)
			}
		}
	}
	if n := testing.AllocsPerRun(20, func() { PackNT(x.bT, x.n, x.k, &x.packedNT, 1) }); n > 0 {
		t.Errorf("packing again: %v allocations", n)
	}
}

// TestPackAgain packs matrices of other shapes into one Packed. What is left of
// a larger matrix must not show.
func TestPackAgain(t *testing.T) {
	t.Parallel()
	for isa := range vec.EachISA {
		var b Packed
		r := rand.New(rand.NewPCG(8, 9))
		for _, s := range [][2]int{{70, 90}, {33, 7}, {5, 200}, {200, 61}, {0, 5}, {5, 0}} {
			n, k := s[0], s[1]
			w, x := make([]float32, n*k), make([]float32, k)
			fill(r, w)
			fill(r, x)
			PackNT(w, n, k, &b, 2)
			if b.N() != n || b.K() != k {
				t.Fatalf("%s: packed shape is (%d, %d), want (%d, %d)", isa, b.N(), b.K(), n, k)
			}
			got := make([]float32, n)
			MulPacked(got, n, x, k, 1, &b, false, 1)
			for j := range got {
				want := float32(0)
				for i := range k {
					want = vec.FMA(x[i], w[j*k+i], want)
				}
				if got[j] != want {
					t.Fatalf("%s, n = %d, k = %d: output %d is %v, want %v", isa, n, k, j, got[j], want)
				}
			}
		}
	}
}

// Column gives back what was packed.
func TestColumn(t *testing.T) {
	t.Parallel()
	const n, k = 70, 45
	w, got := make([]float32, n*k), make([]float32, k)
	fill(rand.New(rand.NewPCG(1, 9)), w)
	for format, want := range map[Format][]float32{Float32: w, BFloat16: rounded(w), BFloat16Pairs: rounded(w)} {
		b := Packed{Format: format}
		PackNT(w, n, k, &b, 1)
		for j := range n {
			b.Column(got, j)
			if i := firstDifference(got, want[j*k:][:k]); i >= 0 {
				t.Fatalf("format %d: column %d differs at depth %d", format, j, i)
			}
		}
		if want := map[Format]int{Float32: 96 * k * 4, BFloat16: 96 * k * 2, BFloat16Pairs: 96 * 64 * 2}[format]; b.Bytes() != want {
			t.Errorf("format %d: %d bytes, want %d: three panels of 32 columns, in pairs two blocks of 32 deep", format, b.Bytes(), want)
		}
	}
}

// Columns gives back parts of what was packed, Transpose what PackNT makes of
// their transpose; on every instruction set, in both formats, at every edge.
func TestColumnsAndTranspose(t *testing.T) {
	t.Parallel()
	for isa := range vec.EachISA {
		for _, s := range [][2]int{{1, 1}, {32, 32}, {33, 31}, {70, 45}, {200, 97}, {31, 300}} {
			n, k := s[0], s[1]
			w := make([]float32, n*k)
			fill(rand.New(rand.NewPCG(1, uint64(n))), w)
			for format, want := range map[Format][]float32{Float32: w, BFloat16: rounded(w), BFloat16Pairs: rounded(w)} {
				b := Packed{Format: format}
				PackNT(w, n, k, &b, 1)
				for _, part := range [][2]int{{0, n}, {n / 2, n - n/2}, {n / 3, n / 3}, {0, 0}} {
					first, count := part[0], part[1]
					got := make([]float32, count*k)
					b.Columns(got, first, count, 2)
					if i := firstDifference(got, want[first*k:][:count*k]); i >= 0 {
						t.Fatalf("%s, format %d, (%d, %d): columns %v differ at %d", isa, format, n, k, part, i)
					}
					first = first / 32 * 32
					turned, direct := Packed{}, Packed{Format: format}
					b.Transpose(&turned, first, count, 2)
					PackNT(transposed(w[first*k:][:count*k], count, k), k, count, &direct, 1)
					if turned.N() != k || turned.K() != count || !slices.Equal(turned.half, direct.half) ||
						!slices.Equal(turned.data, direct.data) {
						t.Fatalf("%s, format %d, (%d, %d): the transpose of columns %v differs", isa, format, n, k, part)
					}
				}
			}
		}
	}
}

// A Packed may change its format from one packing to the next.
func TestPackInAnotherFormat(t *testing.T) {
	t.Parallel()
	const n, k = 40, 9
	w, x := make([]float32, n*k), make([]float32, k)
	fill(rand.New(rand.NewPCG(1, 9)), w)
	fill(rand.New(rand.NewPCG(2, 9)), x)
	var b Packed
	for _, format := range []Format{BFloat16, Float32, BFloat16} {
		want, got := make([]float32, n), make([]float32, n)
		seen := w
		if format == BFloat16 {
			seen = rounded(w)
		}
		NT(want, n, x, k, seen, k, 1, n, k, false, 1)
		b.Format = format
		PackNT(w, n, k, &b, 1)
		MulPacked(got, n, x, k, 1, &b, false, 1)
		if i := firstDifference(got, want); i >= 0 {
			t.Fatalf("format %d: output %d differs", format, i)
		}
	}
}

func TestShapePanics(t *testing.T) {
	t.Parallel()
	x := func(n int) []float32 { return make([]float32, n) }
	var packed Packed
	PackNT(x(12), 4, 3, &packed, 1)
	for _, c := range []struct {
		name, want string
		f          func()
	}{
		{"negative", badDimension, func() { NN(x(4), 2, x(4), 2, x(4), 2, -1, 2, 2, false, 1) }},
		{"lda", badStrideA, func() { NN(x(4), 2, x(4), 1, x(4), 2, 2, 2, 2, false, 1) }},
		{"ldb", badStrideB, func() { NT(x(4), 2, x(4), 2, x(4), 1, 2, 2, 2, false, 1) }},
		{"ldc", badStrideC, func() { TN(x(4), 1, x(4), 2, x(4), 2, 2, 2, 2, false, 1) }},
		{"a", shortA, func() { NN(x(4), 2, x(3), 2, x(4), 2, 2, 2, 2, false, 1) }},
		{"b", shortB, func() { NT(x(4), 2, x(4), 2, x(3), 2, 2, 2, 2, false, 1) }},
		{"c", shortC, func() { TN(x(3), 2, x(4), 2, x(4), 2, 2, 2, 2, false, 1) }},
		{"packed a", shortA, func() { MulPacked(x(8), 4, x(5), 3, 2, &packed, false, 1) }},
		{"packed c", shortC, func() { MulPacked(x(7), 4, x(6), 3, 2, &packed, false, 1) }},
		{"column", badColumn, func() { packed.Column(x(3), 4) }},
		{"column's length", shortColumn, func() { packed.Column(x(2), 3) }},
		{"columns out of range", badColumn, func() { packed.Columns(x(12), 1, 4, 1) }},
		{"columns' room", shortW, func() { packed.Columns(x(5), 0, 2, 1) }},
		{"transpose inside a panel", badColumn, func() { packed.Transpose(new(Packed), 1, 2, 1) }},
		{"columns", badColumn, func() { packed.SetColumns(3, x(6), 2, 1) }},
		{"columns' weight", shortW, func() { packed.SetColumns(2, x(5), 2, 1) }},
		{"weight", shortW, func() { PackNT(x(11), 4, 3, &packed, 1) }},
	} {
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("%s: panic %v, want %q", c.name, got, c.want)
				}
			}()
			c.f()
		}()
	}
}
