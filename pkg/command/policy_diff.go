package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// PolicyDiffOptions are those of lathe policy diff.
type PolicyDiffOptions struct {
	Folders  [2]string
	JSON     bool
	ExitCode bool // a difference is an error
}

func policyDiffCommand() *cli.Command {
	var o PolicyDiffOptions
	return cmdline.Help{
		Example: "lathe policy diff runs/quickstart/policy/v000000 runs/quickstart/policy/v000001",
		Exits:   map[int]string{exitcode.Failed: "with --exit-code: the policies differ; or any other failure", exitcode.Data: ""},
	}.Command(&cli.Command{
		Name: "diff", Usage: "compare the weights of two policies", ArgsUsage: "FOLDER FOLDER",
		Flags: []cli.Flag{
			cmdline.JSONFlag(&o.JSON),
			&cli.BoolFlag{Name: "exit-code", Usage: "exit with code 1 if the policies differ", Destination: &o.ExitCode},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != len(o.Folders) {
				return cmdline.Misusef("FOLDER FOLDER: give two policy folders")
			}
			o.Folders = [2]string(c.Args().Slice())
			return PolicyDiff(c.App.Writer, o)
		},
	})
}

// errDiffer ends lathe policy diff --exit-code with code 1, as of diff.
var errDiffer = errors.New("the policies differ")

// PolicyDiff compares the weights of two policies.
func PolicyDiff(out io.Writer, o PolicyDiffOptions) error {
	for _, folder := range o.Folders {
		if err := plain.CheckPolicy(folder); err != nil {
			return err
		}
	}
	d, err := checkpoint.Diff(o.Folders[0], o.Folders[1])
	if err != nil {
		return err
	}
	if o.JSON {
		if err := cmdline.WriteJSON(out, d); err != nil {
			return err
		}
	} else {
		printDifference(out, d)
	}
	if o.ExitCode && !d.Equal() {
		return errDiffer
	}
	return nil
}

// maxDifferences is the number of tensors that lathe policy diff prints; all
// are in its JSON.
const maxDifferences = 20

func printDifference(w io.Writer, d checkpoint.Difference) {
	if d.Equal() {
		fmt.Fprintf(w, "the same weights: %s, %d elements\n", plural.Count(d.Same, "tensor"), d.Total)
		return
	}
	fmt.Fprintf(w, "the same: %s, %d differ; %d of %d elements differ, by at most %.3g (%.3g relative)\n",
		plural.Count(d.Same, "tensor"), len(d.Differ), d.Changed, d.Total, d.MaxAbs, d.MaxRel)
	for _, only := range []struct {
		names []string
		which string
	}{{d.OnlyA, "first"}, {d.OnlyB, "second"}} {
		if len(only.names) > 0 {
			fmt.Fprintf(w, "only in the %s: %s\n", only.which, strings.Join(only.names, " "))
		}
	}
	for i, t := range d.Differ {
		if i == maxDifferences {
			fmt.Fprintf(w, "  and %d more (--json has all)\n", len(d.Differ)-i)
			break
		}
		fmt.Fprintf(w, "  %s: %v %s, %v %s, %d of %d elements by at most %.3g (%.3g relative)\n",
			t.Name, t.ShapeA, t.DTypeA, t.ShapeB, t.DTypeB, t.Changed, t.Elements, t.MaxAbs, t.MaxRel)
	}
}
