package credit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// scoredGroup is a group of a task; a negative score is a response without a submission.
func scoredGroup(task string, scores ...float64) (Group, []Segment) {
	g := Group{Instance: shard.Instance{TaskID: task}}
	var segments []Segment
	for i, s := range scores {
		outcome := shard.OutcomeOK
		if s < 0 {
			outcome = shard.OutcomeInvalid
		}
		g.Traces = append(g.Traces, Trace{Score: shard.Score{Outcome: string(outcome), NormalizedScore: max(0, s)}})
		segments = append(segments, Segment{Trace: i})
	}
	return g, segments
}

// By hand, with rank 3, margin 1/4 and α = 1. Iteration 1: of 0.6, 0.5, 0.4 and one without a
// submission B = 0.6 and W = 0.4 − 0.05 = 0.35, so rewards are 1, 0.6, 0.2 and 0. Iteration 2: the
// history has 0.6, 0.5 and 0.4, and the group 0.8 and 0.5, so B = 0.8 and the third best is 0.5: W =
// 0.5 − 0.075 = 0.425, and the rewards are 1 and 0.075/0.375 = 0.2. Another task has a history
// of its own: one score leaves no range, and is its own reward. 0.1 and 0 have W = 0, not −0.025.
// α = 2 squares.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := &Bounds{Alpha: 1, Rank: 3, Margin: .25}
	rewards := func(b *Bounds, iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) (all [][]float64, next []shard.Stat) {
		next, err := b.Reward(iteration, stats, groups, segments)
		if err != nil {
			t.Fatal(err)
		}
		for _, own := range segments {
			var r []float64
			for _, s := range own {
				r = append(r, s.Reward)
			}
			all = append(all, r)
		}
		return all, next
	}
	near := cmpopts.EquateApprox(0, 1e-12)
	other := shard.Stat{Scope: "window", Key: "t", Value: 7}
	g, segments := scoredGroup("t", .6, .5, .4, -1)
	got, stats := rewards(b, 1, []shard.Stat{other}, []Group{g}, [][]Segment{segments})
	if diff := cmp.Diff([][]float64{{1, .6, .2, 0}}, got, near); diff != "" {
		t.Errorf("iteration 1 (-want +got):\n%s", diff)
	}
	g, segments = scoredGroup("t", .8, .5)
	lone, inLone := scoredGroup("u", .3)
	low, inLow := scoredGroup("v", .1, 0)
	got, stats = rewards(b, 2, stats, []Group{g, lone, low}, [][]Segment{segments, inLone, inLow})
	if diff := cmp.Diff([][]float64{{1, .2}, {.3}, {1, 0}}, got, near); diff != "" {
		t.Errorf("iteration 2 (-want +got):\n%s", diff)
	}
	var kept []float64
	for _, s := range stats {
		kept = append(kept, s.Value)
	}
	if diff := cmp.Diff([]float64{7, .8, .6, .5, .3, .1, 0}, kept, near); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	g, segments = scoredGroup("t", .6, .5, .4)
	got, _ = rewards(&Bounds{Alpha: 2, Rank: 3, Margin: .25}, 1, nil, []Group{g}, [][]Segment{segments})
	if diff := cmp.Diff([][]float64{{1, .36, .04}}, got, near); diff != "" {
		t.Errorf("α = 2 (-want +got):\n%s", diff)
	}
}

// Rewards are in [0, 1], in the order of the scores, and the best of all has 1 where there is a
// range; only the best scores are kept.
func TestBoundsRandomly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &Bounds{Alpha: 1, Rank: rapid.IntRange(2, 5).Draw(t, "rank"), Margin: rapid.Float64Range(0, 1).Draw(t, "margin")}
		var stats []shard.Stat
		for iteration := range 3 {
			g, segments := scoredGroup("t", rapid.SliceOfN(rapid.SampledFrom([]float64{-1, 0, .25, .5, 1}), 1, 6).Draw(t, "scores")...)
			var err error
			if stats, err = b.Reward(iteration+1, stats, []Group{g}, [][]Segment{segments}); err != nil || len(stats) > b.Rank {
				t.Fatal(stats, err)
			}
			var kept []float64
			for _, s := range stats {
				kept = append(kept, s.Value)
			}
			_, best := b.of(kept)
			for i, s := range segments {
				if g.Traces[i].Score.Outcome == "ok" && s.Raw == best && s.Reward != 1 {
					t.Fatalf("the best of %v has %v", kept, s.Reward)
				}
				for j, o := range segments {
					bothOK := g.Traces[i].Score.Outcome == "ok" && g.Traces[j].Score.Outcome == "ok"
					if !(s.Reward >= 0 && s.Reward <= 1) || bothOK && s.Raw < o.Raw && s.Reward > o.Reward {
						t.Fatalf("rewards %+v", segments)
					}
				}
			}
		}
	})
}
