package program

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
)

// A score may say that it has no error; a field that nobody reads is refused.
func TestVerdictFields(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"reward": 1, "error": null, "score": null}`:     "",
		`{"reward": 1, "turns": [{"reward": 1}]}`:         "",
		`{"reward": 1, "scores": 1}`:                      `there is no field "scores": the fields are error, reward, score, outcome,`,
		`{"reward": 1, "turns": [{"reward": 1, "x": 1}]}`: `there is no field "x"`,
	} {
		_, err := readVerdict(json.RawMessage(raw), env.Attempt{Own: []int{1}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

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
