package command

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// CompareOptions are those of lathe compare.
type CompareOptions struct {
	compare.Options
	Folders []string // runs, or folders that hold runs
	Out     string   // folder for the page; empty for none
	JSON    bool
	CSV     bool
}

func compareCommand() *cli.Command {
	var o CompareOptions
	return cmdline.Help{
		Example: "lathe compare runs/exit-1 runs/exit-2 runs/grpo-1 runs/grpo-2 --baseline grpo --out runs/compared",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "compare", Usage: "compare recipes by their runs, several seeds each; a folder means all runs in it", ArgsUsage: "RUN|FOLDER...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "baseline", Usage: "compare with `METHOD`, a name in the table; default: the first", Destination: &o.Baseline},
			&cli.IntFlag{Name: "resamples", Usage: "number `N` of bootstrap resamples", Value: 10_000, Destination: &o.Resamples},
			&cli.Uint64Flag{Name: "seed", Usage: "bootstrap `SEED`", Value: 1, Destination: &o.Seed},
			&cli.StringFlag{Name: "out", Usage: "write a page, figures and numbers into `FOLDER`", Destination: &o.Out},
			cmdline.NumberFlag("steps", "compare answers up to revision `K` only, such as of runs with different evaluation.steps; 0: first answers", &o.Steps),
			cmdline.ListFlag("measure", "also compare measure `NAME` of each run, such as corrections.net, transitions.f2s or a STAGE/NAME of the metrics of tasks; repeatable", &o.Measures),
			cmdline.JSONFlag(&o.JSON),
			&cli.BoolFlag{Name: "csv", Usage: "print CSV, one row per method, metric and step", Destination: &o.CSV},
		},
		Action: func(c *cli.Context) error {
			if o.Folders = c.Args().Slice(); len(o.Folders) == 0 {
				return exitcode.Usagef("RUN is missing")
			}
			return Compare(c.Context, c.App.Writer, o)
		},
	})
}

// Compare compares runs, prints what came out, and writes its page.
func Compare(ctx context.Context, out io.Writer, o CompareOptions) error {
	if o.JSON && o.CSV {
		return cmdline.Misusef("--json and --csv exclude each other")
	}
	if o.Resamples < 1 {
		return cmdline.Misusef("--resamples: got %d, want 1 or more", o.Resamples)
	}
	c, err := compare.Runs(ctx, o.Folders, o.Options)
	if err != nil {
		return err
	}
	if o.Out != "" {
		if err := compare.Write(o.Out, c); err != nil {
			return err
		}
	}
	switch {
	case o.JSON:
		return cmdline.WriteJSON(out, c)
	case o.CSV:
		return compare.CSV(out, c)
	}
	return compare.Text(out, c)
}
