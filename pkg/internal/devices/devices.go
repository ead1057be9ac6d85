// Package devices gives each of several devices, as CUDA_VISIBLE_DEVICES names them, to
// one taker at a time.
package devices

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Pool has devices to give.
type Pool struct {
	names []string
	room  *semaphore.Weighted
	mu    sync.Mutex // guards busy
	busy  []bool     // by the device's place in names
}

// NewPool returns a pool of devices, all free.
func NewPool(names []string) *Pool {
	return &Pool{names: names, room: semaphore.NewWeighted(int64(len(names))), busy: make([]bool, len(names))}
}

// Len is how many devices there are, free or not.
func (p *Pool) Len() int { return len(p.names) }

// Take waits for n devices, of which there must be as many, and takes the first that are
// free, until release is called. The error is that of the context, where it ends before.
func (p *Pool) Take(ctx context.Context, n int) (names []string, release func(), err error) {
	if err := p.room.Acquire(ctx, int64(n)); err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []int
	for i := range p.busy {
		if !p.busy[i] && len(taken) < n {
			p.busy[i] = true
			taken, names = append(taken, i), append(names, p.names[i])
		}
	}
	return names, func() {
		p.mu.Lock()
		for _, i := range taken {
			p.busy[i] = false
		}
		p.mu.Unlock()
		p.room.Release(int64(n))
	}, nil
}
