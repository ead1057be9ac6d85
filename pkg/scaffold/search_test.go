package scaffold

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// said makes an attempt that is valid and says its validation score. Its test
// score is the opposite, so that whoever chooses by that chooses otherwise.
func said(validation float64) Attempt {
	return Attempt{Kind: shard.KindInitial, Spoke: true, Verdict: &env.TurnVerdict{
		Outcome: shard.OutcomeOK, RawScore: -validation, NormalizedScore: 1 - validation, Reward: 1 - validation,
		Parts: []shard.RewardPart{{Name: env.PartValidation, Value: validation}},
	}}
}

var (
	mute    = Attempt{Kind: shard.KindInitial, Spoke: true, Verdict: &env.TurnVerdict{Outcome: shard.OutcomeOK, NormalizedScore: 1}} // valid, says nothing
	failed  = Attempt{Kind: shard.KindInitial, Spoke: true, Verdict: &env.TurnVerdict{Outcome: shard.OutcomeInvalid}}
	unknown = Attempt{Kind: shard.KindInitial, Spoke: true}
	silent  = Attempt{Kind: shard.KindInitial}
)

func draft() Next             { return Next{Kind: shard.KindInitial, Parent: -1} }
func improve(parent int) Next { return Next{Kind: shard.KindImprove, Parent: parent} }
func debug(parent int) Next   { return Next{Kind: shard.KindDebug, Parent: parent} }

func TestBest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempts []Attempt
		want     int
	}{
		{[]Attempt{failed, silent}, -1},
		{[]Attempt{said(0.2), said(0.8), said(0.5)}, 1},
		{[]Attempt{said(0.8), said(0.8)}, 0},
		{[]Attempt{mute, said(-3)}, 1},
		{[]Attempt{mute, mute}, 0},
		{[]Attempt{failed, mute}, 1},
		{[]Attempt{said(0.1), unknown}, 0},
	} {
		if got := Best(c.attempts); got != c.want {
			t.Errorf("best of %d attempts: %d, want %d", len(c.attempts), got, c.want)
		}
	}
}

