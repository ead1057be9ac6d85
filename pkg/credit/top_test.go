package credit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// topOf is a composition of STaR's filter over rewards that are compared with
// nothing.
func topOf(t testing.TB, share float64) Composition {
	t.Helper()
	c := plain(t, func(r *sections) { r.Advantage.Baseline = "none" })
	filter, err := SelectAxis.Make(ReasonBelowTop, &Top{Share: share})
	if err != nil {
		t.Fatal(err)
	}
	c.Select = append(c.Select, filter)
	return c
}

// Of eight samples five are valid, with scores 0.9, 0.5, 0.5, 0.4 and 0.1: half of
// five is 2.5, so three are kept; of a fifth one; of nine tenths (4.5) all.
func TestTop(t *testing.T) {
	t.Parallel()
	ok := func(score float64) Trace { return said(shard.OutcomeOK, score, 2) }
	mixed := []Trace{
		ok(.5), said(shard.OutcomeTimeout, 0, 2), ok(.1), ok(.9), said(shard.OutcomeInfra, 0, 2),
		ok(.4), said(shard.OutcomeInvalid, .95, 2), ok(.5),
	}
	const below = ReasonBelowTop
	for _, c := range []struct {
		what  string
		share float64
		group []Trace
		want  []string
	}{
		{"top half", .5, mixed, []string{"", below, below, "", "infra", below, below, ""}},
		{"top fifth", .2, mixed, []string{below, below, below, "", "infra", below, below, below}},
		{"equal scores stay together", .4, mixed, []string{"", below, below, "", "infra", below, below, ""}},
		{"top nine tenths", .9, mixed, []string{"", below, "", "", "infra", "", below, ""}},
		{"constant group", .5, []Trace{ok(.3), ok(.3), ok(.3)}, []string{"", "", ""}},
		{"group of one", .5, []Trace{ok(.3)}, []string{""}},
		{"what is not valid beats nobody", .5, []Trace{said(shard.OutcomeInvalid, .9, 2), said(shard.OutcomeInvalid, .9, 2), ok(.1)}, []string{below, below, ""}},
		{"none valid", .5, []Trace{said(shard.OutcomeInvalid, 0, 2), said(shard.OutcomeTimeout, 0, 2)}, []string{below, below}},
		{"all ours", .5, []Trace{said(shard.OutcomeInfra, 0, 2), said(shard.OutcomePreempted, 0, 2)}, []string{"infra", "preempted"}},
	} {
		var got []string
		for _, s := range assign(t, topOf(t, c.share), Group{Traces: c.group})[0] {
			got = append(got, s.Dropped)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", c.what, diff)
		}
	}
}

// 0.55 of 100 solutions with different scores are 55, and in general a share is
// never less than asked for by one or more; no kept solution is worse than one that
// is dropped.
func TestTopShare(t *testing.T) {
	t.Parallel()
	kept := func(t testing.TB, share float64, scores []float64) (n int, worst, best float64) {
		var group Group
		for _, score := range scores {
			group.Traces = append(group.Traces, said(shard.OutcomeOK, score, 1))
		}
		worst, best = 2, -1
		for i, s := range assign(t, topOf(t, share), group)[0] {
			if s.Dropped == "" {
				n, worst = n+1, min(worst, scores[i])
			} else {
				best = max(best, scores[i])
			}
		}
		return n, worst, best
	}
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i) / 100
	}
	if n, _, _ := kept(t, .55, hundred); n != 55 {
		t.Errorf("%d of 100 are the top 55 %%", n)
	}
	rapid.Check(t, func(rt *rapid.T) {
		share := float64(rapid.IntRange(1, 100).Draw(rt, "percent")) / 100
		scores := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 30).Draw(rt, "scores")
		n, worst, best := kept(t, share, scores)
		if float64(n) < share*float64(len(scores))-1e-9 || worst <= best {
			rt.Fatalf("%d of %d are kept with share %g, the worst %g, the best that is dropped %g", n, len(scores), share, worst, best)
		}
	})
}

// The filter leaves what it drops in the statistics of the group: rewards 1 and 0
// keep their mean 0.5.
func TestTopLeavesStatistics(t *testing.T) {
	t.Parallel()
	c := topOf(t, .5)
	advantage, err := AdvantageAxis.Make("group", &AdvantageSettings{Name: "group", Baseline: "mean", Scale: "none", ZeroScale: "divide", GroupOfOne: "zero"})
	if err != nil {
		t.Fatal(err)
	}
	c.Advantage = advantage
	got := assign(t, c, Group{Traces: []Trace{said(shard.OutcomeOK, 1, 1), said(shard.OutcomeOK, 0, 1)}})[0]
	if got[0].Advantage != .5 || got[0].Dropped != "" || got[1].Advantage != -.5 || got[1].Dropped != ReasonBelowTop {
		t.Errorf("%+v", got)
	}
	// What was dropped before counts nowhere: of two that are left one is the top half.
	c = topOf(t, .5)
	c.Select = append([]Select{phase(Before)}, c.Select...)
	got = assign(t, c, Group{Traces: []Trace{said(shard.OutcomeOK, 1, 1), said(shard.OutcomeOK, .9, 1), said(shard.OutcomeOK, .2, 1)}})[0]
	if got[0].Dropped != "" || got[1].Dropped != ReasonBelowTop || got[2].Dropped != "low" {
		t.Errorf("beside what was dropped before: %+v", got)
	}
}
