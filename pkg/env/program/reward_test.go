package program

import (
	"math"
	"strings"
	"testing"
)

// A reward that no advantage can carry is refused by its name.
func TestRewardsAreBounded(t *testing.T) {
	t.Parallel()
	for reward, refused := range map[float64]bool{0: false, -5: false, 1e18: false, 1e308: true, -1e308: true, math.Inf(1): true, math.NaN(): true} {
		_, err := judgement{Reward: &reward}.verdict()
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "the reward must be from") {
			t.Errorf("reward %g: %v", reward, err)
		}
		half := 0.5
		_, err = judgement{Reward: &half, Parts: map[string]float64{"speed": reward}}.verdict()
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), `the part "speed" must be from`) {
			t.Errorf("part %g: %v", reward, err)
		}
	}
}
