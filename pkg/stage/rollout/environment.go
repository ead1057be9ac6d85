package rollout

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// atATime bounds the traces whose environment is at work at a time. What an
// environment does may be a wait for another program.
const atATime = 16

// each does something with every trace's environment, several at a time. A
// trace that we fail is left out of the rest; any other error ends the work.
func each(ctx context.Context, traces []*Trace, do func(ctx context.Context, t *Trace) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, t := range traces {
		group.Go(func() error {
			err := do(ctx, t)
			if err == nil || exitcode.Code(err) != exitcode.Failed || ctx.Err() != nil {
				return err
			}
			t.failed = &environmentError{t.Task.ID, err}
			t.close()
			return nil
		})
	}
	return group.Wait()
}

// close gives back what the environment holds for the attempt that is under
// way, whatever became of it: its answers are known.
func (t *Trace) close() {
	if t.episode != nil {
		_ = t.episode.Close()
		t.episode = nil
	}
}

func closeAll(traces []*Trace) {
	for _, t := range traces {
		t.close()
	}
}

// environmentError is a failure of the environment's side of a trace.
type environmentError struct {
	task string
	err  error
}

func (e *environmentError) Error() string {
	return fmt.Sprintf("environment of task %q: %v", e.task, e.err)
}

func (e *environmentError) Unwrap() error { return e.err }

// tooManyFailed reports a task of which more traces failed than may: by the
// policy's server as the recipe bears, by the environment as its traits do.
func tooManyFailed(server *recipe.Remote, traits env.Traits, traces []*Trace) error {
	var byServer, byEnvironment []error
	for _, t := range traces {
		var environment *environmentError
		switch {
		case errors.As(t.failed, &environment):
			byEnvironment = append(byEnvironment, t.failed)
		case t.failed != nil:
			byServer = append(byServer, t.failed)
		}
	}
	if n := len(byServer); n > 0 && float64(n) > server.MaxFailed*float64(len(traces)) {
		return exitcode.WithHint(fmt.Errorf("%s could not be had from the server; the first: %w", plural.Of(n, len(traces), "response"), byServer[0]),
			"the task can be tried again; rollout.remote.max_failed is the share that may be left out")
	}
	if n := len(byEnvironment); float64(n) > traits.MaxFailed*float64(len(traces)) {
		if stage.FailsAgain(byEnvironment, len(traces)) {
			return exitcode.WithHint(exitcode.Usagef("%s failed in the same way: %w", plural.Count(n, "episode"), byEnvironment[0]),
				"another try would fail as this one did: fix the program; lathe env try shows what it answers")
		}
		err := fmt.Errorf("%s failed; the first: %w", plural.Of(n, len(traces), "episode"), byEnvironment[0])
		if traits.MaxFailedSetting == "" {
			return exitcode.WithHint(err, "the task can be tried again")
		}
		return exitcode.WithHint(err, "the task can be tried again; %s is the share that may be left out", traits.MaxFailedSetting)
	}
	return nil
}
