package program

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// styles are rewards as users of other projects have them. The answer is "42", and the
// column unit "m".
const styles = `
import random

def plain(prompt, completion, answer, unit):
    print("this is no answer")
    return {"right": completion == answer, "unit": 0.5 * (unit in completion), "feedback": prompt}

def chance(completion):
    return random.random()

def correct(completions, answer, **columns):
    return [float(c == a) for c, a in zip(completions, answer)]

def unit(prompts, completions, unit, **columns):
    return [None if c == "skip" else 1.0 for c in completions]

reward_funcs = [correct, unit]
reward_weights = [2.0, 0.5]

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": solution_str == ground_truth, "acc": 0.25}

def nan(completion):
    return float("nan")

async def later(completion, **task):
    return len(completion) / 10
`

// Rewards of every style, by the file for Python. Weighted sums by hand: 2·1 + 0.5·1,
// and 2·0 without the reward that does not apply.
func TestPython(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		reward     float64
		parts      []shard.RewardPart
	}{
		{"plain", "42", 1, []shard.RewardPart{{Name: "right", Value: 1}, {Name: "unit", Value: 0}}},
		{"plain", "42 m", 0.5, []shard.RewardPart{{Name: "right", Value: 0}, {Name: "unit", Value: 0.5}}},
		{"reward_funcs", "42", 2.5, []shard.RewardPart{{Name: "correct", Value: 1}, {Name: "unit", Value: 1}}},
		{"reward_funcs", "skip", 0, []shard.RewardPart{{Name: "correct", Value: 0}}},
		{"compute_score", "42", 1, []shard.RewardPart{{Name: "acc", Value: 0.25}}},
		{"later", "1234", 0.4, nil},
	} {
		e := python(t, *DefaultSettings(), []string{"reward.py:" + c.name}, styles, `{"prompt": "6*7?", "answer": "42", "unit": "m"}`)
		v, err := e.Score(t.Context(), said(e, 0, c.text))
		if err != nil || v.Reward != c.reward {
			t.Errorf("%s of %q: %v, %v, want %v", c.name, c.text, v.Reward, err, c.reward)
		}
		if diff := cmp.Diff(c.parts, v.Parts); diff != "" {
			t.Errorf("%s of %q: %s", c.name, c.text, diff)
		}
		e.Close()
	}
	e := python(t, *DefaultSettings(), []string{"reward.py:nan"}, styles, `{"prompt": "6*7?", "answer": "42"}`)
	if _, err := e.Score(t.Context(), said(e, 0, "x")); err == nil || err.Error() != `judging task "t/1": env.program.command cannot score: ValueError: reward is nan` {
		t.Errorf("NaN: %v", err)
	}
	e = python(t, *DefaultSettings(), []string{"reward.py:chance"}, styles, `{"prompt": "6*7?", "answer": "42"}`)
	first, err := e.Score(t.Context(), said(e, 0, "x"))
	again, errAgain := e.Score(t.Context(), said(e, 0, "x"))
	if err != nil || errAgain != nil || first.Reward != again.Reward {
		t.Errorf("chance is seeded by the task: %v and %v, %v, %v", first.Reward, again.Reward, err, errAgain)
	}
}
