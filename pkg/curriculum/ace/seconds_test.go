package ace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func perSecond(seed uint64) *Ace {
	spec := *DefaultSettings()
	spec.PerSecond = true
	return New(spec, seed)
}

func TestConformPerSecond(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New: func(seed uint64) curriculum.Curriculum { return perSecond(seed) },
		Rows: func(iterations int) int {
			return 3*curriculumtest.Tasks + iterations*curriculumtest.Prompts*(1+curriculumtest.Group)
		},
		Adapt: func(r *curriculum.Response) { r.Score.ExecuteSeconds = float64(1 + r.Sample) },
	})
}

// By hand: 4 and 6 s of leaf are 10 s of 2 responses; what failed for reasons of its own
// does not count. Then 1 and 1 s: 0.9·10 + 2 = 11 s of 0.9·2 + 2 = 3.8.
func TestSeconds(t *testing.T) {
	t.Parallel()
	took := func(outcome shard.Outcome, all ...float64) curriculum.Group {
		g := curriculum.Group{Instance: shard.Instance{TaskID: "leaf"}}
		for _, s := range all {
			g.Responses = append(g.Responses, curriculum.Response{Score: shard.Score{Outcome: string(outcome), ExecuteSeconds: s}})
		}
		return g
	}
	first := took(shard.OutcomeOK, 4, 6)
	first.Responses = append(first.Responses, took(shard.OutcomeInfra, 100).Responses...)
	all := after(nil, []curriculum.Group{first, took(shard.OutcomeInfra, 7)})
	if diff := cmp.Diff([]seconds{{"leaf", 10, 2}}, all, cmp.AllowUnexported(seconds{}), near); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	all = after(all, []curriculum.Group{took(shard.OutcomeWrong, 1, 1)})
	want := []seconds{{"leaf", 11, 3.8}}
	if diff := cmp.Diff(want, secondsOf(secondsStats(all, 3)), cmp.AllowUnexported(seconds{}), near); diff != "" {
		t.Errorf("then, written and read (-want +got):\n%s", diff)
	}
}

// Potentials of 0.5 at 10 s, of 0.1 at 1 s and of 0.11 at their mean, 5.5 s: the second is
// worth most, and of three drafts its rank is 0. A task that takes no time counts as one of
// a millisecond.
func TestWorth(t *testing.T) {
	t.Parallel()
	state := curriculum.State{Iteration: 1, Entries: []shard.Entry{
		{EntryID: draftID("leaf"), TaskID: "leaf", Kind: "initial", Potential: .5},
		{EntryID: draftID("pizza"), TaskID: "pizza", Kind: "initial", Potential: .1},
		{EntryID: draftID("forest"), TaskID: "forest", Kind: "initial", Potential: .11},
	}, Stats: secondsStats([]seconds{{"leaf", 20, 2}, {"pizza", 2, 2}}, 1)}
	a := perSecond(1)
	if diff := cmp.Diff([]float64{.05, .1, .02}, a.worth(state, state.Entries), near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{.5, 0, 1}, a.distribution(state, state.Entries, 3).rank, near); diff != "" {
		t.Errorf("ranks (-want +got):\n%s", diff)
	}
	state.Stats = secondsStats([]seconds{{"pizza", 0, 2}}, 1)
	if diff := cmp.Diff([]float64{500, 100, 110}, a.worth(state, state.Entries), near); diff != "" {
		t.Errorf("without time (-want +got):\n%s", diff)
	}
	a.spec.PerSecond = false
	if diff := cmp.Diff([]float64{.5, .1, .11}, a.worth(state, state.Entries)); diff != "" {
		t.Errorf("AceGRPO's own (-want +got):\n%s", diff)
	}
}
