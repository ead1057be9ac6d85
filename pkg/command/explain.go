package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/explain"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// ExplainOptions are those of lathe explain.
type ExplainOptions struct {
	Run       string // folder
	Iteration *int   // nil for that of the id
	Instance  string // id, in the iteration's plan
	JSON      bool
}

func explainCommand() *cli.Command {
	var o ExplainOptions
	return cmdline.Help{
		Example: "lathe explain runs/quickstart --instance i000002-000005",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "explain", Usage: "print why an instance was sampled, its probability and its parent attempt", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			cmdline.NumberFlag("iter", "iteration `K`, from 1; default: that of the ID", &o.Iteration, "iteration"),
			&cli.StringFlag{Name: "instance", Usage: "`ID` of the instance, such as i000002-000005; lathe samples prints them", Destination: &o.Instance},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Explain(c.Context, c.App.Writer, o) }),
	})
}

// Explain says why an instance of a run was sampled.
func Explain(ctx context.Context, out io.Writer, o ExplainOptions) error {
	if err := cmdline.Required("instance", o.Instance); err != nil {
		return err
	}
	iteration := plan.IterationOf(o.Instance)
	switch {
	case o.Iteration != nil:
		iteration = *o.Iteration
	case iteration == 0:
		return exitcode.Usagef("the ID %q does not name its iteration, as i000002-000005 does: set --iter", o.Instance)
	}
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	explained, err := explain.Explain(ctx, opened, iteration, o.Instance)
	if err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, explained)
	}
	return printExplanation(out, explained)
}

func printExplanation(w io.Writer, x explain.Explanation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "instance\t%s of iteration %d\n", x.InstanceID, x.Iteration)
	fmt.Fprintf(t, "task\t%s\n", x.TaskID)
	fmt.Fprintf(t, "kind\t%s, depth %d\n", x.Kind, x.Depth)
	if x.SelectedBy == "" {
		fmt.Fprintf(t, "selected by\tthe curriculum, which gives no probability\n")
	} else {
		fmt.Fprintf(t, "selected by\t%s, with probability %.6g\n", x.SelectedBy, x.Probability)
	}
	for _, term := range x.Terms {
		fmt.Fprintf(t, "  %s\t%.6g\n", term.Name, term.Value)
	}
	for i, e := range []*explain.Entry{x.Entry, x.Partner} {
		if e == nil {
			continue
		}
		fmt.Fprintf(t, "%s\t%s, in the state after iteration %d\n", []string{"entry", "joined with"}[i], e.EntryID, e.Iteration)
		fmt.Fprintf(t, "  base score\t%.6g\n  potential\t%.6g\n  visits\t%d", e.BaseScore, e.Potential, e.Visits)
		if e.Visits > 0 {
			fmt.Fprintf(t, ", the last in iteration %d", e.LastSampled)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, a := range x.Ancestors {
		if a.Iteration == 0 {
			fmt.Fprintf(w, "%s the task of instance %s, from its start\n", continues(i), a.InstanceID)
			continue
		}
		fmt.Fprintf(w, "%s sample %d of instance %s of iteration %d (%s, depth %d), quality %.6g\n", continues(i), a.Sample, a.InstanceID, a.Iteration, a.Kind, a.Depth, a.BaseScore)
		for _, text := range a.Said {
			fmt.Fprintf(w, "  | %s\n", strings.ReplaceAll(text, "\n", "\n  | "))
		}
	}
	return nil
}

// continues begins the line of an ancestor.
func continues(i int) string {
	if i == 0 {
		return "continues"
	}
	return "which continues"
}
