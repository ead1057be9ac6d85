package bench

import (
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Ceiling is what a machine can do at best, as measured; zero where it is not known.
type Ceiling struct {
	GFLOPs float64 `json:"gflop_per_second"` // of products of large matrices
	GBs    float64 `json:"gb_per_second"`    // that threads together read from memory
}

// Higher is the higher of two measurements: what else a machine does only lowers them.
func (c Ceiling) Higher(other Ceiling) Ceiling {
	return Ceiling{GFLOPs: max(c.GFLOPs, other.GFLOPs), GBs: max(c.GBs, other.GBs)}
}

// Share says of each rate how much of the ceiling it is.
func (c Ceiling) Share(rates []Rate) {
	for i, r := range rates {
		if c.GFLOPs > 0 && c.GBs > 0 {
			rates[i].Share = max(r.GFLOPs/c.GFLOPs, r.GBs/c.GBs)
		}
	}
}

// Reached is the highest of what the work itself has reached: no work is beyond a
// ceiling, whatever the machine did while that was measured.
func (c Ceiling) Reached(rates []Rate) Ceiling {
	for _, r := range rates {
		c = c.Higher(Ceiling{GFLOPs: r.GFLOPs, GBs: r.GBs})
	}
	return c
}

// MeasureCPU measures the ceiling of so many threads of this machine, each kind for at
// least a time: of products in float32, or rounded to bfloat16 in pairs; and of reads of
// as many bytes as the policy's weights have, which caches may hold.
func MeasureCPU(threads int, atLeast time.Duration, pairs bool, weights int) Ceiling {
	const m, n, k = 512, 1024, 1024 // operands that fit into a cache
	a, b, c := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n)
	for i := range a {
		a[i] = float32(i%7) - 3
	}
	for i := range b {
		b[i] = float32(i%5) - 2
	}
	var packed gemm.Packed
	if pairs {
		packed.Format = gemm.BFloat16Pairs
	}
	gemm.PackNT(b, n, k, &packed, threads)
	product, _ := repeat(atLeast, func(int) error {
		gemm.MulPacked(c, n, a, k, m, &packed, false, threads)
		return nil
	})

	const most = 64 << 20 / 4 // of a thread, larger than the caches of a core
	floats := min(most, max(1, weights/4/threads))
	rows := make([][]float32, threads)
	for i := range rows {
		rows[i] = make([]float32, floats)
		for j := range rows[i] {
			rows[i][j] = 1 // memory that nothing was written to is one page, and in the cache
		}
	}
	read, _ := repeat(atLeast, func(int) error {
		var all sync.WaitGroup
		for _, row := range rows {
			all.Go(func() { vec.Sum(row) })
		}
		all.Wait()
		return nil
	})
	return Ceiling{GFLOPs: 2 * m * n * k / product / 1e9, GBs: 4 * float64(floats) * float64(threads) / read / 1e9}
}
