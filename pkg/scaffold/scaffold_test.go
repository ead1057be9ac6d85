package scaffold

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func TestSingle(t *testing.T) {
	t.Parallel()
	if next := (Single{}).Next(Trace{Attempts: []Attempt{{Spoke: true}}}, env.Traits{}); !next.Done {
		t.Errorf("after one attempt: %+v", next)
	}
}

// An attempt of 5 turns that wait takes 5 waves. A chain of 4 of them goes on
// to the next in the wave in which one ends; who chooses by scores cannot.
func TestWaves(t *testing.T) {
	t.Parallel()
	slow, quick := env.Traits{Waves: 5}, env.Traits{Waves: 1}
	for _, c := range []struct {
		scaffold Scaffold
		attempts int
		traits   env.Traits
		want     int
	}{
		{Single{}, 1, quick, 1},
		{Single{}, 1, slow, 5},
		{Single{}, 4, slow, 5}, // it ends after the first
		{Chain{Steps: 3}, 4, quick, 1},
		{Chain{Steps: 3}, 4, slow, 4*4 + 1},
		{Chain{Steps: 3}, 2, slow, 2*4 + 1}, // no more attempts than there may be
		{Greedy{Steps: 3}, 4, quick, 4},
		{Greedy{Steps: 3}, 4, slow, 4 * 5},
	} {
		if got := Waves(c.scaffold, c.attempts, c.traits); got != c.want {
			t.Errorf("%T of %d attempts with waves %d: %d waves, want %d", c.scaffold, c.attempts, c.traits.Waves, got, c.want)
		}
	}
}

// TestChain by hand, with K = 2.
func TestChain(t *testing.T) {
	t.Parallel()
	said := Attempt{Kind: shard.KindInitial, Spoke: true}
	improved := Attempt{Kind: shard.KindImprove, Spoke: true}
	for _, c := range []struct {
		what     string
		attempts []Attempt
		traits   env.Traits
		want     Next
	}{
		{"one answer", []Attempt{said}, env.Traits{}, Next{Kind: shard.KindImprove, Parent: 0}},
		{"two answers", []Attempt{said, improved}, env.Traits{}, Next{Kind: shard.KindImprove, Parent: 1}},
		{"K steps", []Attempt{said, improved, improved}, env.Traits{}, Next{Done: true}},
		{"no room for an improvement", []Attempt{said, silent}, env.Traits{}, Next{Kind: shard.KindImprove, Parent: 0}},
		{"no room at all", []Attempt{silent}, env.Traits{}, Next{Kind: shard.KindInitial, Parent: -1}},
		{"by message", []Attempt{said}, env.Traits{ByMessage: true}, Next{Kind: shard.KindInitial, Parent: -1, Drafts: 1}},
		{"what came of it is not known", []Attempt{said}, env.Traits{Validated: true}, Next{Wait: true}},
		{"by message again", []Attempt{said, said}, env.Traits{ByMessage: true}, Next{Kind: shard.KindInitial, Parent: -1, Drafts: 2}},
	} {
		if got := (Chain{Steps: 2, Kind: shard.KindImprove}).Next(Trace{Attempts: c.attempts}, c.traits); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	if got := (Chain{Steps: 1, Kind: shard.KindDiverge}).Next(Trace{Attempts: []Attempt{said}}, env.Traits{}); got.Kind != shard.KindDiverge {
		t.Errorf("a chain of divergences goes on with %+v", got)
	}
}
