package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// protocol is the version of the protocol that we speak.
const protocol = 1

// The requests of the protocol.
const (
	verbDescribe = "describe"
	verbTasks    = "tasks"
	verbPrompt   = "prompt"
	verbBegin    = "begin"
	verbNext     = "next"
	verbClose    = "close"
	verbScore    = "score"
)

const (
	idleTime     = time.Minute // after which a program that holds no episode is ended
	maxSaidBytes = 400         // of what a program says of one item that an error shows
	mostInARow   = 32          // requests that fail one after the other, by any program, until no more are made
)

// description is what a program says of itself.
type description struct {
	Protocol int      `json:"protocol"`
	Name     string   `json:"name"`
	Does     []string `json:"does"`
	Answer   *bool    `json:"answer"` // false: tasks need none
}

// errLost is the answer to who had an episode in a program that is gone, by no
// fault of this request.
var errLost = errors.New("the program that had the episode has ended")

// itemError is what the program says of one thing that it was asked for.
type itemError struct {
	verb, said string
}

func (e *itemError) Error() string {
	return fmt.Sprintf("env.program.command cannot %s: %s", e.verb, stdio.Clip(e.said, maxSaidBytes))
}

// Is has it that the program runs well and refuses the item.
func (e *itemError) Is(target error) bool { return target == env.ErrOwnProgram }

// pool are the programs of one environment. Each answers one request at a time; what
// is asked at the same time is asked together, up to the batch of the settings. When
// a request of several fails, each is asked again alone, so that what one response
// does to the program is no other's.
type pool struct {
	launcher *launcher
	settings Program

	workers sync.WaitGroup // that serve slots
	waits   env.Waits      // requests that are not answered

	mutex   sync.Mutex
	changed *sync.Cond
	alive   map[*stdio.Process]bool // all that were started and have not been ended
	most    int                     // programs at a time
	slots   []*slot                 // made as they are needed
	shared  []*call                 // that any program may take
	waiting int                     // workers that have nothing to do
	failed  int                     // requests in a row that failed alone
	talked  int                     // programs that said what they were not asked
	broken  error                   // why no more requests are made
	closed  bool
	about   *description
}

// slot is the place of one program.
type slot struct {
	own      []*call // of the episodes that its program has
	episodes int
	working  bool // a goroutine serves it
	idle     bool // for so long that its program may end
	// generation counts its programs: an episode of an earlier one is lost.
	generation int
	process    *stdio.Process // of the worker alone
}

// call is a thing that a program is asked for.
type call struct {
	verb       string
	item       any
	alone      bool // it shares its request with no other
	generation int  // of the slot's program that it is for
	tries      int
	result     json.RawMessage
	err        error
	done       chan struct{}
}

func newPool(l *launcher) *pool {
	p := &pool{
		launcher: l, settings: l.settings, most: l.settings.Processes,
		alive: map[*stdio.Process]bool{},
	}
	if p.most == 0 {
		p.most = runtime.GOMAXPROCS(0)
	}
	p.changed = sync.NewCond(&p.mutex)
	return p
}

// useThreads bounds the programs by the cores of the task, where the settings do not.
func (p *pool) useThreads(n int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.settings.Processes == 0 && n > 0 {
		p.most = n
	}
}

// place takes a slot for an episode: the one with the fewest.
func (p *pool) place() *slot {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.slots) < p.most && !slices.ContainsFunc(p.slots, func(s *slot) bool { return s.episodes == 0 }) {
		p.slots = append(p.slots, &slot{})
	}
	s := slices.MinFunc(p.slots, func(a, b *slot) int { return a.episodes - b.episodes })
	s.episodes++
	return s
}

func (p *pool) leave(s *slot) {
	p.mutex.Lock()
	s.episodes--
	p.mutex.Unlock()
}

// generationOf is that of the slot's program.
func (p *pool) generationOf(s *slot) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return s.generation
}

// ask has any program answer.
func (p *pool) ask(ctx context.Context, verb string, item any) (json.RawMessage, error) {
	return p.wait(ctx, nil, &call{verb: verb, item: item})
}

// wait queues a call, for the program of a slot or for any, and waits for its answer.
func (p *pool) wait(ctx context.Context, s *slot, c *call) (json.RawMessage, error) {
	c.done = make(chan struct{})
	if err := p.queue(s, c); err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
		return nil, ctx.Err() // what the program says to it nobody reads
	}
}

func (p *pool) queue(s *slot, c *call) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.broken != nil {
		return p.broken
	}
	if s != nil {
		s.own = append(s.own, c)
		p.serve(s)
	} else {
		p.shared = append(p.shared, c)
		p.serveShared()
	}
	p.changed.Broadcast()
	return nil
}

// serveShared makes sure that somebody takes what any program may take.
func (p *pool) serveShared() {
	if p.waiting > 0 && len(p.shared) <= p.waiting {
		return
	}
	for _, s := range p.slots {
		if !s.working {
			p.serve(s)
			return
		}
	}
	if len(p.slots) < p.most {
		s := &slot{}
		p.slots = append(p.slots, s)
		p.serve(s)
	}
}

func (p *pool) serve(s *slot) {
	if !s.working {
		s.working, s.idle = true, false
		p.workers.Go(func() { p.work(s) })
	}
}

// work serves a slot until it is idle.
func (p *pool) work(s *slot) {
	for {
		batch := p.take(s)
		if batch == nil {
			return
		}
		results, err := p.request(s, batch)
		p.settle(s, batch, results, err)
	}
}

