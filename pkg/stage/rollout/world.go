package rollout

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// worldsAtATime bounds the episodes whose environment is at work at a time.
// What an environment does may be a wait for another program.
const worldsAtATime = 16

// each does something with every episode's environment, several at a time. An
// episode that we fail is left out of the rest; any other error ends the work.
func each(ctx context.Context, episodes []*Episode, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(worldsAtATime)
	for i, e := range episodes {
		group.Go(func() error {
			err := do(ctx, i)
			if err == nil || exitcode.Code(err) != exitcode.Failed || ctx.Err() != nil {
				return err
			}
			e.failed = &environmentError{e.Task.ID, err}
			return nil
		})
	}
	return group.Wait()
}

// begin starts the environment's side of every episode, and lists those that
// it could be started for.
func begin(ctx context.Context, world env.Env, episodes []*Episode) ([]*Episode, error) {
	err := each(ctx, episodes, func(ctx context.Context, i int) (err error) {
		episodes[i].side, err = world.Begin(ctx, episodes[i].Task, episodes[i].Conversation)
		return err
	})
	var begun []*Episode
	for _, e := range episodes {
		if e.failed == nil {
			begun = append(begun, e)
		}
	}
	return begun, err
}

// react lets the environment answer the policy's last message in each
// episode, and lists those that go on.
func react(ctx context.Context, episodes []*Episode) ([]*Episode, error) {
	answers := make([][]shard.Message, len(episodes))
	err := each(ctx, episodes, func(ctx context.Context, i int) (err error) {
		answers[i], err = episodes[i].side.Next(ctx, episodes[i].Conversation)
		return err
	})
	if err != nil {
		return nil, err
	}
	var going []*Episode
	for i, e := range episodes {
		switch {
		case e.failed != nil || len(answers[i]) == 0:
			e.close()
		default:
			e.Conversation = append(e.Conversation, answers[i]...)
			going = append(going, e)
		}
	}
	return going, nil
}

// close gives back what the environment holds for an episode, whatever became
// of it: its answers are known.
func (e *Episode) close() {
	if e.side != nil {
		_ = e.side.Close()
		e.side = nil
	}
}

func closeAll(episodes []*Episode) {
	for _, e := range episodes {
		e.close()
	}
}

// environmentError is a failure of the environment's side of an episode.
type environmentError struct {
	task string
	err  error
}

func (e *environmentError) Error() string {
	return fmt.Sprintf("environment of task %q: %v", e.task, e.err)
}

func (e *environmentError) Unwrap() error { return e.err }

// tooManyFailed reports a task of which more episodes failed than the recipe
// bears, be it by the policy's server or by the environment.
func tooManyFailed(r recipe.Recipe, episodes []*Episode) error {
	var byServer, byWorld []error
	for _, e := range episodes {
		var environment *environmentError
		switch {
		case errors.As(e.failed, &environment):
			byWorld = append(byWorld, e.failed)
		case e.failed != nil:
			byServer = append(byServer, e.failed)
		}
	}
	if n := len(byServer); n > 0 && float64(n) > r.Rollout.Remote.MaxFailed*float64(len(episodes)) {
		return exitcode.WithHint(fmt.Errorf("%d of %d responses could not be had from the server; the first: %w", n, len(episodes), byServer[0]),
			"the task can be tried again; rollout.remote.max_failed is the share that may be left out")
	}
	share := 0.0
	if r.Env.ToolUse != nil {
		share = r.Env.ToolUse.MaxFailed
	}
	if n := len(byWorld); float64(n) > share*float64(len(episodes)) {
		return exitcode.WithHint(fmt.Errorf("%d of %d episodes failed; the first: %w", n, len(episodes), byWorld[0]),
			"the task can be tried again; env.tooluse.max_failed is the share that may be left out")
	}
	return nil
}
