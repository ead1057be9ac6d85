package curriculum

import (
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Of 1, 2 and 6 the mean is 3 and the variance (4 + 1 + 9)/3; what we failed has no value.
func TestValues(t *testing.T) {
	t.Parallel()
	var g Group
	for _, reward := range []float64{1, 2, 9, 6} {
		g.Responses = append(g.Responses, Response{Reward: reward, Score: shard.Score{Outcome: string(shard.OutcomeOK)}})
	}
	g.Responses[2].Score.Outcome = string(shard.OutcomeInfra)
	values := g.Values(RewardOf)
	if mean, variance := MeanVariance(values); !slices.Equal(values, []float64{1, 2, 6}) || mean != 3 || math.Abs(variance-14./3) > 1e-15 {
		t.Errorf("values %v, mean %v, variance %v", values, mean, variance)
	}
	if n := (Response{Roles: []string{"user", "assistant", "user", "assistant"}}).Said(); n != 2 {
		t.Errorf("the policy said %d messages, want 2", n)
	}
	g.Responses[0].Reward = math.Inf(-1)
	if _, err := canonical([]Group{g}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("an infinite reward: %v, want an error of the data", err)
	}
}

func TestNewRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	if _, err := New("x", nil, 1); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("curriculum x: %v, want an error of the recipe", err)
	}
}
