package program

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
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
    return {"score": solution_str == ground_truth, "acc": 0.25, "pred": solution_str}

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
	if _, err := e.Score(t.Context(), said(e, 0, "x")); err == nil || err.Error() != `scoring task "t/1": env.program.command cannot score: ValueError: reward is nan: a number is wanted` {
		t.Errorf("NaN: %v", err)
	}
	e = python(t, *DefaultSettings(), []string{"reward.py:chance"}, styles, `{"prompt": "6*7?", "answer": "42"}`)
	first, err := e.Score(t.Context(), said(e, 0, "x"))
	again, errAgain := e.Score(t.Context(), said(e, 0, "x"))
	if err != nil || errAgain != nil || first.Reward != again.Reward {
		t.Errorf("chance is seeded by the task: %v and %v, %v, %v", first.Reward, again.Reward, err, errAgain)
	}
}

// What people get wrong in a reward is said in one line, with what there is instead.
func TestPythonMistakes(t *testing.T) {
	t.Parallel()
	const mistakes = `
def names(question_text, completion):
    return 1.0

def text(completion):
    return "1.0 points"

def listed(completion):
    return [1.0]

def nothing(completion):
    return {"format": "good"}

def slip(completion):
    return {"score": 1.0, "feedbak": "good"}

def one(completions):
    return 1.0

def short(completions):
    return [1.0, 2.0]
`
	for name, want := range map[string]string{
		"names":   "TypeError: names takes question_text: there are answer, completion, completions,",
		"text":    "ValueError: reward is '1.0 points': a number is wanted",
		"listed":  "ValueError: reward is [1.0]: a number is wanted",
		"nothing": "ValueError: there is no number in {'format': 'good'}",
		"slip":    "ValueError: feedbak is 'good': a part is a number, and all else is one of outcome, feedback, extracted, milestones, reason, parts, turns",
		"one":     "one returned 1.0: a list of 1 is wanted, a reward for each completion",
		"short":   "short returned [1.0, 2.0]: a list of 1 is wanted, a reward for each completion",
	} {
		e := python(t, *DefaultSettings(), []string{"reward.py:" + name}, mistakes, `{"prompt": "6*7?", "answer": "42"}`)
		_, err := e.Score(t.Context(), said(e, 0, "x"))
		if err == nil || !strings.Contains(err.Error(), "cannot score: "+want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		e.Close()
	}
}

// A response to learn from may be a number; a name that no line has is refused.
func TestResponses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{`"a b"`: "a b", `12`: "12", `0.50`: "0.50", `null`: ""} {
		if got, ok := responseText(json.RawMessage(raw)); !ok || got != want {
			t.Errorf("%s: %q, %v, want %q", raw, got, ok, want)
		}
	}
	for _, raw := range []string{`[1]`, `{}`} {
		if got, ok := responseText(json.RawMessage(raw)); ok {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

// A reward that takes no answer needs none, and one that takes it does.
func TestRewardWithoutAnswer(t *testing.T) {
	t.Parallel()
	const line = `{"prompt": "Say it in few words."}`
	e := python(t, *DefaultSettings(), []string{"reward.py:later"}, styles, line)
	if v, err := e.Score(t.Context(), said(e, 0, "1234")); err != nil || v.Reward != 0.4 {
		t.Errorf("without an answer: %v, %v", v.Reward, err)
	}
	settings := *DefaultSettings()
	settings.Program.Command = e.settings.Program.Command[:2:2]
	settings.Program.Command = append(settings.Program.Command, "reward.py:compute_score")
	data := Data{}
	data.Train.SetDefaults()
	data.Test.SetDefaults()
	data.Train.Files = []string{"t.jsonl"}
	if _, err := build(settings, data, 1, e.pool.launcher.folder); err == nil || !strings.Contains(err.Error(), `no field "answer"`) {
		t.Errorf("a reward that takes ground_truth: %v", err)
	}
}

// A share of one file is held out, by what is asked.
func TestSplit(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, `{"prompt": [{"role": "user", "content": "%d?"}], "answer": "a"}`+"\n", i)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "t.jsonl"), []byte(text.String()), 0o600))
	e := python(t, *DefaultSettings(), []string{"reward.py:compute_score"}, styles, `{"prompt": "?", "answer": "a"}`)
	data := Data{}
	data.Train.SetDefaults()
	data.Test.SetDefaults()
	data.Train.Files, data.Train.TestShare = []string{filepath.Join(folder, "t.jsonl")}, 0.3
	split := must.Get(build(e.settings, data, 1, e.pool.launcher.folder))(t)
	defer split.Close()
	if train, test := len(split.Tasks(env.Train)), len(split.Tasks(env.Test)); train+test != 100 || test < 17 || test > 43 {
		t.Errorf("%d tasks to train on, %d held out", train, test)
	}
}
