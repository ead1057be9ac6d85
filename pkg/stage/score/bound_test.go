package score

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestBound: rewards have a range, whatever environment gives them, and who is
// clipped is named.
func TestBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what       string
		reward     float64
		part       float64
		want, have float64
		log        string
	}{
		{"mae of one prediction of 1e308", -1.7e306, 2, -1e9, 2, "the reward -1.7e+306 is clipped to -1e+09"},
		{"infinite", math.Inf(1), 0, 1e9, 0, "the reward +Inf is clipped"},
		{"a part", 0.5, 1e200, 0.5, 1e9, `part "p" of the reward 1e+200 is clipped to 1e+09`},
		{"the largest", 1e9, -1e9, 1e9, -1e9, ""},
	} {
		var logged []string
		s := scorer{log: func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }}
		given := env.TurnVerdict{Reward: c.reward, Parts: []shard.RewardPart{{Name: "p", Value: c.part}}}
		v := env.Verdict{TurnVerdict: given, Turns: []env.TurnVerdict{{}, given}}
		if err := s.bound(&v, env.Task{ID: "pizza"}, shard.TraceName{InstanceID: "i7", Sample: 3}); err != nil {
			t.Fatal(err)
		}
		for _, got := range []env.TurnVerdict{v.TurnVerdict, v.Turns[1]} {
			if got.Reward != c.want || got.Parts[0].Value != c.have {
				t.Errorf("%s: reward %v and part %v, want %v and %v", c.what, got.Reward, got.Parts[0].Value, c.want, c.have)
			}
		}
		if given.Parts[0].Value != c.part {
			t.Errorf("%s: the environment's own verdict is changed", c.what)
		}
		if text := strings.Join(logged, "\n"); c.log == "" && text != "" || !strings.Contains(text, c.log) || c.log != "" && (len(logged) != 1 || !strings.HasPrefix(text, `task "pizza", instance "i7" sample 3: `)) {
			t.Errorf("%s: it is logged %q, want %q", c.what, text, c.log)
		}
	}
	logged := 0
	s := scorer{log: func(string, ...any) { logged++ }}
	if err := s.bound(&env.Verdict{TurnVerdict: env.TurnVerdict{Reward: 2e9}}, env.Task{}, shard.TraceName{}); err != nil || logged != 1 {
		t.Errorf("without turns: logged %d times, %v", logged, err)
	}
	v := env.Verdict{TurnVerdict: env.TurnVerdict{Reward: math.NaN()}}
	if err := s.bound(&v, env.Task{ID: "pizza"}, shard.TraceName{}); err == nil || !strings.Contains(err.Error(), `task "pizza"`) || !strings.Contains(err.Error(), "reward is not a number") {
		t.Errorf("no number: %v", err)
	}
}
