package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/samples"
)

// SamplesOptions are those of lathe samples.
type SamplesOptions struct {
	Run         string // folder
	Iteration   *int   // nil for the newest
	Instance    string // the group of one instance alone; empty for all
	Sort        string
	Worst, Best int    // groups to show; 0 and 0 for all
	Page        string // file to write instead of text; empty for none
	JSON        bool
}

func samplesCommand() *cli.Command {
	var o SamplesOptions
	return cmdline.Help{
		Example: "lathe samples runs/quickstart --iteration 12 --sort reward --worst 5",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "samples", Usage: "print the responses that an iteration learned from, group by group", ArgsUsage: "RUN",
		Description: `A group is the responses to one prompt. Each is printed with its reward, what became of it, its advantage, the
mean surprise of its tokens and what the environment said. Advantages are those of the batch.`,
		Flags: []cli.Flag{
			cmdline.NumberFlag("iteration", "iteration `K`, from 1; default: the newest that is sampled", &o.Iteration, "iter"),
			&cli.StringFlag{Name: "instance", Usage: "only the group of instance `ID`", Destination: &o.Instance},
			&cli.StringFlag{Name: "sort", Usage: "sort by `ORDER`: reward, the lowest mean first; spread or length, the largest first; or planned", Value: string(samples.ByReward), Destination: &o.Sort},
			&cli.IntFlag{Name: "worst", Usage: "print the first `N` groups of that order; default: all", DefaultText: cmdline.NoDefault, Destination: &o.Worst},
			&cli.IntFlag{Name: "best", Usage: "print the last `N` groups of that order; default: all", DefaultText: cmdline.NoDefault, Destination: &o.Best},
			&cli.StringFlag{Name: "page", Usage: "write a page with each token's probability into `FILE`", Destination: &o.Page},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Samples(c.Context, c.App.Writer, o) }),
	})
}

// Samples shows the groups of responses of an iteration.
func Samples(ctx context.Context, out io.Writer, o SamplesOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	if o.Iteration == nil {
		newest := samples.Newest(ctx, opened)
		o.Iteration = &newest
		printNotes(os.Stderr, []string{fmt.Sprintf("iteration %d", newest)})
	}
	groups, err := samples.Read(ctx, opened, *o.Iteration)
	if err != nil {
		return err
	}
	if groups, err = o.choose(groups); err != nil {
		return err
	}
	note := samples.AdvantageNote(opened.Recipe.Advantage.AdvantageSettings)
	switch {
	case o.Page != "":
		page, err := samples.Page(fmt.Sprintf("%s, iteration %d", opened.Identity.RunID, *o.Iteration), note, groups)
		if err != nil {
			return err
		}
		return os.WriteFile(o.Page, page, 0o666)
	case o.JSON:
		return cmdline.WriteJSON(out, groups)
	}
	if note != "" {
		printNotes(os.Stderr, []string{note})
	}
	for _, g := range groups {
		printGroup(out, g)
	}
	return nil
}

// choose sorts groups and takes those that are asked for.
func (o SamplesOptions) choose(groups []samples.Group) ([]samples.Group, error) {
	if o.Worst < 0 || o.Best < 0 || o.Worst > 0 && o.Best > 0 {
		return nil, exitcode.Usagef("--worst and --best are numbers of groups, and only one of them can be set")
	}
	if o.Instance != "" {
		groups = slices.DeleteFunc(groups, func(g samples.Group) bool { return g.InstanceID != o.Instance })
		if len(groups) == 0 {
			return nil, exitcode.Usagef("iteration %d has no responses to instance %q", *o.Iteration, o.Instance)
		}
	}
	if err := samples.Sort(groups, samples.Order(o.Sort)); err != nil {
		return nil, err
	}
	switch {
	case o.Worst > 0:
		groups = groups[:min(o.Worst, len(groups))]
	case o.Best > 0:
		groups = groups[max(0, len(groups)-o.Best):]
	}
	return groups, nil
}

func printGroup(w io.Writer, g samples.Group) {
	fmt.Fprintf(w, "%s\n", g.Summary())
	for _, m := range g.Prompt {
		printQuoted(w, m.Role+" > ", m.Content)
	}
	for _, r := range g.Responses {
		fmt.Fprintf(w, "  %s\n", r.Summary())
		printQuoted(w, "    | ", r.Text())
		if r.Extracted != "" {
			printQuoted(w, "    scored: ", r.Extracted)
		}
		if r.Feedback != "" {
			printQuoted(w, "    feedback: ", r.Feedback)
		}
	}
	fmt.Fprintln(w)
}

// printQuoted begins each line of a text with the same mark.
func printQuoted(w io.Writer, mark, text string) {
	fmt.Fprintf(w, "%s%s\n", mark, strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+mark))
}
