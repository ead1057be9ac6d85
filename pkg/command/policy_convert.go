package command

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// PolicyConvertOptions are those of lathe policy convert.
type PolicyConvertOptions struct {
	Model     string // folder
	DType     string // of the weights; empty keeps what they are
	Out       string // folder
	MaxFileMB int64  // cut the weights into files of at most so many megabytes; 0 is one file
}

func policyConvertCommand() *cli.Command {
	var o PolicyConvertOptions
	return cmdline.Help{
		Example: "lathe policy convert --model runs/quickstart/policy/v000000 --dtype bfloat16 --out runs/half",
		Exits:   cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "convert", Usage: "convert a policy's weights to another type or split them into files",
		Flags: []cli.Flag{
			modelFlag(&o.Model), dtypeFlag(&o.DType), newFolderFlag(&o.Out),
			&cli.Int64Flag{Name: "max-file-mb", Usage: "split the weights into files of at most `MB`; 0 writes one file", Destination: &o.MaxFileMB},
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyConvert(c.App.Writer, o) }),
	})
}

// PolicyConvert writes a policy's weights in another type or in other files.
func PolicyConvert(out io.Writer, o PolicyConvertOptions) error {
	if err := cmdline.Required("model", o.Model, "out", o.Out); err != nil {
		return err
	}
	d, err := parseDType(o.DType)
	if err != nil {
		return err
	}
	if err := plain.CheckPolicy(o.Model); err != nil {
		return err
	}
	const bytesPerMB = 1_000_000
	if o.MaxFileMB < 0 || o.MaxFileMB > 1<<40/bytesPerMB {
		return exitcode.Usagef("--max-file-mb: got %d, want 0 or more", o.MaxFileMB)
	}
	return writeFolder(out, o.Out, func(folder string) error {
		return checkpoint.Convert(o.Model, folder, d, o.MaxFileMB*bytesPerMB)
	})
}
