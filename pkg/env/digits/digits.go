// Package digits is an environment of problems that differ by their length alone: two
// numbers to add, digits to copy, or digits to reverse (Lee et al., arXiv 2502.01612). A
// policy that has learned short ones from demonstrations can learn longer ones from its own
// answers.
package digits

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name is the name of this environment in recipes and rows.
const Name = "digits"

var traits = env.Traits{Turns: 1, Waves: 1}

// Env is the environment. It is read-only once made, and safe for concurrent use.
type Env struct {
	*env.TaskSet
	prompt string
}

var _ env.Env = (*Env)(nil)

// load draws the problems of both splits from the seed: n digits each, or two numbers of n
// digits. The kind of a task is its own with n, as in add-012, and its level is n.
func load(data *Data, seed uint64) (*env.TaskSet, error) {
	tasks := env.NewTaskSet(Name)
	for n := 1; n <= data.Longest; n++ {
		for i := range data.Train {
			tasks.Add(draw(data, env.Train, n, i, seed), env.Facts{Split: env.Train})
		}
	}
	for i := range data.Test {
		for at, n := range data.Lengths {
			if slices.Contains(data.Lengths[:at], n) {
				return nil, exitcode.Usagef("data.lengths has %d twice", n)
			}
			tasks.Add(draw(data, env.Test, n, i, seed), env.Facts{Split: env.Test})
		}
	}
	return tasks, nil
}

// draw makes problem i of n digits of a split: the first of its stream that the split has.
// The stream of a problem does not depend on how many there are. Of each ten problems of one
// digit some are of either split but for test shares of nearly 0 or 1; then the last draw stays.
func draw(data *Data, split env.Split, n, i int, seed uint64) env.Task {
	const draws = 1000
	d := &drawn{stream: rng.New(seed, rng.PurposeData, 0, fmt.Sprintf("digits/%s/%s/%d", data.Kind, split, n), i)}
	var question, answer string
	for range draws {
		question, answer = problem(data.Kind, d.number(n), d.number(n))
		if env.HeldOut("lathe/digits/split\n"+question, data.TestShare) == (split == env.Test) {
			break
		}
	}
	kind := fmt.Sprintf("%s-%03d", data.Kind, n)
	return env.Task{ID: fmt.Sprintf("%s/%s/%d", kind, split, i), Kind: kind, Level: n, Question: question, Answer: answer}
}

// drawn takes digits from a stream one after the other.
type drawn struct {
	stream rng.Stream
	next   uint64
}

// number is one of n digits, of which the first is not 0.
func (d *drawn) number(n int) string {
	text := make([]byte, n)
	for i := range text {
		low := 0
		if i == 0 {
			low = 1
		}
		text[i] = byte('0' + low + d.stream.IntN(d.next, 10-low))
		d.next++
	}
	return string(text)
}

// problem is a question of a kind with its answer, of one number or two of as many digits, as
// the code of arXiv 2502.01612 writes them. Numbers to add are written lowest digit first, and
// so is their sum, with a digit more than they have: 21 and 93 are asked as 12+39 and answered
// 411.
func problem(kind, first, second string) (question, answer string) {
	switch kind {
	case "copy":
		return first, first
	case "reverse":
		return first, reversed(first)
	}
	a, _ := new(big.Int).SetString(first, 10)
	b, _ := new(big.Int).SetString(second, 10)
	sum := reversed(a.Add(a, b).String())
	return reversed(first) + "+" + reversed(second), sum + strings.Repeat("0", len(first)+1-len(sum))
}

func reversed(text string) string {
	bytes := []byte(text)
	slices.Reverse(bytes)
	return string(bytes)
}

// Traits are those of answers in one message, scored at once.
func (e *Env) Traits() env.Traits { return traits }

// Prompt asks for an answer. There is nothing to improve on.
func (e *Env) Prompt(task env.Task, kind shard.Kind, _ env.Parent) ([]shard.Message, error) {
	if kind != shard.KindInitial {
		return nil, exitcode.Usagef("the environment %s has first answers alone, and the run asks for kind %q: use another curriculum, and no steps of evaluation", Name, kind)
	}
	return []shard.Message{{Role: "user", Content: env.Fill(e.prompt, task.Question, task.Question, "")}}, nil
}

// Begin starts an attempt, which is over with its first answer.
func (e *Env) Begin(context.Context, env.Task, []shard.Message) (env.Episode, error) {
	return env.Reply(func([]shard.Message) ([]shard.Message, error) { return nil, nil }), nil
}

// Score compares the answer digit by digit: it is right as a whole, or wrong.
func (e *Env) Score(ctx context.Context, a env.Attempt) (env.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return env.Verdict{}, err
	}
	if len(a.Own) != 1 || a.Own[0] != len(a.Messages)-1 {
		return env.Verdict{}, exitcode.Bugf("scoring %q: the conversation does not end with its one response", a.Task.ID)
	}
	turn := env.TurnVerdict{Outcome: shard.OutcomeWrong, Extracted: strings.TrimSpace(a.Messages[a.Own[0]].Content)}
	reason := "wrong"
	switch turn.Extracted {
	case "":
		turn.Outcome, turn.Feedback, reason = shard.OutcomeInvalid, "the answer is empty", "empty"
	case a.Task.Answer:
		turn.Outcome, turn.RawScore, turn.NormalizedScore, turn.Reward, reason = shard.OutcomeOK, 1, 1, 1, "right"
	}
	return env.Verdict{TurnVerdict: turn, Turns: []env.TurnVerdict{turn}, Reason: reason}, nil
}

// Demonstration is the right answer.
func (e *Env) Demonstration(task env.Task, kind shard.Kind, _ rng.Stream) ([]shard.Message, bool, error) {
	if kind != shard.KindInitial {
		return nil, false, nil
	}
	prompt, err := e.Prompt(task, kind, env.Parent{})
	return append(prompt, shard.Message{Role: "assistant", Content: task.Answer}), err == nil, err
}
