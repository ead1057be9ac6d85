package command

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/export"
	"github.com/lathe-rl/lathe/pkg/measure"
)

// ExportOptions are those of lathe export.
type ExportOptions struct {
	Run         string // folder
	CSV         string // file; - for standard output
	TensorBoard string // folder
}

func exportCommand() *cli.Command {
	var o ExportOptions
	return cmdline.Help{
		Example: "lathe export runs/quickstart --csv runs/quickstart.csv --tensorboard runs/tensorboard",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "export", Usage: "write a run's numbers as CSV or for TensorBoard", ArgsUsage: "RUN",
		Description: `The numbers are those of the report: by iteration, and of held-out problems by policy version. During a run
the command can be repeated; it adds what is new.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "csv", Usage: "write step, name and value into `FILE`; - for standard output", Destination: &o.CSV},
			&cli.StringFlag{Name: "tensorboard", Usage: "write or continue event files in `FOLDER`/RUNID", Destination: &o.TensorBoard},
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Export(c.Context, c.App.Writer, o) }),
	})
}

// Export writes what a run has measured for other programs.
func Export(ctx context.Context, out io.Writer, o ExportOptions) error {
	if o.CSV == "" && o.TensorBoard == "" {
		return exitcode.Usagef("nothing to write: set --csv or --tensorboard")
	}
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	summary, err := measure.Of(opened).Summary(ctx)
	if err != nil {
		return err
	}
	points, err := export.Points(summary)
	if err != nil {
		return err
	}
	if o.CSV != "" {
		table, err := export.CSV(points)
		if err != nil {
			return err
		}
		if o.CSV == "-" {
			_, err = out.Write(table)
		} else {
			err = export.Continue(o.CSV, table)
		}
		if err != nil {
			return err
		}
	}
	if o.TensorBoard != "" {
		path, err := export.TensorBoard(o.TensorBoard, summary, points)
		if err != nil {
			return err
		}
		if o.CSV != "-" {
			fmt.Fprintf(out, "wrote %s\n", path)
		}
	}
	return nil
}
