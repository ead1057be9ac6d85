package credit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// in puts a group into an environment.
func in(environment string, g Group) Group {
	g.Instance.Env = environment
	return g
}

// of gives a composition the choices of environments of their own.
func of(t must.TB, c Composition, own map[string]Selection) Composition {
	c.SelectOf = map[string][]Select{}
	for name, selection := range own {
		c.SelectOf[name] = must.Get(selection.choices())(t)
	}
	return c
}

func selecting(t testing.TB, s Selection) Composition {
	return plain(t, func(r *sections) { r.Select = s })
}

func reasonsOf(segments [][]Segment) (all [][]string) {
	for _, group := range segments {
		var reasons []string
		for _, s := range group {
			reasons = append(reasons, s.Dropped+s.Masked)
		}
		all = append(all, reasons)
	}
	return all
}

// TestSelectOf: three environments whose responses are the same, two of equal rewards, the
// first of which was cut off. The recipe drops constant groups; b drops nothing, and c what
// was cut off.
func TestSelectOf(t *testing.T) {
	t.Parallel()
	cut := said(shard.OutcomeOK, 1, 2)
	cut.Contexts[0].FinishReason = "length"
	group := Group{Traces: []Trace{cut, said(shard.OutcomeOK, 1, 3)}}
	c := of(t, selecting(t, Named(ReasonConstantGroup)), map[string]Selection{"b": {}, "c": Named(ReasonOverlong)})
	got := reasonsOf(assign(t, c, in("a", group), in("b", group), in("c", group)))
	want := [][]string{{ReasonConstantGroup, ReasonConstantGroup}, {"", ""}, {ReasonOverlong, ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

// TestStatisticsOfEnvironments: p takes the 70th percentile of its first four scores, 0.305
// as in TestValuableSteps, q the median of its first two, 0.25, and r, as the recipe says,
// everything. Both keep their thresholds under their names.
func TestStatisticsOfEnvironments(t *testing.T) {
	t.Parallel()
	c := of(t, steps(t, Selection{}), map[string]Selection{"p": above(70, 4), "q": above(50, 2)})
	first := []Group{
		in("p", ofTask("p/t", shard.KindInitial, acted(.1, .2), acted(.3), acted(.35, .32))),
		in("q", ofTask("q/t", shard.KindInitial, acted(.1), acted(.4))),
		in("r", ofTask("r/t", shard.KindInitial, acted(.1))),
	}
	const low = ReasonBelowPercentile
	segments, stats, err := c.Assign(1, nil, first)
	must.Do(t, err)
	if diff := cmp.Diff([][]string{{low, low, low, "", ""}, {low, ""}, {""}}, reasonsOf(segments)); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	var kept []shard.Stat
	for _, s := range stats {
		if s.Name == nameThreshold {
			kept = append(kept, s)
		}
	}
	want := []shard.Stat{
		{Scope: "p/threshold", Key: "p/t", Name: nameThreshold, Iteration: 1, Value: .305},
		{Scope: "q/threshold", Key: "q/t", Name: nameThreshold, Iteration: 1, Value: .25},
	}
	if diff := cmp.Diff(want, kept, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("thresholds (-want +got):\n%s", diff)
	}
	segments, next, err := c.Assign(2, stats, []Group{in("q", ofTask("q/t", shard.KindInitial, acted(.2), acted(.26))), in("p", ofTask("p/t", shard.KindInitial, acted(.3), acted(.31)))})
	must.Do(t, err)
	if diff := cmp.Diff([][]string{{low, ""}, {low, ""}}, reasonsOf(segments)); diff != "" {
		t.Errorf("dropped in the next iteration (-want +got):\n%s", diff)
	}
	if len(next) < len(kept) {
		t.Errorf("the thresholds are lost: %v", next)
	}
}

// TestEnvironmentsApart: what is dropped of an environment with choices of its own is what a
// recipe with these choices drops of it alone.
func TestEnvironmentsApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		selections := map[string]Selection{}
		var groups []Group
		for _, name := range []string{"a", "b", "c"} {
			if name != "a" { // which is as the recipe says
				selections[name] = Named(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{ReasonConstantGroup, ReasonMinGroup, ReasonOverlong, ReasonInvalid, ReasonMinAdvantage}), 0, 5, rapid.ID).Draw(r, name)...)
			}
		}
		for range rapid.IntRange(1, 6).Draw(r, "groups") {
			g := Group{Instance: shard.Instance{Env: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "environment")}}
			for range rapid.IntRange(1, 4).Draw(r, "traces") {
				trace := said(rapid.SampledFrom([]shard.Outcome{shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeInvalid, shard.OutcomeInfra}).Draw(r, "outcome"), float64(rapid.IntRange(0, 2).Draw(r, "reward"))/2, rapid.IntRange(0, 2).Draw(r, "tokens"))
				trace.Contexts[0].FinishReason = rapid.SampledFrom([]string{"stop", "length"}).Draw(r, "finish")
				g.Traces = append(g.Traces, trace)
			}
			groups = append(groups, g)
		}
		recipes := Named(ReasonConstantGroup)
		got := reasonsOf(assign(t, of(t, selecting(t, recipes), selections), groups...))
		for i, g := range groups {
			own, has := selections[g.Instance.Env]
			if !has {
				own = recipes
			}
			if diff := cmp.Diff(reasonsOf(assign(t, selecting(t, own), g))[0], got[i]); diff != "" {
				r.Fatalf("group %d of %s (-alone +among others):\n%s", i, g.Instance.Env, diff)
			}
		}
	})
}
