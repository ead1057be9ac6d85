package credit

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// By hand; the fourth and fifth are the vectors of the issue that asked for it.
func TestTailAdvantages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rewards, want []float64 }{
		{nil, []float64{}},
		{[]float64{3}, []float64{0}},
		{[]float64{0.5, 0.5, 0.5}, []float64{0, 0, 0}},
		{[]float64{1, 0, 0, 0}, []float64{0.75, -0.25, -0.25, -0.25}},
		// ω = .2/4 = .05, + .2/3 = .116667, + .1/2 = .166667, + .4/1 = .566667; mean .225
		{[]float64{0.2, 0.5, 0.9, 0.4}, []float64{-0.175, -0.0583333333, 0.3416666667, -0.1083333333}},
		{[]float64{-1, 1}, []float64{-1, 1}}, // ω = −.5 and −.5 + 2
		{[]float64{1, 1, 0}, []float64{1.0 / 6, 1.0 / 6, -1.0 / 3}},
	} {
		got := TailAdvantages(c.rewards)
		if len(got) != len(c.want) {
			t.Fatalf("%v: %v", c.rewards, got)
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%v: %v, want %v", c.rewards, got, c.want)
				break
			}
		}
	}
}

// The sum of advantages is 0; they have the order of the rewards; one more for all changes
// nothing.
func TestTailAdvantagesRandomly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rewards := rapid.SliceOfN(rapid.Float64Range(-2, 2), 1, 20).Draw(t, "rewards")
		got, moved := TailAdvantages(rewards), slices.Clone(rewards)
		sum := 0.0
		for i := range rewards {
			moved[i]++
			sum += got[i]
			for j := range rewards {
				if rewards[i] == rewards[j] && got[i] != got[j] || rewards[i] < rewards[j] && got[i] > got[j] {
					t.Fatalf("rewards %v, advantages %v", rewards, got)
				}
			}
		}
		if math.Abs(sum) > 1e-9 {
			t.Fatalf("rewards %v: advantages %v with the sum %v", rewards, got, sum)
		}
		for i, a := range TailAdvantages(moved) {
			if math.Abs(a-got[i]) > 1e-9 {
				t.Fatalf("rewards %v: moved by 1 advantage %d is %v and not %v", rewards, i, a, got[i])
			}
		}
	})
}

// Through the axis: a response that we failed to score, or that was dropped, counts nowhere.
func TestTailOfGroup(t *testing.T) {
	t.Parallel()
	advantage, err := AdvantageAxis.Make("tail_rl", nil)
	if err != nil || advantage.Critic() {
		t.Fatal(err)
	}
	var g Group
	var segments []Segment
	for i, outcome := range []string{"ok", "infra", "wrong", "ok"} {
		var trace Trace
		trace.Score.Outcome = outcome
		g.Traces = append(g.Traces, trace)
		segments = append(segments, Segment{Trace: i, Reward: []float64{1, 9, 0, 5}[i]})
	}
	segments[3].Dropped = "overlong"
	if err := advantage.Advantage(g, segments); err != nil {
		t.Fatal(err)
	}
	// Of 1 and 0: ω = 1 and 0.
	if got := []float64{segments[0].Advantage, segments[1].Advantage, segments[2].Advantage, segments[3].Advantage}; !slices.Equal(got, []float64{0.5, 0, -0.5, 0}) {
		t.Errorf("%v", got)
	}
	segments[0].Reward = math.Inf(1)
	if err := advantage.Advantage(g, segments); err == nil {
		t.Error("an infinite reward is taken")
	}
}