// take waits for calls that make one request. None are left when the slot has been
// idle.
func (p *pool) take(s *slot) []*call {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var timer *time.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		s.own = slices.DeleteFunc(s.own, func(c *call) bool {
			lost := c.generation != s.generation
			if lost {
				c.finish(nil, errLost)
			}
			return lost
		})
		if batch := p.takeFrom(&s.own, p.settings.Batch); batch != nil {
			return batch
		}
		// A share of what waits leaves something for the other programs.
		share := (len(p.shared) + p.most - 1) / max(1, p.most)
		if batch := p.takeFrom(&p.shared, min(p.settings.Batch, max(1, share))); batch != nil {
			return batch
		}
		if s.idle && s.episodes == 0 || p.broken != nil {
			s.working = false
			p.endProgram(s)
			return nil
		}
		if timer == nil {
			timer = time.AfterFunc(idleTime, func() {
				p.mutex.Lock()
				s.idle = true
				p.mutex.Unlock()
				p.changed.Broadcast()
			})
		}
		p.waiting++
		p.changed.Wait()
		p.waiting--
	}
}

// takeFrom takes the first call, and those behind it that can share its request.
func (p *pool) takeFrom(from *[]*call, most int) []*call {
	calls := *from
	if len(calls) == 0 {
		return nil
	}
	n := 1
	for n < len(calls) && n < most && !calls[0].alone && !calls[n].alone && calls[n].verb == calls[0].verb {
		n++
	}
	*from = calls[n:]
	return calls[:n:n]
}

// endProgram ends the program of a slot. The caller has the lock.
func (p *pool) endProgram(s *slot) {
	lost := s.process
	s.process = nil
	s.generation++
	if lost != nil {
		delete(p.alive, lost)
		p.mutex.Unlock()
		lost.Close()
		p.mutex.Lock()
	}
}

// request makes one request of calls of the same kind, and is what the program says
// to each. An error with results of none says nothing of any call alone.
func (p *pool) request(s *slot, batch []*call) ([]json.RawMessage, error) {
	if err := p.ready(s); err != nil {
		return nil, err
	}
	if pinned(batch[0].verb) && batch[0].generation != s.generation {
		return nil, errLost // the program has just been replaced
	}
	items := make([]any, len(batch))
	for i, c := range batch {
		items[i] = c.item
	}
	patience := seconds(p.settings.Seconds * float64(len(batch)))
	defer p.begin(batch[0].verb+" "+plural.Count(len(batch), "item"), patience, "env.program.seconds, for each item")()
	a, err := s.process.Ask(context.Background(), stdio.Request{batch[0].verb: items}, patience)
	if err != nil {
		return nil, err
	}
	if a.Error != nil {
		return nil, &itemError{batch[0].verb, *a.Error}
	}
	var results []json.RawMessage
	if json.Unmarshal(a.Result, &results) != nil || len(results) != len(batch) {
		return nil, fmt.Errorf("the program %q answered %s of %q with %s, want a list of as many results",
			p.settings.Command[0], plural.Count(len(batch), "item"), batch[0].verb, stdio.Shown(a.Result))
	}
	return results, nil
}

// settle hands out what came of a request.
func (p *pool) settle(s *slot, batch []*call, results []json.RawMessage, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var item *itemError
	switch {
	case err == nil:
		p.failed = 0
		for i, c := range batch {
			c.finish(results[i], errorIn(c.verb, results[i]))
		}
		return
	case p.broken != nil, errors.Is(err, errLost):
	case errors.As(err, &item): // the program is well, and refuses
		if len(batch) == 1 {
			p.failed = 0
		}
	default:
		p.endProgram(s)
		if len(batch) == 1 {
			if p.failed++; p.failed >= mostInARow {
				p.broken = exitcode.Unavailablef("%d requests in a row failed; the last: %w", p.failed, err)
			}
		}
	}
	for _, c := range batch {
		switch {
		case p.broken != nil:
			c.finish(nil, p.broken)
		case len(batch) == 1 && (item != nil || pinned(c.verb) || c.verb == verbScore || c.tries >= p.settings.Retries):
			c.finish(nil, err)
		case pinned(c.verb) && item == nil:
			c.finish(nil, errLost)
		case pinned(c.verb):
			c.alone = true
			s.own = append(s.own, c)
		default:
			if len(batch) == 1 {
				c.tries++
			}
			c.alone = true
			p.shared = append(p.shared, c)
		}
	}
	if p.broken != nil {
		for _, c := range slices.Concat(append([][]*call{p.shared}, owned(p.slots)...)...) {
			c.finish(nil, p.broken)
		}
		p.shared = nil
		for _, s := range p.slots {
			s.own = nil
		}
	}
	p.serveShared()
	p.changed.Broadcast()
}

// pinned reports whether a request is for the one program that has an episode.
func pinned(verb string) bool { return verb == verbBegin || verb == verbNext || verb == verbClose }

func owned(slots []*slot) [][]*call {
	var all [][]*call
	for _, s := range slots {
		all = append(all, s.own)
	}
	return all
}

func (c *call) finish(result json.RawMessage, err error) {
	c.result, c.err = result, err
	close(c.done)
}

// refusal is in every result: a result may say that it has no error.
type refusal struct {
	Error *string `json:"error"`
}

// errorIn is the error that a result says.
func errorIn(verb string, result json.RawMessage) error {
	var said refusal
	if json.Unmarshal(result, &said) == nil && said.Error != nil {
		return &itemError{verb, *said.Error}
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
