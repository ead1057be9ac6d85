// Package forkjoin runs short pieces of work on several goroutines at once.
//
// The products of a decoding step follow each other within microseconds, and a goroutine
// takes longer to be woken. So helpers linger after their work, awake, and whoever called
// them awaits them so; after a while without work there are none.
package forkjoin

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// awake is how long a goroutine looks for what it waits for before it parks or ends. A
// step has some fifty products, and its longest gap is where a token is chosen.
const awake = 200 * time.Microsecond

// Run calls work(0) on the calling goroutine and work(1) to work(n−1) on others, and
// returns when all have returned. It allocates nothing once as many helpers were there.
func Run(n int, work func(worker int)) {
	if n <= 1 {
		work(0)
		return
	}
	c := crews.Get().(*crew)
	c.run(n, work)
	crews.Put(c)
}

// crews are those without work, with helpers that linger.
var crews = sync.Pool{New: func() any {
	return &crew{processors: runtime.GOMAXPROCS(0), last: make(chan struct{})}
}}

// crew is a caller's helpers.
type crew struct {
	processors int // at most: a goroutine that stays awake keeps one from the others
	work       func(worker int)
	helpers    []*helper
	left       atomic.Int32 // helpers at work, and parked if the caller has parked
	last       chan struct{}

	// Where other programs want the processors too, who stays awake keeps them from
	// its own helpers. Then calls are made without, the more of them the more often.
	awake  bool
	asleep int // calls to be made without
	nap    int // how many at a time
}

// Calls that are made without staying awake after one has waited in vain.
const (
	shortestNap = 64
	longestNap  = 1 << 14
)

// parked is more than there are helpers.
const parked = 1 << 30

// helper is a goroutine, or the place of one that has ended.
type helper struct {
	*crew
	worker int
	main   func() // its method, made once
	state  atomic.Int32
}

// States of a helper.
const (
	ended int32 = iota
	lingering
	called
)

func (c *crew) run(n int, work func(worker int)) {
	c.work = work
	c.awake = c.asleep == 0 && n <= c.processors
	c.left.Store(int32(n - 1))
	for len(c.helpers) < n-1 {
		h := &helper{crew: c, worker: len(c.helpers) + 1}
		h.main = h.help
		c.helpers = append(c.helpers, h)
	}
	for _, h := range c.helpers[:n-1] {
		if !h.state.CompareAndSwap(lingering, called) {
			h.state.Store(called)
			go h.main()
		}
	}
	work(0)
	inVain := c.awake && !soon(&c.left, 0)
	if inVain || !c.awake {
		if c.left.Add(parked) != parked {
			<-c.last
		}
	}
	switch {
	case inVain:
		c.nap = min(max(shortestNap, 2*c.nap), longestNap)
		c.asleep = c.nap
	case c.awake:
		c.nap = max(0, c.nap-1)
	case c.asleep > 0:
		c.asleep--
	}
	c.work = nil
}

func (h *helper) help() {
	for {
		h.work(h.worker)
		// From here on the caller may call it for other work.
		lingers := h.awake
		if lingers {
			h.state.Store(lingering)
		} else {
			h.state.Store(ended)
		}
		if h.left.Add(-1) == parked {
			h.last <- struct{}{}
		}
		if !lingers || !soon(&h.state, called) && h.state.CompareAndSwap(lingering, ended) {
			return
		}
	}
}

// soon reports whether a number has come to be another while it was waited for awake.
func soon(number *atomic.Int32, want int32) bool {
	const looks = 64 // between two looks at the clock
	began := time.Now()
	for n := 1; number.Load() != want; n++ {
		if n%looks == 0 && time.Since(began) > awake {
			return false
		}
		pause()
	}
	return true
}