// TestSearch by hand, with 4 attempts after the first.
func TestSearch(t *testing.T) {
	t.Parallel()
	greedy, drafts := Greedy{Steps: 4}, Drafts{Steps: 4, DraftsSettings: DraftsSettings{Drafts: 3}}
	always := AIDE{Steps: 4, AIDESettings: AIDESettings{Drafts: 2, Debug: 1, MaxDebugging: 1}}
	never := AIDE{Steps: 4, AIDESettings: AIDESettings{Drafts: 2, Debug: 0, MaxDebugging: 1}}
	wait, done := Next{Wait: true}, Next{Done: true}
	for _, c := range []struct {
		what     string
		of       Scaffold
		attempts []Attempt
		want     Next
	}{
		{"greedy: what came of it is not known", greedy, []Attempt{said(0.1), unknown}, wait},
		{"greedy: the best is not the last", greedy, []Attempt{said(0.5), said(0.9), said(0.7)}, improve(1)},
		{"greedy: the last failed", greedy, []Attempt{said(0.5), failed}, debug(1)},
		{"greedy: the first is the best", greedy, []Attempt{said(0.9), said(0.7)}, improve(0)},
		{"greedy: one step is left", greedy, []Attempt{mute, mute, mute, said(0.9)}, improve(3)},
		{"drafts: the first is the best", drafts, []Attempt{said(0.9), said(0.7), failed}, improve(0)},
		{"aide: one step is left", always, []Attempt{said(0.1), said(0.5), said(0.6), said(0.9)}, improve(3)},
		{"aide: K steps", always, []Attempt{mute, mute, mute, mute, unknown}, done},
		{"aide: an improvement is no draft", AIDE{Steps: 4, AIDESettings: AIDESettings{Drafts: 1}}, []Attempt{said(0.1), said(0.5)}, improve(1)},
		{"greedy: all failed", greedy, []Attempt{failed}, debug(0)},
		{"greedy: no room", greedy, []Attempt{silent}, draft()},
		{"greedy: K steps", greedy, []Attempt{mute, mute, mute, mute, unknown}, done},
		{"drafts: not all there", drafts, []Attempt{unknown, unknown}, draft()},
		{"drafts: not known", drafts, []Attempt{unknown, unknown, unknown}, wait},
		{"drafts: the best of them", drafts, []Attempt{said(0.3), said(0.4), failed}, improve(1)},
		{"drafts: an improvement is the best", drafts, []Attempt{said(0.3), said(0.4), failed, said(0.6)}, improve(3)},
		{"drafts: none is valid", drafts, []Attempt{failed, failed, failed}, debug(2)},
		{"aide: drafts first", always, []Attempt{failed}, draft()},
		{"aide: a failed leaf", always, []Attempt{failed, said(0.5)}, debug(0)},
		{"aide: debugged once, in vain", always, []Attempt{failed, said(0.5), failed}, improve(1)},
		{"aide: debugged and mended", always, []Attempt{failed, said(0.5), said(0.6)}, improve(2)},
		{"aide: an improvement failed", always, []Attempt{said(0.4), said(0.5), failed}, debug(2)},
		{"aide: never debugs", never, []Attempt{failed, said(0.5), failed}, improve(1)},
		{"aide: nothing valid, nothing to debug", never, []Attempt{failed, failed}, draft()},
	} {
		if got := c.of.Next(Trace{Attempts: c.attempts, Stream: rng.New(1, rng.PurposeTest, 0, "", 0)}, env.Traits{}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// TestDebugging: after four drafts, three of them failed, AIDE debugs one of the three with
// the probability 0.3, each alike, and improves on the valid one otherwise.
func TestDebugging(t *testing.T) {
	t.Parallel()
	aide := AIDE{Steps: 9, AIDESettings: AIDESettings{Drafts: 4, Debug: 0.3, MaxDebugging: 1}}
	counts := map[Next]int{}
	for i := range 3000 {
		trace := Trace{Attempts: []Attempt{failed, said(0.9), failed, failed}, Stream: rng.New(1, rng.PurposeTest, 0, "", i)}
		counts[aide.Next(trace, env.Traits{})]++
	}
	// Of 3,000: 2100 ± 25 and 300 ± 16; four standard deviations.
	for next, want := range map[Next][2]int{improve(1): {2000, 2200}, debug(0): {235, 365}, debug(2): {235, 365}, debug(3): {235, 365}} {
		if n := counts[next]; n < want[0] || n > want[1] {
			t.Errorf("%+v: %d times, want %d to %d", next, n, want[0], want[1])
		}
	}
}

// TestBudget: three attempts of 2 seconds and a budget of 5.
func TestBudget(t *testing.T) {
	t.Parallel()
	two := said(0.5)
	two.Seconds = 2
	budget := Budget{Scaffold: Chain{Steps: 9, Kind: shard.KindImprove}, Seconds: 5}
	for n, want := range map[int]Next{1: improve(0), 2: improve(1), 3: {Done: true}} {
		var attempts []Attempt
		for range n {
			attempts = append(attempts, two)
		}
		if got := budget.Next(Trace{Attempts: attempts}, env.Traits{}); got != want {
			t.Errorf("after %d attempts: %+v, want %+v", n, got, want)
		}
	}
	budget.Seconds = 4 // which two have used up
	if got := budget.Next(Trace{Attempts: []Attempt{two, two}}, env.Traits{}); !got.Done {
		t.Errorf("after all of the budget: %+v", got)
	}
	budget.Scaffold = Single{} // which needs no score to end
	if got := budget.Next(Trace{Attempts: []Attempt{unknown}}, env.Traits{}); !got.Done {
		t.Errorf("what has ended: %+v", got)
	}
	budget.Scaffold = Chain{Steps: 9, Kind: shard.KindImprove}
	if got := budget.Next(Trace{Attempts: []Attempt{two, unknown}}, env.Traits{}); !got.Wait {
		t.Errorf("seconds that are not known: %+v, want to wait", got)
	}
}

// TestBudgetAlone: under a budget steps of 0 bound nothing. An attempt counts as a part of
// the budget at least, which bounds the waves, and prompts without room end the trace.
func TestBudgetAlone(t *testing.T) {
	t.Parallel()
	if Bound(0, 0) != 0 || Bound(3, 0) != 3 || Bound(3, 10) != 3 {
		t.Errorf("bounds %d, %d, %d", Bound(0, 0), Bound(3, 0), Bound(3, 10))
	}
	budget := Budget{Scaffold: Chain{Steps: Bound(0, 10), Kind: shard.KindImprove}, Seconds: 10}
	traits := env.Traits{Validated: true, Turns: 15, Waves: 15}
	if n := Waves(budget, 1+Bound(0, 10), traits); n != MostTurns {
		t.Errorf("%d waves, want %d", n, MostTurns)
	}
	quick := said(0.5)
	quick.Turns = 1
	attempts := make([]Attempt, MostTurns)
	for i := range attempts {
		attempts[i] = quick
	}
	if next := budget.Next(Trace{Attempts: attempts[:MostTurns-1]}, traits); next.Done {
		t.Error("no time has passed, and the trace is over")
	}
	if next := budget.Next(Trace{Attempts: attempts}, traits); !next.Done {
		t.Errorf("after %d turns: %+v", MostTurns, next)
	}
	if next := budget.Next(Trace{Attempts: []Attempt{quick, silent, silent}}, traits); !next.Done {
		t.Errorf("two prompts without room: %+v", next)
	}
}

// TestNoTestScore: what a scaffold chooses does not depend on anything that a
// blind score lacks.
func TestNoTestScore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var open, blind []Attempt
		for range rapid.IntRange(1, 12).Draw(rt, "attempts") {
			a := rapid.SampledFrom([]Attempt{failed, mute, silent, said(rapid.Float64Range(0, 1).Draw(rt, "validation"))}).Draw(rt, "attempt")
			if a.Verdict != nil {
				v := *a.Verdict
				v.RawScore, v.NormalizedScore = rapid.Float64().Draw(rt, "raw"), rapid.Float64Range(0, 1).Draw(rt, "normalised")
				v.Parts = append([]shard.RewardPart{{Name: "score", Value: v.RawScore}}, v.Parts...)
				a.Verdict = &v
			}
			open = append(open, a)
			if a.Verdict != nil {
				v := a.Verdict.Blind()
				a.Verdict = &v
			}
			blind = append(blind, a)
		}
		stream := rng.New(rapid.Uint64().Draw(rt, "seed"), rng.PurposeTest, 0, "", 0)
		for _, s := range []Scaffold{
			Chain{Steps: 20, Kind: shard.KindImprove},
			Greedy{Steps: 20},
			Drafts{Steps: 20, DraftsSettings: DraftsSettings{Drafts: 3}},
			AIDE{Steps: 20, AIDESettings: AIDESettings{Drafts: 3, Debug: 0.5, MaxDebugging: 2}},
		} {
			traits := env.Traits{Validated: true, Waves: 1}
			if a, b := s.Next(Trace{Attempts: open, Stream: stream}, traits), s.Next(Trace{Attempts: blind, Stream: stream}, traits); a != b {
				rt.Fatalf("%T: %+v, and blind %+v", s, a, b)
			}
		}
	})
}
