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
	WandB       string // folder of its offline files
	Trackio     string // folder of its database
	Python      string // that has wandb or trackio
}

func exportCommand() *cli.Command {
	var o ExportOptions
	return cmdline.Help{
		Example: "lathe export runs/quickstart --csv runs/quickstart.csv --tensorboard runs/tensorboard",
		Exits:   map[int]string{exitcode.Data: "", exitcode.Stopped: "", exitcode.Unavailable: "the Python has no wandb or trackio"},
	}.Command(&cli.Command{
		Name: "export", Usage: "write a run's numbers as CSV, or for TensorBoard, wandb or trackio", ArgsUsage: "RUN",
		Description: `The numbers are those of the report: by iteration, and of held-out problems by policy version. During a run
the command can be repeated; it adds what is new. Nothing is sent anywhere: wandb sync uploads wandb's offline files.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "csv", Usage: "write step, name and value into `FILE`; - for standard output", Destination: &o.CSV},
			&cli.StringFlag{Name: "tensorboard", Usage: "write or continue event files in `FOLDER`/RUNID", Destination: &o.TensorBoard},
			&cli.StringFlag{Name: "wandb", Usage: "write or continue wandb's offline files in `FOLDER`, by the wandb of --python", Destination: &o.WandB},
			&cli.StringFlag{Name: "trackio", Usage: "write or continue trackio's database in `FOLDER`, by the trackio of --python", Destination: &o.Trackio},
			&cli.StringFlag{Name: "python", Usage: "`PYTHON` that has wandb or trackio", Value: "python3", Destination: &o.Python},
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Export(c.Context, c.App.Writer, o) }),
	})
}

// Export writes what a run has measured for other programs.
func Export(ctx context.Context, out io.Writer, o ExportOptions) error {
	if o.CSV == "" && o.TensorBoard == "" && o.WandB == "" && o.Trackio == "" {
		return exitcode.Usagef("nothing to write: set --csv, --tensorboard, --wandb or --trackio")
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
	for i, folder := range []string{o.WandB, o.Trackio} {
		if folder == "" {
			continue
		}
		said, err := export.Track(ctx, o.Python, export.Trackers[i], folder, summary, points)
		if err != nil {
			return err
		}
		if o.CSV != "-" {
			fmt.Fprintf(out, "%s: %s\n", export.Trackers[i], said)
		}
	}
	return nil
}
