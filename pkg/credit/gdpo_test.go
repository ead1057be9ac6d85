package credit_test

import (
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func part(name string, value float64) shard.RewardPart {
	return shard.RewardPart{Name: name, Value: value}
}

// Two groups of three with the parts a and b, of which the last response has no b. The
// numbers are those of TRL 1.16's normalize_then_sum with reward_weights 1 and 0.5.
func TestGDPO(t *testing.T) {
	t.Parallel()
	groups := []credit.Group{{}, {}}
	segments := make([][]credit.Segment, 2)
	for g, rows := range [][][]shard.RewardPart{
		{{part("a", 1), part("b", .2)}, {part("a", 0), part("b", .8)}, {part("a", 1), part("b", .5)}},
		{{part("a", 0), part("b", 1)}, {part("a", 0), part("b", 0)}, {part("a", 1), part("unweighed", 9)}},
	} {
		for i, parts := range rows {
			groups[g].Traces = append(groups[g].Traces, credit.Trace{Score: shard.Score{Outcome: string(shard.OutcomeOK), RewardParts: parts}})
			segments[g] = append(segments[g], credit.Segment{Trace: i})
		}
		// One that was not scored takes no part.
		groups[g].Traces = append(groups[g].Traces, credit.Trace{Score: shard.Score{Outcome: string(shard.OutcomeInfra)}})
		segments[g] = append(segments[g], credit.Segment{Trace: 3})
	}
	advantage, err := credit.AdvantageAxis.Make("gdpo", &credit.GDPO{Parts: []credit.GDPOPart{{Name: "a", Weight: 1}, {Name: "b", Weight: .5}}, Epsilon: 1e-4})
	if err != nil {
		t.Fatal(err)
	}
	for g := range groups {
		if err := advantage.Advantage(groups[g], segments[g]); err != nil {
			t.Fatal(err)
		}
	}
	if err := advantage.(credit.WholeAdvantage).Whole(groups, segments); err != nil {
		t.Fatal(err)
	}
	for g, want := range [][]float64{
		{0.09964936570828466, -0.8426735201410708, 0.743024154432786, 0},
		{-0.28800218341350436, -1.198046125452068, 1.486048308865572, 0},
	} {
		for i, s := range segments[g] {
			if math.Abs(s.Advantage-want[i]) > 1e-12 {
				t.Errorf("group %d, response %d: %v, want %v", g, i, s.Advantage, want[i])
			}
		}
	}

	groups[0].Traces[0].Score.RewardParts[0].Value = math.Inf(1)
	if err := advantage.Advantage(groups[0], segments[0]); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `part "a" of the reward of response 0 is +Inf`) {
		t.Error(err)
	}
	none := credit.Group{Traces: []credit.Trace{{Score: shard.Score{Outcome: string(shard.OutcomeOK)}}}}
	if err := advantage.Advantage(none, []credit.Segment{{}}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "no response of the group has a part") {
		t.Error(err)
	}
}

// Equal rewards have advantage 0 exactly.
func TestGDPOOfEqualRewards(t *testing.T) {
	t.Parallel()
	group := credit.Group{}
	segments := [][]credit.Segment{{}}
	for i := range 3 {
		group.Traces = append(group.Traces, credit.Trace{Score: shard.Score{Outcome: string(shard.OutcomeOK), RewardParts: []shard.RewardPart{part("a", .1)}}})
		segments[0] = append(segments[0], credit.Segment{Trace: i})
	}
	advantage, err := credit.AdvantageAxis.Make("gdpo", &credit.GDPO{Epsilon: 1e-4})
	if err == nil {
		err = advantage.Advantage(group, segments[0])
	}
	if err == nil {
		err = advantage.(credit.WholeAdvantage).Whole([]credit.Group{group}, segments)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments[0] {
		if s.Advantage != 0 {
			t.Error(s.Advantage)
		}
	}
}

// DAPO's own lengths: 16,384 tokens are free, 20,480 the most.
func TestOverlongPunishment(t *testing.T) {
	t.Parallel()
	dapo := credit.Overlong{Penalty: 1}.Resolved(20480)
	if dapo.Cache != 4096 {
		t.Fatalf("a cache of %d tokens", dapo.Cache)
	}
	for n, want := range map[int]float64{0: 0, 16384: 0, 16385: -1.0 / 4096, 18432: -.5, 20480: -1, 20481: -1} {
		if got := dapo.Punishment(n); got != want {
			t.Errorf("%d tokens: %v, want %v", n, got, want)
		}
		half := credit.Overlong{Max: 20480, Cache: 4096, Penalty: .5}
		if got := half.Punishment(n); got != want/2 {
			t.Errorf("%d tokens at half the penalty: %v, want %v", n, got, want/2)
		}
	}
}

// The punishment is added to what a segment earns, by the tokens that the policy sampled.
func TestOverlongRewards(t *testing.T) {
	t.Parallel()
	composition, err := credit.New(credit.Spec{
		Segments: credit.Choice{Name: "trajectory"}, Reward: credit.Choice{Name: "verdict"}, Advantage: credit.Choice{Name: "none"},
		Overlong: &credit.Overlong{Max: 10, Cache: 4, Penalty: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	group := credit.Group{}
	for _, n := range []int{6, 8, 10, 11} {
		group.Traces = append(group.Traces, credit.Trace{
			Contexts: []credit.Context{{Tokens: 99, TurnTokens: []int{n}}}, Score: shard.Score{Outcome: string(shard.OutcomeOK), Reward: 1},
		})
	}
	segments, _, err := composition.Assign(1, nil, []credit.Group{group})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, .5, 0, 0} {
		if got := segments[0][i]; got.Reward != want || got.Advantage != want {
			t.Errorf("response %d: reward %v, advantage %v, want %v", i, got.Reward, got.Advantage, want)
		}
	}
	// All are right, so DAPO drops the group, whatever their lengths.
	constant, err := credit.SelectAxis.Make(credit.ReasonConstantGroup, nil)
	if err != nil {
		t.Fatal(err)
	}
	composition.Select = []credit.Select{constant}
	segments, _, err = composition.Assign(1, nil, []credit.Group{group})
	if err != nil || segments[0][0].Dropped != credit.ReasonConstantGroup || segments[0][3].Dropped != credit.ReasonConstantGroup {
		t.Errorf("%+v, %v", segments, err)
	}
}

// GDPO takes the punishment for a part of the reward, beside the environment's or the reward:
// both are equal here, so advantages are those of the lengths alone.
func TestOverlongIsAPart(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]shard.RewardPart{nil, {part("right", 1)}} {
		composition, err := credit.New(credit.Spec{
			Segments: credit.Choice{Name: "trajectory"}, Reward: credit.Choice{Name: "verdict"}, Advantage: credit.Choice{Name: "gdpo"},
			Overlong: &credit.Overlong{Max: 10, Cache: 4, Penalty: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		group := credit.Group{}
		for _, n := range []int{6, 8, 10} {
			group.Traces = append(group.Traces, credit.Trace{
				Contexts: []credit.Context{{Tokens: 99, TurnTokens: []int{n}}}, Score: shard.Score{Outcome: string(shard.OutcomeOK), Reward: 1, RewardParts: parts},
			})
		}
		segments, _, err := composition.Assign(1, nil, []credit.Group{group})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []float64{1, 0, -1} {
			if got := segments[0][i].Advantage; math.Abs(got-want) > 1e-3 {
				t.Errorf("parts %v, response %d: advantage %v, want %v", parts, i, got, want)
			}
		}
	}
}
