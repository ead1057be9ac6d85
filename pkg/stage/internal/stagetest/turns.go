package stagetest

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Turns is an environment whose attempts have several turns, in contexts that
// begin afresh or go on.
type Turns struct {
	env.Env
	Of int // turns of an attempt
	// Wait makes each turn but the last wait for the score of it; otherwise the
	// next one follows at once. What is said is the same.
	Wait bool
	// Fresh says after which turns, from 1, a new context begins.
	Fresh func(turn int) bool
	// Judged is called for each turn that is scored; it may fail.
	Judged func(task env.Task, turn int) error
}

// Traits of turns that wait.
func (e Turns) Traits() env.Traits {
	traits := env.Traits{Turns: e.Of, Waves: 1}
	if e.Wait {
		traits.Waves, traits.Slow = e.Of, true
	}
	return traits
}

// Begin starts an attempt.
func (e Turns) Begin(_ context.Context, task env.Task, _ []shard.Message) (env.Episode, error) {
	return turnsEpisode{e, task}, nil
}

type turnsEpisode struct {
	Turns
	task env.Task
}

// Close does nothing.
func (e turnsEpisode) Close() error { return nil }

// Next asks the question again, after the quality of the answer, until it is
// right.
func (e turnsEpisode) Next(_ context.Context, conversation []shard.Message, last *env.TurnVerdict) (env.Step, error) {
	turn := len(env.Said(conversation, 0))
	switch {
	case turn >= e.Of:
		return env.Step{}, nil
	case e.Wait && last == nil:
		return env.Step{Wait: true}, nil
	}
	verdict := e.grade(e.task, conversation[len(conversation)-1].Content)
	if last != nil {
		verdict = *last
	}
	if verdict.Outcome == shard.OutcomeOK {
		return env.Step{}, nil
	}
	said := fmt.Sprintf("%g;%s=", verdict.NormalizedScore, e.task.Question)
	return env.Step{Messages: []shard.Message{{Role: "user", Content: said}}, Fresh: e.Fresh != nil && e.Fresh(turn)}, nil
}

// Score scores each answer by its first letter, and those alone that have no
// score yet.
func (e Turns) Score(_ context.Context, a env.Attempt) (env.Verdict, error) {
	v := env.Verdict{Turns: append([]env.TurnVerdict(nil), a.Earlier...)}
	for turn := len(a.Earlier); turn < len(a.Own); turn++ {
		if e.Judged != nil {
			if err := e.Judged(a.Task, turn+1); err != nil {
				return v, err
			}
		}
		v.Turns = append(v.Turns, e.grade(a.Task, a.Messages[a.Own[turn]].Content))
	}
	v.TurnVerdict = v.Turns[len(v.Turns)-1]
	return v, nil
}

func (e Turns) grade(task env.Task, answer string) env.TurnVerdict {
	v := env.TurnVerdict{Outcome: shard.OutcomeWrong, Extracted: answer}
	if len(answer) > 0 && len(task.Answer) > 0 && answer[0] == task.Answer[0] {
		v.Outcome, v.RawScore, v.NormalizedScore, v.Reward = shard.OutcomeOK, 1, 1, 1
	}
	return v
}
