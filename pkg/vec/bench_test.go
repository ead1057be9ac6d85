package vec

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// BenchmarkKernels reports the memory moved: 4 bytes for each element of each
// slice read and of each slice written.
func BenchmarkKernels(b *testing.B) {
	for _, n := range []int{256, 4096, 1 << 20} {
		x := rows(9, 5, n)
		cos := x[4][:min(n/2, 64)]
		for _, c := range []struct {
			name   string
			slices int
			f      func()
		}{
			{"Add", 3, func() { Add(x[0], x[1], x[2]) }},
			{"AXPY", 3, func() { AXPY(x[0], 1e-9, x[1]) }},
			{"Dot", 2, func() { Dot(x[0], x[1]) }},
			{"Sum", 1, func() { Sum(x[0]) }},
			{"SumSquares", 1, func() { SumSquares(x[0]) }},
			{"Max", 1, func() { Max(x[0]) }},
			{"ExpShiftSum", 2, func() { ExpShiftSum(x[3], x[1], 1, 1) }},
			{"SwiGLU", 3, func() { SwiGLU(x[3], x[1], x[2]) }},
			{"SwiGLUGrad", 5, func() { SwiGLUGrad(x[3], x[4], x[0], x[1], x[2]) }},
			{"RMSNorm", 4, func() { RMSNorm(x[3], x[1], x[2], 1e-6) }},
			{"RMSNormGrad", 11, func() { RMSNormGrad(x[3], x[4], x[0], x[1], x[2], 1e-3, false) }},
			{"RoPE", 2, func() { RoPE(x[0], cos, cos) }},
			{"SoftmaxGrad", 3, func() { SoftmaxGrad(x[3], x[1], x[2], 0.1, 0.2) }},
			{"AdamW", 7, func() { AdamW(x[0], x[1], x[3], x[2], adamWParams) }},
		} {
			b.Run(fmt.Sprintf("%s/n=%d", c.name, n), func(b *testing.B) {
				for i, row := range rows(9, 5, n) {
					copy(x[i], row)
				}
				Mul(x[3], x[3], x[3]) // a second moment
				b.SetBytes(int64(4 * n * c.slices))
				b.ReportAllocs()
				for b.Loop() {
					c.f()
				}
			})
		}
	}
}

// BenchmarkRandomHalves reports elements, as bytes.
func BenchmarkRandomHalves(b *testing.B) {
	const n = 4096
	var low, high, next [n]uint16
	stream := rng.New(1, rng.PurposeTest, 0, "bench", 0)
	for isa := range EachISA {
		b.Run(isa, func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				RandomHalves(low[:], high[:], next[:], stream, 7)
			}
		})
	}
}
