package program

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestQueue is who gets which of the calls that wait.
func TestQueue(t *testing.T) {
	t.Parallel()
	calls := func(words string) (all []*call) { // a verb's first letter; a capital is asked alone
		for _, r := range words {
			verb := map[rune]string{'s': verbScore, 'p': verbPrompt}[r|0x20]
			all = append(all, &call{verb: verb, alone: r < 'a', done: make(chan struct{})})
		}
		return all
	}
	p := newPool(&launcher{settings: Program{Batch: 4, Processes: 2}})
	for _, c := range []struct {
		words      string
		most, want int
	}{{"", 4, 0}, {"s", 4, 1}, {"sss", 4, 3}, {"sssss", 4, 4}, {"ssp", 4, 2}, {"Sss", 4, 1}, {"sSs", 4, 1}, {"ss", 1, 1}} {
		from := calls(c.words)
		if got := p.takeFrom(&from, c.most); len(got) != c.want || len(from) != len(c.words)-c.want {
			t.Errorf("of %q %d are taken and %d left, want %d taken", c.words, len(got), len(from), c.want)
		}
	}
	// Of 5 that wait each of two programs takes 3; of 9 it takes the batch of 4; own calls come first.
	for _, c := range []struct{ own, shared, want int }{{0, 1, 1}, {0, 5, 3}, {0, 9, 4}, {2, 5, 2}} {
		s := &slot{own: calls(strings.Repeat("s", c.own))}
		if p.shared = calls(strings.Repeat("s", c.shared)); len(p.take(s)) != c.want {
			t.Errorf("%+v: another number is taken", c)
		}
	}
	// A call of an earlier program is lost; a slot that is idle, or given up, is left.
	p.shared = nil
	lost := calls("s")[0]
	s := &slot{own: []*call{lost}, generation: 1, idle: true, working: true}
	if got := p.take(s); got != nil || s.working || s.generation != 2 || !errors.Is(lost.err, errLost) {
		t.Errorf("an idle slot takes %v, works %v, of generation %d; what was lost: %v", got, s.working, s.generation, lost.err)
	}
	p.broken = errors.New("given up")
	if s := (&slot{episodes: 1, working: true}); p.take(s) != nil || s.working {
		t.Error("a slot goes on after its pool was given up")
	}
	if err := p.queue(nil, calls("s")[0]); err != p.broken {
		t.Errorf("what is asked of a pool that was given up: %v", err)
	}
	// Episodes go to the slot with the fewest, a new one while there may be more.
	p = newPool(&launcher{settings: Program{Processes: 2}})
	a, b, c := p.place(), p.place(), p.place()
	if a == b || c != a || len(p.slots) != 2 {
		t.Errorf("three episodes lie in %d slots", len(p.slots))
	}
	if p.leave(b); p.place() != b {
		t.Error("the emptiest slot is not the next")
	}
	// Workers that wait take what is shared: no more are needed. Else one that rests, or a new one, is.
	for _, c := range []struct {
		waiting, shared int
		slots           string // w works, r rests
		want            string
	}{{1, 1, "w", "w"}, {1, 2, "w", "ww"}, {0, 1, "wr", "ww"}, {0, 1, "ww", "ww"}, {1, 1, "wr", "wr"}, {0, 1, "", "w"}} {
		p := newPool(&launcher{settings: Program{Processes: 2}})
		for _, state := range c.slots {
			p.slots = append(p.slots, &slot{working: state == 'w'})
		}
		p.waiting, p.shared = c.waiting, calls(strings.Repeat("s", c.shared))
		p.mutex.Lock()
		p.serveShared()
		got := ""
		for _, s := range p.slots {
			got += map[bool]string{true: "w", false: "r"}[s.working]
		}
		p.shared, p.waiting, p.broken = nil, 0, errors.New("over") // who serves now ends
		p.mutex.Unlock()
		if p.workers.Wait(); got != c.want {
			t.Errorf("%+v: the slots are %s", c, got)
		}
	}
	for _, c := range []struct{ own, threads, want int }{{0, 3, 3}, {2, 3, 2}, {0, 0, newPool(&launcher{}).most}} {
		p := newPool(&launcher{settings: Program{Processes: c.own}})
		if p.useThreads(c.threads); p.most != c.want || p.most < 1 {
			t.Errorf("%+v: %d programs at a time", c, p.most)
		}
	}
}

