package command

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// DataImportOptions are those of lathe data import.
type DataImportOptions struct {
	Folder string
	Boards string // MLE-bench's folder of competitions, for leaderboards; empty for none
	JSON   bool
}

func dataImportCommand() *cli.Command {
	var o DataImportOptions
	return cmdline.Help{
		Example: "lathe data import mle-bench ~/.cache/mle-bench/data --leaderboards mle-bench/mlebench/competitions",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.LeftOut),
	}.Command(&cli.Command{
		Name: "import", Usage: "make tasks of the competitions that mlebench prepare has left in a folder", ArgsUsage: "mle-bench FOLDER",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "leaderboards", Usage: "copy each leaderboard.csv from `FOLDER`, mlebench/competitions of MLE-bench's repository", Destination: &o.Boards},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 2 || c.Args().First() != "mle-bench" {
				return exitcode.Usagef("give the format, mle-bench, and a folder")
			}
			o.Folder = c.Args().Get(1)
			return DataImport(c.App.Writer, o)
		},
	})
}

// DataImport writes a task.yaml beside each prepared competition, and says what could
// not be made a task.
func DataImport(out io.Writer, o DataImportOptions) error {
	imported, err := task.ImportMLEBench(o.Folder, o.Boards)
	if err != nil {
		return fmt.Errorf("importing %q: %w", o.Folder, err)
	}
	problems := 0
	for _, i := range imported {
		if i.Problem != "" {
			problems++
		}
	}
	if o.JSON {
		err = cmdline.WriteJSON(out, imported)
	} else {
		err = printImported(out, imported)
	}
	if err == nil && problems > 0 {
		return &exitcode.Error{Code: exitcode.LeftOut, Err: fmt.Errorf("%s %s no %s", plural.Of(problems, len(imported), "folder"), plural.Verb(problems, "is", "are"), plural.Noun(problems, "task"))}
	}
	return err
}

func printImported(out io.Writer, imported []task.Imported) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "competition\tsplit\tmetric\tsample\tleaderboard\ttask.yaml")
	for _, i := range imported {
		if i.Problem != "" {
			fmt.Fprintf(table, "%s\t%s\t\t\t\tnone: %s\n", i.Name, i.Split, i.Problem)
			continue
		}
		sample, board, file := "no score", "none", "was there"
		if i.Sample != nil {
			sample = fmt.Sprint(*i.Sample)
		}
		if i.Board {
			board = "yes"
		}
		if i.Written {
			file = "written"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", i.Name, i.Split, i.Metric, sample, board, file)
	}
	return table.Flush()
}
