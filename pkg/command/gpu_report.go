package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/efficiency"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// GPUReportOptions are those of lathe gpu-report.
type GPUReportOptions struct {
	Run      string // folder
	Out      string // folder; empty for that of the run
	JSON     bool
	Jobstats bool   // print what jobstats keeps of each job
	Task     string // of which alone, with Jobstats; empty for all
}

func gpuReportCommand() *cli.Command {
	var o GPUReportOptions
	return cmdline.Help{
		Example: "lathe gpu-report runs/quickstart\n" +
			"lathe gpu-report runs/quickstart --jobstats --task learn-000001-00000",
		Exits: cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "gpu-report", Usage: "report how well a run used the GPUs, cores and memory of its tasks", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			outFlag(&o.Out),
			cmdline.JSONFlag(&o.JSON),
			&cli.BoolFlag{Name: "jobstats", Usage: "print one JSON line per task attempt, in the format of jobstats", Destination: &o.Jobstats},
			&cli.StringFlag{Name: "task", Usage: "with --jobstats: only `TASK`", Destination: &o.Task},
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return GPUReport(c.Context, c.App.Writer, o) }),
	})
}

// GPUReport says what a run made of what its tasks were given.
func GPUReport(ctx context.Context, out io.Writer, o GPUReportOptions) error {
	if o.Task != "" && !o.Jobstats {
		return cmdline.Misusef("--task requires --jobstats")
	}
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	report, err := efficiency.Read(ctx, opened, func() (*advance.Advancer, error) { return advancerOf(opened, "") })
	if err != nil {
		return err
	}
	if o.Jobstats {
		if !report.Sampled {
			return exitcode.Dataf("no samples: %s", report.Reason)
		}
		return report.Jobstats(out, o.Task)
	}
	page, err := report.Write(cmp.Or(o.Out, opened.Dir.Report()), seal.AttemptFromEnv())
	if err != nil {
		return elsewhere(err)
	}
	if o.JSON {
		return cmdline.WriteJSON(out, report)
	}
	if err := report.Text(out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "lathe: wrote the page %s\n", page)
	return nil
}
