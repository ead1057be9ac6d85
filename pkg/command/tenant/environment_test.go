// Package tenant is a stranger's code: an environment, a curriculum and a choice
// on every other axis, which the rest of the module knows nothing of. What it
// registers is all that a run of its recipe needs.
package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// settings are the fields of the section env.
type settings struct {
	Turns int    `yaml:"turns"` // answers to each letter
	Again string `yaml:"again"` // what is said between two

	Slow slow `yaml:"slow"`
}

// slow is for scores that take their time, without which no answer goes on.
// The n-th letter, from 0, then has n modulo Turns answers and one more.
type slow struct {
	On           bool `yaml:"on"`
	Milliseconds int  `yaml:"milliseconds"` // that a score takes, for each answer that the letter may have
}

// data are the fields of the section data.
type data struct {
	Letters string `yaml:"letters"` // to train on
	Held    string `yaml:"held"`    // to evaluate on
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: "tenant-letters", Summary: "say a letter, and say it often",
		Settings: func() any { return &settings{Turns: 2, Again: "?"} },
		Make: func(of any) (env.Setup, error) {
			s := of.(*settings)
			return env.Setup{
				Traits: traits(*s), Data: &data{Letters: "abcdefgh", Held: "xyz"},
				Validate: func(c *config.Checker, _ any) { c.AtLeast("env.turns", s.Turns, 1) },
				Load:     func(d any, _ uint64, _ string) (*env.TaskSet, error) { return load(s, d.(*data)), nil },
				New:      func(tasks *env.TaskSet, _ string) (env.Env, error) { return &letters{tasks, *s}, nil },
			}, nil
		},
	})
}

func load(s *settings, d *data) *env.TaskSet {
	tasks := env.NewTaskSet("tenant-letters")
	for split, all := range map[env.Split]string{env.Train: d.Letters, env.Test: d.Held} {
		for i, letter := range all {
			task := env.Task{ID: "letter-" + string(letter), Kind: "letter", Level: s.Turns, Question: string(letter), Answer: string(letter)}
			if s.Slow.On {
				task.Level = i%s.Turns + 1
			}
			tasks.Add(task, env.Facts{Split: split})
		}
	}
	return tasks
}

func traits(s settings) env.Traits {
	if s.Slow.On {
		return env.Traits{Turns: s.Turns, Waves: s.Turns, Slow: true}
	}
	return env.Traits{Turns: s.Turns, Waves: 1}
}

// letters is the environment.
type letters struct {
	*env.TaskSet
	settings settings
}

func (e *letters) Traits() env.Traits { return traits(e.settings) }

func (e *letters) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	before := ""
	if parent.Verdict != nil {
		before = fmt.Sprintf("%.1f", parent.Verdict.NormalizedScore)
	}
	return []shard.Message{{Role: "user", Content: before + task.Question}}, nil
}

func (e *letters) Begin(_ context.Context, task env.Task, _ []shard.Message) (env.Episode, error) {
	return episode{e, task}, nil
}

type episode struct {
	*letters
	task env.Task
}

func (episode) Close() error { return nil }

// Next asks again. Where scores are slow it tells the score, and every other
// answer begins a new context.
func (e episode) Next(_ context.Context, conversation []shard.Message, last *env.TurnVerdict) (env.Step, error) {
	said := len(env.Said(conversation, 0))
	switch {
	case said >= e.task.Level:
		return env.Step{}, nil
	case e.settings.Slow.On && last == nil:
		return env.Step{Wait: true}, nil
	case !e.settings.Slow.On:
		return env.Step{Messages: []shard.Message{{Role: "user", Content: e.settings.Again}}}, nil
	}
	again := fmt.Sprintf("%.2f%s%s", last.NormalizedScore, e.settings.Again, e.task.Question)
	return env.Step{Messages: []shard.Message{{Role: "user", Content: again}}, Fresh: said%2 == 0}, nil
}

// Score counts the letter, and takes a little for all else, so that no two
// answers need be worth the same.
func (e *letters) Score(ctx context.Context, a env.Attempt) (env.Verdict, error) {
	v := env.Verdict{Turns: slices.Clone(a.Earlier)}
	for _, at := range a.Own[len(a.Earlier):] {
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(time.Duration(a.Task.Level*e.settings.Slow.Milliseconds) * time.Millisecond):
		}
		said := a.Messages[at].Content
		score := (1 + float64(strings.Count(said, a.Task.Answer))) / (2 + float64(len(said)))
		outcome := shard.OutcomeWrong
		if strings.HasPrefix(said, a.Task.Answer) {
			outcome = shard.OutcomeOK
		}
		v.Turns = append(v.Turns, env.TurnVerdict{Outcome: outcome, RawScore: score, NormalizedScore: min(1, score), Reward: score, Extracted: said})
	}
	v.TurnVerdict = v.Turns[len(v.Turns)-1]
	return v, nil
}

func (e *letters) Demonstration(task env.Task, _ shard.Kind, _ rng.Stream) ([]shard.Message, bool, error) {
	prompt, err := e.Prompt(task, shard.KindInitial, env.Parent{})
	return append(prompt, shard.Message{Role: "assistant", Content: task.Answer}), true, err
}
