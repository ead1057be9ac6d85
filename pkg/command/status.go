package command

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/status"
)

// StatusOptions are those of lathe status.
type StatusOptions struct {
	Run  string // folder
	JSON bool
}

func statusCommand() *cli.Command {
	var o StatusOptions
	return cmdline.Help{
		Example: "lathe status runs/quickstart --json",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "status", Usage: "say what of a run is done, running, failed or unknown, with the evidence", ArgsUsage: "RUN",
		Flags: []cli.Flag{jsonFlag(&o.JSON)},
		Action: runArgument(func(c *cli.Context, run string) error {
			o.Run = run
			return Status(c.Context, c.App.Writer, o)
		}),
	})
}

// Status says how far a run is.
func Status(ctx context.Context, out io.Writer, o StatusOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	seen, seenErr := seeJobs(ctx, opened)
	s, err := status.Read(ctx, opened, seen, seenErr)
	if err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, s)
	}
	return s.Print(out)
}
