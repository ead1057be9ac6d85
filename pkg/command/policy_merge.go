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
		Name: "merge", Usage: "merge an adapter into its base policy",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "model", Usage: "adapter `FOLDER` in PEFT layout", Destination: &o.Model},
			&cli.StringFlag{Name: "base", Usage: "base policy `FOLDER`; default: the one that the adapter names", Destination: &o.Base},
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
