package env

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Wait is a request that a program of the user's has not answered yet.
type Wait struct {
	Program string // its command
	Request string // what it is asked to do
	Since   time.Time
	Limit   time.Duration // after which the program is ended
	Setting string        // of the recipe, that the limit is
}

// After describes the request as it is so long after it was made.
func (w Wait) After(waited time.Duration) string {
	return fmt.Sprintf("the program %s has not answered a request to %s for %v; it is ended after %v (%s)",
		w.Program, w.Request, waited.Round(time.Second), w.Limit, w.Setting)
}

// Waits are the requests of an environment that its programs have not answered. It is
// safe for concurrent use.
type Waits struct {
	mutex sync.Mutex
	open  map[*Wait]bool
}

// Begin adds a request, and end removes it.
func (w *Waits) Begin(request Wait) (end func()) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.open == nil {
		w.open = map[*Wait]bool{}
	}
	w.open[&request] = true
	return func() {
		w.mutex.Lock()
		delete(w.open, &request)
		w.mutex.Unlock()
	}
}

// Open lists the requests that are not answered, the oldest first.
func (w *Waits) Open() []Wait {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var all []Wait
	for request := range w.open {
		all = append(all, *request)
	}
	slices.SortFunc(all, func(a, b Wait) int { return a.Since.Compare(b.Since) })
	return all
}

// Programs is an environment with programs of the user's, which end with it.
type Programs interface {
	// Start is called before the first prompt, if at all: log gets what the programs
	// write to their standard error, and threads is how many there are to use.
	Start(threads int, log func(format string, args ...any))
	// Waiting lists the requests that are not answered, the oldest first.
	Waiting() []Wait
	// Close ends the programs, with all that they have started, and waits until they
	// are gone.
	Close()
}

// SlowAfter is how long a request is waited for before anybody is told of it.
const SlowAfter = 20 * time.Second

// Open starts the programs of an environment that has any. It reports their oldest
// request that has waited for longer than slow, soon after and each time that long
// again, and nil once there is none any more. end stops that, after a last nil if a
// request was reported, and ends the programs.
func Open(e Env, threads int, log func(format string, args ...any), slow time.Duration, report func(oldest *Wait, waited time.Duration)) (end func()) {
	programs, ok := e.(Programs)
	if !ok {
		return func() {}
	}
	programs.Start(threads, log)
	ticker := time.NewTicker(max(time.Millisecond, slow/looksPerReport))
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer ticker.Stop()
		watchWaits(programs.Waiting, slow, ticker.C, ended, report)
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
		programs.Close()
	})
}

// looksPerReport is how often a watcher looks in the time after which it reports.
const looksPerReport = 4

func watchWaits(waiting func() []Wait, slow time.Duration, ticks <-chan time.Time, ended <-chan struct{}, report func(*Wait, time.Duration)) {
	var reported time.Time // zero: nothing is
	for {
		var oldest []Wait
		var now time.Time
		select {
		case now = <-ticks:
			oldest = waiting()
		case <-ended:
		}
		late := len(oldest) > 0 && now.Sub(oldest[0].Since) >= slow
		switch {
		case late && now.Sub(reported) >= slow:
			report(&oldest[0], now.Sub(oldest[0].Since))
			reported = now
		case !late && !reported.IsZero():
			report(nil, 0)
			reported = time.Time{}
		}
		if now.IsZero() {
			return
		}
	}
}
