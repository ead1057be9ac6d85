package credit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// FlipTS Eq. 1 by hand: G = 2 traces of T = 2 turns, of 3 and 1 tokens,
// and of 2 and 4: each turn has 1/4 of the step in all.
func TestTurnMeans(t *testing.T) {
	t.Parallel()
	near := cmpopts.EquateApprox(1e-15, 0)
	const name = "seq_mean_turn_mean_token_mean"
	for _, c := range []struct {
		name  string
		spans [][]int
		want  [][]float64
	}{
		// Others weigh all turns of a sequence alike: of six tokens, and of four and two.
		{"token_mean", [][]int{{1, 3}, {2}}, [][]float64{{1. / 6, 1. / 6}, {1. / 6}}},
		{"seq_mean_token_mean", [][]int{{1, 3}, {2}}, [][]float64{{1. / 8, 1. / 8}, {1. / 4}}},
		{"token_mean", [][]int{{0}, {}}, nil},
		{name, [][]int{{3, 1}, {2, 4}}, [][]float64{{1. / 12, 1. / 4}, {1. / 8, 1. / 16}}},
		// A turn in which nothing was said has no weight, and is a turn.
		{name, [][]int{{3, 0}}, [][]float64{{1. / 6, 0}}},
		{name, [][]int{{0}, {}}, nil},
		{name, nil, nil},
	} {
		w, err := WeightAxis.Make(c.name, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Weights(c.spans, 0)
		if diff := cmp.Diff(c.want, got, near); diff != "" || err != nil {
			t.Errorf("%s of %v (-want +got): %v\n%s", c.name, c.spans, err, diff)
		}
	}
	if _, err := aggregation("x").Weights([][]int{{1}}, 0); err == nil {
		t.Error("x is a weight")
	}
}

// FlipTS §3.1: R(τ) = r_T, which is 1 or -1. Of four traces of two turns
// one ends well: the mean is -1/2, the population's standard deviation √3/2, and
// the advantages √3 and three times -1/√3. The dynamic filter of FlipTS App. D keeps
// the first.
func TestTrajectoryGRPO(t *testing.T) {
	t.Parallel()
	c := plain(t, func(r *sections) {
		r.Advantage = AdvantageSettings{Name: "group", Baseline: "mean", Scale: "std", ZeroScale: "divide", GroupOfOne: "zero"}
	})
	var err error
	if c.Reward, err = RewardAxis.Make("signed", nil); err != nil {
		t.Fatal(err)
	}
	filter, err := SelectAxis.Make(ReasonNonPositive, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Select = append(c.Select, filter)
	trace := func(first, last shard.Outcome) Trace {
		made := said(last, 0, 2, 3)
		made.Score.Turns = []shard.TurnScore{{Outcome: string(first)}, {Outcome: string(last)}}
		return made
	}
	ok, wrong := shard.OutcomeOK, shard.OutcomeWrong
	got := assign(t, c, Group{Traces: []Trace{trace(wrong, ok), trace(ok, wrong), trace(wrong, wrong), trace(wrong, wrong)}})[0]
	const root3 = 1.7320508075688772
	want := []Segment{
		{Last: 1, Reward: 1, Advantage: root3},
		{Trace: 1, Last: 1, Reward: -1, Advantage: -1 / root3, Dropped: "non_positive"},
		{Trace: 2, Last: 1, Reward: -1, Advantage: -1 / root3, Dropped: "non_positive"},
		{Trace: 3, Last: 1, Reward: -1, Advantage: -1 / root3, Dropped: "non_positive"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Segment{}, "Earned", "Factor", "Weight"), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("credit (-want +got):\n%s", diff)
	}
	if s := assign(t, c, Group{Traces: []Trace{trace(wrong, ok), trace(ok, ok), trace(ok, wrong)}})[0][0]; s.Dropped != "" || s.Advantage > 1 {
		t.Errorf("of a small advantage: %+v", s)
	}
	for _, s := range assign(t, c, Group{Traces: []Trace{trace(wrong, ok), trace(ok, ok)}})[0] {
		if s.Advantage != 0 || s.Dropped != "non_positive" {
			t.Errorf("of equal rewards: %+v, want no advantage, dropped by the filter alone", s)
		}
	}
}
