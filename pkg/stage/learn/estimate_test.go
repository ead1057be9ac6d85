package learn

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// part is one context of a trace: a token that the policy reads, and then what mask says,
// all learned ones of one turn.
func part(reward float64, mask []bool, values ...float64) *trainer.Sequence {
	s := &trainer.Sequence{Sequence: shard.Sequence{
		LossMask: append([]bool{false}, mask...), Turns: make([]int32, 1+len(mask)), TurnRewards: []float64{reward}, TurnFactors: []float64{1},
	}}
	s.Values = append([]float64{math.NaN()}, values...) // nobody asks what the critic says of a prompt
	return s
}

// Values 0.5, 0.6 and 0.7, the reward 1 at the last, gamma 1 and lambda 0.95: A_2 =
// 1 - .7 = .3; A_1 = (.7 - .6) + .95·.3 = .385; A_0 = (.6 - .5) + .95·.385 = .46575,
// whether the three stand in one context or the last in another. A token of the
// environment between two of the policy's is transparent (skip): the values and
// advantages are carried across. With it in the recursion (value) at 0.9 between
// the last two, A of it is (.7 - .9) + .95·.3 = .085 and A_1 = (.9 - .6) + .95·.085 =
// .38075.
func TestEstimate(t *testing.T) {
	t.Parallel()
	learned := func(n int) []bool {
		mask := make([]bool, n)
		for i := range mask {
			mask[i] = true
		}
		return mask
	}
	gap := []bool{true, true, false, true}
	near := cmpopts.EquateApprox(0, 1e-6)
	for name, c := range map[string]struct {
		masked   string
		contexts []*trainer.Sequence
		want     [][]float32 // advantages, by context
	}{
		"one context":       {"skip", []*trainer.Sequence{part(1, learned(3), .5, .6, .7)}, [][]float32{{0, .46575, .385, .3}}},
		"two contexts":      {"skip", []*trainer.Sequence{part(0, learned(2), .5, .6), part(1, learned(1), .7)}, [][]float32{{0, .46575, .385}, {0, .3}}},
		"two, with values":  {"value", []*trainer.Sequence{part(0, learned(2), .5, .6), part(1, learned(1), .7)}, [][]float32{{0, .46575, .385}, {0, .3}}},
		"three contexts":    {"skip", []*trainer.Sequence{part(0, learned(1), .5), part(0, learned(1), .6), part(1, learned(1), .7)}, [][]float32{{0, .46575}, {0, .385}, {0, .3}}},
		"transparent":       {"skip", []*trainer.Sequence{part(1, gap, .5, .6, .9, .7)}, [][]float32{{0, .46575, .385, 0, .3}}},
		"in the recursion":  {"value", []*trainer.Sequence{part(1, gap, .5, .6, .9, .7)}, [][]float32{{0, .1 + .95*.38075, .38075, 0, .3}}},
		"a reward for each": {"skip", []*trainer.Sequence{part(2, learned(1), .5), part(1, learned(1), .7)}, [][]float32{{0, 2 + .7 - .5 + .95*.3}, {0, .3}}},
	} {
		if err := estimate(c.contexts, credit.AdvantageSettings{Gamma: 1, Lambda: .95, Masked: c.masked}); err != nil {
			t.Fatal(err)
		}
		for i, s := range c.contexts {
			if diff := cmp.Diff(c.want[i], s.Advantages, near); diff != "" {
				t.Errorf("%s: context %d: advantages (-want +got):\n%s", name, i, diff)
			}
			for at, own := range s.LossMask {
				want := 0.0
				if own {
					want = float64(c.want[i][at]) + s.Values[at]
				}
				if math.Abs(s.Returns[at]-want) > 1e-6 {
					t.Errorf("%s: context %d: return %d is %g, want %g", name, i, at, s.Returns[at], want)
				}
			}
		}
	}
}

// RL-MLE Tab. 3: with gamma and lambda 1 every token's return is the reward that is still to come, in
// whatever context, whatever the critic says.
func TestEstimateOfTable3(t *testing.T) {
	t.Parallel()
	contexts := []*trainer.Sequence{part(-10, []bool{true, false, true}, .3, 9, -.4), part(.5, []bool{true, true}, 2, -1)}
	if err := estimate(contexts, credit.AdvantageSettings{Gamma: 1, Lambda: 1, Masked: "skip"}); err != nil {
		t.Fatal(err)
	}
	near := cmpopts.EquateApprox(0, 1e-12)
	if diff := cmp.Diff([]float64{0, -9.5, 0, -9.5}, contexts[0].Returns, near); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{0, .5, .5}, contexts[1].Returns, near); diff != "" {
		t.Error(diff)
	}
}
