package env

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TraitsOf are the traits of the environment that a task is of.
func TraitsOf(e Env, taskID string) Traits {
	if m, several := e.(*mixed); several {
		if own, _, err := m.of(taskID); err == nil {
			return own.Traits()
		}
	}
	return e.Traits()
}

// of finds the environment of a task, and the task as that knows it.
func (m *mixed) of(id string) (Env, Task, error) {
	name, own, _ := strings.Cut(id, "/")
	part, ok := m.parts[name]
	if !ok {
		return nil, Task{}, exitcode.Bugf("task %q is of no environment that has been made", id)
	}
	task, ok := part.Set().Task(own)
	if !ok {
		return nil, Task{}, exitcode.Bugf("environment %q has no task %q", name, own)
	}
	return part, task, nil
}

// Traits are those by which all can be scheduled together.
func (m *mixed) Traits() Traits { return m.traits }

// Prompt is the prompt of the task's environment.
func (m *mixed) Prompt(task Task, kind shard.Kind, parent Parent) ([]shard.Message, error) {
	part, own, err := m.of(task.ID)
	if err != nil {
		return nil, err
	}
	return part.Prompt(own, kind, parent)
}

// Begin starts an attempt in the task's environment.
func (m *mixed) Begin(ctx context.Context, task Task, prompt []shard.Message) (Episode, error) {
	part, own, err := m.of(task.ID)
	if err != nil {
		return nil, err
	}
	return part.Begin(ctx, own, prompt)
}

// Score is the score of the task's environment.
func (m *mixed) Score(ctx context.Context, attempt Attempt) (Verdict, error) {
	part, own, err := m.of(attempt.Task.ID)
	if err != nil {
		return Verdict{}, err
	}
	attempt.Task = own
	return part.Score(ctx, attempt)
}

// Demonstration is one of the task's environment.
func (m *mixed) Demonstration(task Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	part, own, err := m.of(task.ID)
	if err != nil {
		return nil, false, err
	}
	conversation, ok, err := part.Demonstration(own, kind, stream)
	if err != nil {
		err = fmt.Errorf("environment of task %q: %w", task.ID, err)
	}
	return conversation, ok, err
}

// CutBy tells those environments that cut texts.
func (m *mixed) CutBy(tail Tail) {
	for _, part := range m.parts {
		if assisted, ok := part.(Assisted); ok {
			assisted.CutBy(tail)
		}
	}
}

// Assist tells those environments that ask an assistant.
func (m *mixed) Assist(a Assistant) {
	for _, part := range m.parts {
		if assisted, ok := part.(Assisted); ok {
			assisted.Assist(a)
		}
	}
}

// Start starts the programs of those environments that have any.
func (m *mixed) Start(threads int, log func(format string, args ...any)) {
	m.programs(func(p Programs) { p.Start(threads, log) })
}

// Waiting lists the requests of all that are not answered, the oldest first.
func (m *mixed) Waiting() (all []Wait) {
	m.programs(func(p Programs) { all = append(all, p.Waiting()...) })
	slices.SortFunc(all, func(a, b Wait) int { return a.Since.Compare(b.Since) })
	return all
}

// Close ends the programs of all.
func (m *mixed) Close() { m.programs(Programs.Close) }

func (m *mixed) programs(do func(Programs)) {
	for _, part := range m.parts {
		if programs, ok := part.(Programs); ok {
			do(programs)
		}
	}
}
