// Package puzzle is an environment in which improvement can be learned: generated
// puzzles whose answers have a quality from 0 to 1, where putting a given answer
// further right is easier than being right at once. A policy of a million weights
// can read and write them.
package puzzle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name is the name of this environment in recipes and rows.
const Name = "puzzle"

var traits = env.Traits{Turns: 1, Waves: 1}

// Env is the environment. It is read-only once made, and safe for concurrent use.
type Env struct {
	*env.TaskSet
	prompts Prompts
}

var _ env.Env = (*Env)(nil)

// mostDraws without a new puzzle, after which there are no more of a kind and size.
const mostDraws = 20_000

// load draws the puzzles of both splits from the seed. A puzzle is held out when a
// hash of its text says so, whatever is drawn with whichever seed: one that differs
// by a rotation or by names alone is another.
func load(data *Data, seed uint64) (*env.TaskSet, error) {
	tasks := env.NewTaskSet(Name)
	for _, part := range []struct {
		split env.Split
		field string
		count int
	}{{env.Train, "data.train", data.Train}, {env.Test, "data.test", data.Test}} {
		asked := map[string]bool{}
		d := &draws{stream: rng.New(seed, rng.PurposeData, 0, "puzzle/"+string(part.split), 0)}
		for misses := 0; len(asked) < part.count; misses++ {
			if misses == mostDraws {
				return nil, exitcode.Usagef("%s is %d: only %d such puzzles of size %d were found; ask for fewer, or for larger ones",
					part.field, part.count, len(asked), data.Size)
			}
			name := data.Kinds[len(asked)%len(data.Kinds)]
			of := kinds[name]
			question := of.draw(data.Size, d)
			if question == "" || asked[question] || env.HeldOut(question, data.TestShare) != (part.split == env.Test) {
				continue
			}
			asked[question], misses = true, 0
			tasks.Add(env.Task{ID: name + "/" + question, Kind: name, Level: data.Size, Question: question, Answer: of.best(question)}, env.Facts{Split: part.split})
		}
	}
	return tasks, nil
}

// fromTasks is the environment of the tasks.
func fromTasks(settings *Settings, tasks *env.TaskSet) (env.Env, error) {
	for _, t := range slices.Concat(tasks.Tasks(env.Train), tasks.Tasks(env.Test)) {
		if kinds[t.Kind] == nil {
			return nil, exitcode.Dataf("task %q: there are no puzzles of kind %q", t.ID, t.Kind)
		}
	}
	return &Env{tasks, settings.Prompts}, nil
}

// Traits are those of answers in one message, scored at once.
func (e *Env) Traits() env.Traits { return traits }

// Prompt asks for a first answer, for a better one than the last of a conversation,
// or for another one.
func (e *Env) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	template := ""
	switch kind {
	case shard.KindInitial:
		template = e.prompts.Initial
	case shard.KindImprove, shard.KindDebug, shard.KindRefine: // of a wrong answer no more is known than of another
		template = e.prompts.Improve
	case shard.KindDiverge:
		template = e.prompts.Diverge
	default:
		return nil, exitcode.Bugf("prompting %q: puzzles have no instances of kind %q", task.ID, kind)
	}
	previous := ""
	if kind != shard.KindInitial {
		said := env.Said(parent.Messages, 0)
		if len(said) == 0 {
			return nil, exitcode.Bugf("prompting %q: %s needs an earlier response, and the history has none", task.ID, kind)
		}
		previous = parent.Messages[said[len(said)-1]].Content
	}
	return []shard.Message{{Role: "user", Content: env.Fill(template, task.Question, task.Question, previous)}}, nil
}

// Begin starts an attempt, which is over with its first answer.
func (e *Env) Begin(context.Context, env.Task, []shard.Message) (env.Episode, error) {
	return env.Reply(func([]shard.Message) ([]shard.Message, error) { return nil, nil }), nil
}

// Score scores the answer: the reward is its quality. An answer of quality 1 is ok,
// any other wrong, and what is no answer invalid.
func (e *Env) Score(ctx context.Context, a env.Attempt) (env.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return env.Verdict{}, err
	}
	if len(a.Own) != 1 || a.Own[0] != len(a.Messages)-1 {
		return env.Verdict{}, exitcode.Bugf("scoring %q: the conversation does not end with its one response", a.Task.ID)
	}
	kind, ok := kinds[a.Task.Kind]
	if !ok {
		return env.Verdict{}, exitcode.Bugf("scoring %q: there are no puzzles of kind %q", a.Task.ID, a.Task.Kind)
	}
	answer := strings.TrimSpace(a.Messages[a.Own[0]].Content)
	quality, why := kind.quality(a.Task.Question, answer)
	turn := env.TurnVerdict{Outcome: shard.OutcomeWrong, RawScore: quality, NormalizedScore: quality, Reward: quality, Extracted: answer, Feedback: why}
	reason := "valid"
	switch {
	case why != "":
		turn.Outcome, turn.Extracted, reason = shard.OutcomeInvalid, "", "invalid"
	case quality == 1:
		turn.Outcome, reason = shard.OutcomeOK, "best"
	}
	turn.Parts = []shard.RewardPart{{Name: "quality", Value: quality}}
	return env.Verdict{TurnVerdict: turn, Turns: []env.TurnVerdict{turn}, Reason: reason}, nil
}

// Demonstration shows one repair: of what the question shows, for a first answer,
// and of an answer that some repairs have been made to, for any other.
func (e *Env) Demonstration(task env.Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	of, ok := kinds[task.Kind]
	if !ok {
		return nil, false, exitcode.Bugf("demonstrating %q: there are no puzzles of kind %q", task.ID, task.Kind)
	}
	d := &draws{stream: stream}
	current := of.given(task.Question)
	var parent env.Parent
	if kind != shard.KindInitial {
		for range d.intN(len(current)) {
			current = of.repair(task.Question, current, d)
		}
		parent.Messages = []shard.Message{{Role: "assistant", Content: current}}
	}
	prompt, err := e.Prompt(task, kind, parent)
	if err != nil {
		return nil, false, fmt.Errorf("demonstrating %q: %w", task.ID, err)
	}
	return append(prompt, shard.Message{Role: "assistant", Content: of.repair(task.Question, current, d)}), true, nil
}
