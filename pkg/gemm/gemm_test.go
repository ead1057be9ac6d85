package gemm

import (
	"math"
	"math/rand/v2"
	"testing"
)

func fill(r *rand.Rand, x []float32) {
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
}

func TestSmoke(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 33, 65}, {40, 200, 300}, {130, 70, 513}, {1, 100, 64}, {5, 130, 20}} {
		m, n, k := s[0], s[1], s[2]
		a, at := make([]float32, m*k), make([]float32, m*k)
		b, bt := make([]float32, n*k), make([]float32, n*k)
		fill(r, a)
		fill(r, b)
		for i := range m {
			for l := range k {
				at[l*m+i] = a[i*k+l]
			}
		}
		for j := range n {
			for l := range k {
				bt[j*k+l] = b[l*n+j]
			}
		}
		want := make([]float64, m*n)
		for i := range m {
			for j := range n {
				for l := range k {
					want[i*n+j] += float64(a[i*k+l]) * float64(b[l*n+j])
				}
			}
		}
		var p1, p2 Packed
		PackNT(bt, n, k, &p1, 2)
		PackNN(b, k, n, &p2, 2)
		for name, f := range map[string]func(c []float32){
			"NN": func(c []float32) { NN(c, n, a, k, b, n, m, n, k, false, 3) },
			"NT": func(c []float32) { NT(c, n, a, k, bt, k, m, n, k, false, 3) },
			"TN": func(c []float32) { TN(c, n, at, m, b, n, m, n, k, false, 3) },
			"P1": func(c []float32) { MulPacked(c, n, a, k, m, &p1, false, 3) },
			"P2": func(c []float32) { MulPacked(c, n, a, k, m, &p2, false, 3) },
		} {
			c := make([]float32, m*n)
			f(c)
			for i := range c {
				if math.Abs(float64(c[i])-want[i]) > 1e-4 {
					t.Fatalf("%s %v: element %d is %v, want %v", name, s, i, c[i], want[i])
				}
			}
		}
	}
}
