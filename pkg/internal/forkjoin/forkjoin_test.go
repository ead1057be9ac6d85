package forkjoin

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// Each worker works once for each call, whoever else calls, and however many were there
// before.
func TestEachWorkerOnce(t *testing.T) {
	t.Parallel()
	for caller := range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for call := range 3000 {
				n := 1 + (call*(caller+3))%5
				var worked [5]int // of each its own: the race detector sees the rest
				Run(n, func(worker int) { worked[worker]++ })
				for worker, times := range worked {
					if want := min(1, max(0, n-worker)); times != want {
						t.Fatalf("of %d workers %d worked %d times", n, worker, times)
					}
				}
				switch call % 100 {
				case 50: // helpers have ended
					time.Sleep(2 * awake)
				case 99: // the caller parks
					Run(3, func(worker int) { time.Sleep(time.Duration(worker) * 2 * awake) })
				}
			}
		})
	}
}

// More workers than processors are no deadlock.
func TestMoreThanProcessors(t *testing.T) {
	t.Parallel()
	var sum atomic.Int64
	n := 4 * runtime.GOMAXPROCS(0)
	for range 20 {
		Run(n, func(worker int) { sum.Add(int64(worker)) })
	}
	if want := int64(20 * n * (n - 1) / 2); sum.Load() != want {
		t.Errorf("sum %d, want %d", sum.Load(), want)
	}
}

// Alone: it counts the goroutines of the process.
func TestHelpersEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	Run(3, func(int) {})
	for ended := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(ended) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(awake)
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		Run(2, func(int) {})
	}
}
