package kvcache_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy/kvcache"
)

// full are the tokens of a page, all of one id.
func full(id int32) []int32 { return slices.Repeat([]int32{id}, kvcache.Tokens) }

func numbers(limit int) *kvcache.Pool[int] {
	return kvcache.New(limit, func(number int) int { return number })
}

// A full page that is kept is found by the tokens up to its end, and by no
// others; one that is not kept is not found.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	p := numbers(4)
	var start kvcache.Prefix
	one := start.Extend(full(1))
	two := one.Extend(full(2))
	pages := []*kvcache.Page[int]{p.Get(), p.Get()}
	p.Insert(pages[0], one)
	p.Insert(pages[1], two)
	p.Release(pages, true)
	dropped := p.Get()
	p.Insert(dropped, start.Extend(full(3)))
	p.Release([]*kvcache.Page[int]{dropped}, false)
	for name, test := range map[string]struct {
		prefix kvcache.Prefix
		want   *kvcache.Page[int]
	}{
		"the first page":           {one, pages[0]},
		"both pages":               {two, pages[1]},
		"the second page alone":    {start.Extend(full(2)), nil},
		"the pages the other way":  {start.Extend(full(2)).Extend(full(1)), nil},
		"a page that was not kept": {start.Extend(full(3)), nil},
	} {
		got := p.Lookup(test.prefix)
		if got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
		if got != nil {
			p.Release([]*kvcache.Page[int]{got}, true)
		}
	}
	p.Clear()
	if p.Lookup(one) != nil {
		t.Error("a page is found after Clear")
	}
	if err := p.CheckUnused(); err != nil {
		t.Error(err)
	}
}

// Pages run out, are given back, and of those that are kept the one that was
// used longest ago goes first, the end of a sequence before its beginning.
func TestEviction(t *testing.T) {
	t.Parallel()
	p := numbers(3)
	var start kvcache.Prefix
	first, second := p.Get(), p.Get()
	p.Insert(first, start.Extend(full(1)))
	p.Insert(second, start.Extend(full(1)).Extend(full(2)))
	p.Retain([]*kvcache.Page[int]{first}) // a second sequence begins with it
	if got := p.Available(); got != 1 {
		t.Errorf("%d pages are available, want 1", got)
	}
	p.Release([]*kvcache.Page[int]{first, second}, true)
	if got := p.Available(); got != 2 { // second is idle, first has a user
		t.Errorf("%d pages are available, want 2", got)
	}
	p.Release([]*kvcache.Page[int]{first}, true)
	if got := p.Get(); got == first || got == second {
		t.Error("a kept page is taken although there is a free one")
	}
	if got := p.Get(); got != second {
		t.Errorf("page %v is taken, want the one that was used longest ago", got)
	}
	if got := p.Lookup(start.Extend(full(1))); got != first {
		t.Errorf("got %v, want the page that was not taken", got)
	}
	if got := p.Get(); got != nil {
		t.Errorf("a fourth page of three: %v", got)
	}
	if err := p.CheckUnused(); err == nil || !strings.Contains(err.Error(), "0 pages of 3 are free or idle") {
		t.Errorf("three pages in use are reported as %v", err)
	}
}

func TestPagesOf(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[int]int{0: 0, 1: 1, 64: 1, 65: 2} {
		if got := kvcache.PagesOf(tokens); got != want {
			t.Errorf("%d tokens take %d pages, want %d", tokens, got, want)
		}
	}
}
