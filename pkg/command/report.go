package command

import (
	"cmp"
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// ReportOptions are those of lathe report.
type ReportOptions struct {
	Run  string // folder
	Out  string // folder; empty for that of the run
	JSON bool
}

func reportCommand() *cli.Command {
	var o ReportOptions
	return cmdline.Help{
		Example: "lathe report runs/quickstart --json",
		Exits:   cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "report", Usage: "write a run's report and print its summary", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			outFlag(&o.Out),
			&cli.BoolFlag{Name: "json", Usage: "print summary.json instead of text", Destination: &o.JSON},
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Report(c.Context, c.App.Writer, o) }),
	})
}

// outFlag is --out of commands that write reports.
func outFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "out", Usage: "write into `FOLDER`; default: RUN/report", Destination: to}
}

// elsewhere adds to the error of a report that its folder is only read how to write it.
func elsewhere(err error) error {
	if seal.Unwritable(err) {
		return exitcode.OnlyHint(err, "--out FOLDER writes the report elsewhere")
	}
	return err
}

// Report writes the report of a run and prints its summary.
func Report(ctx context.Context, out io.Writer, o ReportOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	folder := cmp.Or(o.Out, opened.Dir.Report())
	if !o.JSON {
		return elsewhere(writeReport(context.WithoutCancel(ctx), out, opened, folder))
	}
	summary, err := report.Write(context.WithoutCancel(ctx), opened, folder)
	if err != nil {
		return elsewhere(err)
	}
	return cmdline.WriteJSON(out, summary)
}
