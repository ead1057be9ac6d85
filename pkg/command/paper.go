package command

import (
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/paper"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// PaperOptions are those of lathe paper.
type PaperOptions struct {
	Paper     string
	Folders   []string // runs, or folders that hold runs
	Baseline  string   // label of the method that differences are to; empty for the first
	Embedding string   // MODEL@URL of a server of embeddings; empty for hashed n-grams
	Out       string   // folder for the tables and figures; empty for none
	Plan      bool     // print what runs are needed, and make nothing
	Jobs      string   // folder of Lathe's recipes
	JSON      bool
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
			&cli.StringFlag{Name: "embedding", Usage: "compare instances by the embeddings of `MODEL@URL`, a server with OpenAI's interface, such as codexembed@http://localhost:8000; default: hashed n-grams", Destination: &o.Embedding},
			&cli.StringFlag{Name: "out", Usage: "write a page, tables and figures into `FOLDER`", Destination: &o.Out},
			&cli.BoolFlag{Name: "plan", Usage: "print the runs that each table and figure needs, or those named in the place of RUN (such as table-1), and what they would cost", Destination: &o.Plan},
			&cli.StringFlag{Name: "jobs", Usage: "with --plan: `FOLDER` of Lathe's recipes", Value: "jobs", Destination: &o.Jobs},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			switch {
			case len(args) == 0:
				return exitcode.Usagef("PAPER is missing: one of %s", strings.Join(paper.Names(), ", "))
			case o.Plan:
				return paperPlan(c.App.Writer, o.Jobs, args[0], args[1:])
			case len(args) == 1:
				return exitcode.WithHint(exitcode.Usagef("RUN is missing"), "to see which runs the items need: lathe paper %s --plan", args[0])
			}
			o.Paper, o.Folders = args[0], args[1:]
			return Paper(c.Context, c.App.Writer, o)
		},
	})
}

// embedding asks the server of --embedding; nil for none.
func (o PaperOptions) embedding() (measure.Embed, error) {
	if o.Embedding == "" {
		return nil, nil
	}
	model, url, found := strings.Cut(o.Embedding, "@")
	if !found || model == "" || url == "" {
		return nil, exitcode.Usagef("--embedding: got %q, want MODEL@URL", o.Embedding)
	}
	e := recipe.Endpoint{URL: url, Model: model}
	e.SetDefaults()
	return func(ctx context.Context, texts []string) ([][]float32, error) {
		return remote.Embed(ctx, remote.Options{
			URL: url, Model: model, Section: "--embedding", Concurrency: e.Concurrency, Timeout: stage.Seconds(e.TimeoutSeconds),
			Retries: e.Retries, Backoff: stage.Seconds(e.BackoffSeconds), Log: func(string, ...any) {},
		}, e.Batch, texts)
	}, nil
}

// Paper makes the tables and figures of a paper, prints them, and writes them into a
// folder.
func Paper(ctx context.Context, out io.Writer, o PaperOptions) error {
	embed, err := o.embedding()
	if err != nil {
		return err
	}
	r, err := paper.Make(ctx, o.Paper, o.Folders, paper.Options{Baseline: o.Baseline, Embed: embed})
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
