package command

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/report"
)

// ReportOptions are those of lathe report.
type ReportOptions struct {
	Run  string // folder
	JSON bool
}

func reportCommand() *cli.Command {
	var o ReportOptions
	return cmdline.Help{
		Example: "lathe report runs/quickstart --json",
		Exits:   cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "report", Usage: "write a run's report and print its summary", ArgsUsage: "RUN",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print summary.json instead of text", Destination: &o.JSON}},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Report(c.Context, c.App.Writer, o) }),
	})
}

// Report writes the report of a run and prints its summary.
func Report(ctx context.Context, out io.Writer, o ReportOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	summary, err := report.Write(context.WithoutCancel(ctx), opened)
	if err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, summary)
	}
	return report.Text(out, summary)
}
