package learn

import "sync"

// prefetch reads items 0..n-1, each into room for at most so many numbers, one
// item ahead of who takes them: next(i) waits for item i, which is there until
// the next call. Whoever calls next leaves what read uses alone until stop has
// returned.
func prefetch(n, room int, read func(room []float32, i int) ([]float32, error)) (next func(i int) ([]float32, error), stop func()) {
	type item struct {
		numbers []float32
		err     error
	}
	filled, empty, stopped := make(chan item), make(chan []float32, 2), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for i := range n {
			var into []float32
			select {
			case into = <-empty:
			case <-stopped:
				return
			}
			numbers, err := read(into, i)
			select {
			case filled <- item{numbers, err}:
			case <-stopped:
				return
			}
		}
	})
	for range min(n, 2) {
		empty <- make([]float32, room)
	}
	var last []float32
	next = func(int) ([]float32, error) {
		if last != nil {
			empty <- last[:cap(last)]
		}
		i := <-filled
		last = i.numbers
		return i.numbers, i.err
	}
	return next, func() {
		close(stopped)
		running.Wait()
	}
}
