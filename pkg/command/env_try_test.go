package command

import (
	"math"
	"strings"
	"testing"
)

// By hand: two responses of one length have the ranks 0.5 each.
func TestRankCorrelation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{10, 20, 30, 40}, 1},
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, -1},
		{[]float64{1, 1, 1}, []float64{1, 2, 3}, 0},
		{[]float64{1, 1, 2, 2}, []float64{0, 1, 0, 1}, 0},
		{[]float64{1, 2, 3}, []float64{1, 3, 2}, 0.5},
	} {
		if got := rankCorrelation(c.x, c.y); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v and %v: %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

func TestRewardFindings(t *testing.T) {
	t.Parallel()
	responses := func(reward func(i, length int) (float64, float64)) []triedResponse {
		var all []triedResponse
		for i := range 12 {
			text := strings.Repeat("x", i*5%12)
			first, again := reward(i, len(text))
			all = append(all, triedResponse{Task: "t", Response: text, Reward: &first, Again: &again})
		}
		return all
	}
	broken := responses(func(i, _ int) (float64, float64) { return float64(i), float64(i) })
	broken[3].Reward, broken[3].Feedback = nil, "KeyError"
	for name, c := range map[string]struct {
		responses []triedResponse
		want      string
	}{
		"good":     {responses(func(i, _ int) (float64, float64) { return float64(i % 3), float64(i % 3) }), ""},
		"constant": {responses(func(int, int) (float64, float64) { return 0.5, 0.5 }), "the reward of all 12 responses is 0.5"},
		"length":   {responses(func(_, n int) (float64, float64) { return 1 / float64(1+n), 1 / float64(1+n) }), "only on the length of the response (rank correlation -1.00"},
		"differ":   {responses(func(i, _ int) (float64, float64) { return float64(i % 3), float64(i%3) + float64(i%2) }), "6 of 12 responses changes when they are scored again (the first, of t: 1, then 2)"},
		"failed":   {broken, "1 of 12 responses could not be scored; the first: KeyError"},
	} {
		found := strings.Join(rewardFindings(c.responses), "\n")
		if (c.want == "") != (found == "") || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}
