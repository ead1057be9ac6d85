package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
)

// StatusOptions are those of lathe status.
type StatusOptions struct {
	Run   string // folder
	JSON  bool
	Watch bool // print it again until the run is done, has failed or is stuck
}

func statusCommand() *cli.Command {
	var o StatusOptions
	return cmdline.Help{
		Example: "lathe status runs/quickstart --json",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "status", Usage: "show a run's state and the evidence for it", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Usage: "repeat every 15 s until the run is done, has failed or is stuck", Destination: &o.Watch},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Status(c.Context, c.App.Writer, o) }),
	})
}

// Status says how far a run is.
func Status(ctx context.Context, out io.Writer, o StatusOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	if !o.Watch {
		_, err := o.say(ctx, out, opened)
		return err
	}
	for {
		if cmdline.IsTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		state, err := o.say(ctx, out, opened)
		if err != nil || state == status.StateDone || state == status.StateFailed || state == status.StateStuck {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // ctrl-C is how it ends
		case <-time.After(watchEvery):
		}
	}
}

// watchEvery is how often a run that is watched is looked at: Slurm is asked each
// time.
const watchEvery = 15 * time.Second

// say says once how far a run is.
func (o StatusOptions) say(ctx context.Context, out io.Writer, opened *rundir.Run) (status.State, error) {
	seen, seenErr := seeJobs(ctx, opened)
	s, err := status.Read(ctx, opened, seen, seenErr)
	if err != nil {
		return "", err
	}
	if o.JSON {
		return s.State, cmdline.WriteJSON(out, s)
	}
	return s.State, s.Print(out)
}
