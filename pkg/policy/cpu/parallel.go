package cpu

import (
	"sync/atomic"

	"github.com/lathe-rl/lathe/pkg/internal/forkjoin"
)

// parallel calls f for consecutive ranges that cover 0..n-1, on at most
// threads goroutines, the calling one included; worker tells them apart. A
// range holds at least grain items, so that little work stays on one
// goroutine. Which worker gets which range is left to chance: f must not let
// it matter.
func parallel(threads, n, grain int, f func(worker, from, to int)) {
	if n <= 0 {
		return
	}
	// More ranges than threads, so that a thread that other programs slow
	// down takes fewer.
	const rangesPerThread = 4
	size := max(grain, (n+threads*rangesPerThread-1)/(threads*rangesPerThread))
	if threads <= 1 || size >= n {
		f(0, 0, n)
		return
	}
	var next atomic.Int64
	work := func(worker int) {
		for {
			from := int(next.Add(int64(size))) - size
			if from >= n {
				return
			}
			f(worker, from, min(n, from+size))
		}
	}
	forkjoin.Run(min(threads, (n+size-1)/size), work)
}

// grow returns a slice of n elements, reusing the memory of x if it suffices.
// The elements are undefined.
func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		// A quarter more, so that batches of slowly growing size do not
		// allocate each time.
		return make([]T, n, n+n/4)
	}
	return x[:n]
}
