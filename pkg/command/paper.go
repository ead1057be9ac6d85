package command

import (
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/paper"
)

// PaperOptions are those of lathe paper.
type PaperOptions struct {
	Paper    string
	Folders  []string // runs, or folders that hold runs
	Baseline string   // label of the method that differences are to; empty for the first
	Out      string   // folder for the tables and figures; empty for none
	JSON     bool
}

func paperCommand() *cli.Command {
	var o PaperOptions
	return cmdline.Help{
		Example: "lathe paper exit runs/sweep --out runs/exit-tables",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "paper", Usage: "write a paper's tables and figures (" + strings.Join(paper.Names(), ", ") + ") from runs; a folder means all runs in it", ArgsUsage: "PAPER RUN|FOLDER...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "baseline", Usage: "compute differences to `METHOD`, a name in the tables; default: the first", Destination: &o.Baseline},
			&cli.StringFlag{Name: "out", Usage: "write a page, tables and figures into `FOLDER`", Destination: &o.Out},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			switch len(args) {
			case 0:
				return exitcode.Usagef("PAPER is missing: one of %s", strings.Join(paper.Names(), ", "))
			case 1:
				return exitcode.Usagef("RUN is missing")
			}
			o.Paper, o.Folders = args[0], args[1:]
			return Paper(c.Context, c.App.Writer, o)
		},
	})
}

// Paper makes the tables and figures of a paper, prints them, and writes them into a
// folder.
func Paper(ctx context.Context, out io.Writer, o PaperOptions) error {
	r, err := paper.Make(ctx, o.Paper, o.Folders, o.Baseline)
	if err != nil {
		return err
	}
	if o.Out != "" {
		if err := paper.Write(o.Out, r); err != nil {
			return err
		}
	}
	if o.JSON {
		return cmdline.WriteJSON(out, r)
	}
	return paper.Text(out, r)
}