// TestSettle is what becomes of the calls of a request: an answer, a failure that is theirs, or
// another try, each alone. Five requests have failed in a row before.
func TestSettle(t *testing.T) {
	t.Parallel()
	item, crash := &itemError{verbScore, "no"}, errors.New("it crashed")
	for _, c := range []struct {
		what         string
		verb         string
		n, tries     int
		failed       int // before
		err          error
		want         error // of each call; nil where it has none or waits again
		shared, own  int   // that wait again
		after, lives int   // failures in a row, and generations of the slot's program
	}{
		{"answered", verbScore, 2, 0, 5, nil, nil, 0, 0, 0, 0},
		{"refused", verbScore, 1, 0, 5, item, item, 0, 0, 0, 0},
		{"refused together", verbScore, 2, 0, 5, item, nil, 2, 0, 5, 0},
		{"refused in an episode", verbNext, 1, 0, 5, item, item, 0, 0, 0, 0},
		{"refused together in episodes", verbNext, 2, 0, 5, item, nil, 0, 2, 5, 0},
		{"a score that crashes", verbScore, 1, 0, 5, crash, crash, 0, 0, 6, 1},
		{"scores that crash", verbScore, 2, 0, 5, crash, nil, 2, 0, 5, 1},
		{"a prompt that crashes", verbPrompt, 1, 0, 5, crash, nil, 1, 0, 6, 1},
		{"a prompt that crashes again", verbPrompt, 1, 1, 5, crash, crash, 0, 0, 6, 1},
		{"an episode that crashes", verbBegin, 1, 0, 5, crash, crash, 0, 0, 6, 1},
		{"episodes that crash", verbBegin, 2, 0, 5, crash, errLost, 0, 0, 5, 1},
		{"an end that was lost", verbClose, 2, 0, 5, errLost, errLost, 0, 0, 5, 0},
		{"the 31st failure", verbScore, 1, 0, 30, crash, crash, 0, 0, 31, 1},
		{"the 32nd failure", verbScore, 1, 0, 31, crash, crash, 0, 0, 32, 1},
	} {
		p := newPool(&launcher{settings: Program{Retries: 1, Processes: 1}})
		s := &slot{working: true} // nobody serves it
		p.slots, p.failed = []*slot{s}, c.failed
		var batch []*call
		var results []json.RawMessage
		for range c.n {
			batch = append(batch, &call{verb: c.verb, tries: c.tries, done: make(chan struct{})})
			results = append(results, json.RawMessage(`{}`))
		}
		p.settle(s, batch, results, c.err)
		for _, one := range batch {
			waits := c.shared+c.own > 0
			if !errors.Is(one.err, c.want) || waits != one.alone || (one.result != nil) != (c.err == nil) || one.tries != c.tries+oneIf(waits && c.n == 1) {
				t.Errorf("%s: %v, alone %v, after %d tries; want %v", c.what, one.err, one.alone, one.tries, c.want)
			}
		}
		if len(p.shared) != c.shared || len(s.own) != c.own || p.failed != c.after || s.generation != c.lives || (p.broken != nil) != (c.after == 32) {
			t.Errorf("%s: %d and %d wait, %d failures, %d programs, broken: %v; want %+v", c.what, len(p.shared), len(s.own), p.failed, s.generation, p.broken, c)
		}
	}
	// What waits when a pool is given up is given up too.
	p := newPool(&launcher{settings: Program{Processes: 1}})
	waiting, own := &call{done: make(chan struct{})}, &call{done: make(chan struct{})}
	s := &slot{working: true, own: []*call{own}}
	p.slots, p.shared, p.failed = []*slot{s}, []*call{waiting}, 31
	p.settle(s, []*call{{verb: verbScore, done: make(chan struct{})}}, nil, crash)
	if exitcode.Code(waiting.err) != exitcode.Unavailable || waiting.err != own.err || len(p.shared)+len(s.own) != 0 {
		t.Errorf("given up: %v and %v", waiting.err, own.err)
	}
	if err := errorIn(verbScore, json.RawMessage(`{"error": "x"}`)); err == nil || errorIn(verbScore, json.RawMessage(`{"error": null}`)) != nil || !errors.Is(err, env.ErrOwnProgram) {
		t.Errorf("a result with an error: %v", err)
	}
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
