package command

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// PolicyMergeOptions are those of lathe policy merge.
type PolicyMergeOptions struct {
	Model string // folder of the adapter
	Base  string // folder of the policy that it adapts; empty is the one that it names
	Out   string // folder
}

func policyMergeCommand() *cli.Command {
	var o PolicyMergeOptions
	return cmdline.Help{
		Example: "lathe policy merge --model runs/gsm8k-lora/policy/v000010 --out runs/merged",
		Exits:   cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "merge", Usage: "write a whole policy: an adapter's base with the adapter in its matrices",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "model", Usage: "adapter `FOLDER` as PEFT's", Destination: &o.Model},
			&cli.StringFlag{Name: "base", Usage: "policy `FOLDER` that it adapts; none takes the one that it names", Destination: &o.Base},
			newFolderFlag(&o.Out),
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyMerge(c.App.Writer, o) }),
	})
}

// PolicyMerge writes a whole policy of an adapter.
func PolicyMerge(out io.Writer, o PolicyMergeOptions) error {
	if err := cmdline.Required("model", o.Model, "out", o.Out); err != nil {
		return err
	}
	return writeFolder(out, o.Out, func(folder string) error { return checkpoint.Merge(o.Model, o.Base, folder) })
}
