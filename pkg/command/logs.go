package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/logs"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
)

// LogsOptions are those of lathe logs.
type LogsOptions struct {
	Run       string // folder
	Stage     string // empty for every stage but controller jobs
	Iteration *int   // nil for every iteration
	Shard     *int   // nil for every shard
	Failed    bool   // those that failed alone
	Lines     int    // of each log
	Most      int    // attempts that are shown; 0 for all
	Follow    bool   // continue what is written
	JSON      bool
}

func logsCommand() *cli.Command {
	var o LogsOptions
	return cmdline.Help{
		Example: "lathe logs runs/quickstart --stage learn --iteration 1",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "logs", Usage: "show how task attempts ended, and the last lines of their logs", ArgsUsage: "RUN",
		Description: "Lists failed attempts first, each with its cause, node and number, and with Slurm's reason where there is\n" +
			"one, such as out of memory or time limit. Shows successful attempts only if you select them by\n" +
			"--stage, --iteration or --shard. The log files are in RUN/logs.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "failed", Usage: "show only attempts that failed or were stopped", Destination: &o.Failed},
			&cli.StringFlag{Name: "stage", Usage: "show only tasks of `STAGE`; gate for controller jobs", Destination: &o.Stage},
			cmdline.NumberFlag("iteration", "show only tasks of iteration `K`; for evaluations, the policy version", &o.Iteration),
			cmdline.NumberFlag("shard", "show only tasks of shard `N`, from 0", &o.Shard),
			&cli.IntFlag{Name: "lines", Usage: "number of `LINES` from the end of each log", Value: 10, Destination: &o.Lines},
			&cli.IntFlag{Name: "most", Usage: "show at most `N` attempts; 0 shows all", Value: 20, Destination: &o.Most},
			&cli.BoolFlag{Name: "follow", Usage: "print new lines as they are written, until the run is done", Destination: &o.Follow},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Logs(c.Context, c.App.Writer, o) }),
	})
}

// filter is what of a run is meant.
func (o LogsOptions) filter() (logs.Filter, error) {
	f := logs.Filter{Iteration: o.Iteration, Shard: o.Shard, Failed: o.Failed}
	switch {
	case o.Lines < 0:
		return f, cmdline.AtLeast(0, "lines", o.Lines)
	case o.Most < 0:
		return f, cmdline.AtLeast(0, "most", o.Most)
	case o.Follow && o.JSON:
		return f, cmdline.Misusef("--follow and --json exclude each other")
	case o.Stage == string(logs.Gate):
		f.Stage = logs.Gate
		return f, nil
	case o.Stage == "":
		return f, nil
	}
	var err error
	f.Stage, err = graph.ParseStage(o.Stage)
	return f, err
}

// Logs shows how attempts at tasks ended.
func Logs(ctx context.Context, out io.Writer, o LogsOptions) error {
	filter, err := o.filter()
	if err != nil {
		return err
	}
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	var advancer *advance.Advancer
	var unasked error // why Slurm was not asked
	if advance.HasSubmissions(opened.Dir) {
		advancer, unasked = advancerOf(opened, "")
	}
	_, alive := status.OtherDriver(opened.Dir)
	entries, err := logs.Collect(ctx, opened, advancer, alive, filter)
	if err != nil && advancer != nil && ctx.Err() == nil {
		unasked = err
		entries, err = logs.Collect(ctx, opened, nil, alive, filter)
	}
	if err != nil {
		return err
	}
	shown := o.choose(entries, filter)
	for i := range shown {
		shown[i].Lines = []string{}
		if shown[i].Log != "" {
			lines, err := shown[i].Tail(opened.Dir, o.Lines)
			if err != nil {
				lines = []string{err.Error()}
			}
			shown[i].Lines = lines
		}
	}
	if o.JSON {
		return cmdline.WriteJSON(out, shown)
	}
	printEntries(out, shown)
	count := plural.Of(len(shown), len(entries), "attempt") + " shown"
	if filter.All() && !filter.Failed && len(shown) < len(entries) {
		count += "; --stage, --iteration or --shard shows successful ones too"
	}
	if _, err := fmt.Fprintln(out, count); err != nil {
		return err
	}
	if unasked != nil {
		fmt.Fprintf(out, "Slurm's own reasons are missing because it could not be queried: %v\n", unasked)
	}
	if o.Follow {
		return follow(ctx, out, opened, filter)
	}
	return nil
}

// choose leaves out what went well unless it is asked for, and what is too much.
func (o LogsOptions) choose(entries []logs.Entry, filter logs.Filter) []logs.Entry {
	chosen := []logs.Entry{}
	for _, e := range entries {
		if filter.All() && !filter.Failed && (e.State == logs.Done || e.State == logs.Mended || e.State == logs.Waiting) {
			continue
		}
		if o.Most == 0 || len(chosen) < o.Most {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

func printEntries(out io.Writer, shown []logs.Entry) {
	for _, e := range shown {
		line := fmt.Sprintf("%s, attempt %d: %s", e.Task, e.Attempt, e.State)
		if e.Cause != "" && string(e.Cause) != string(e.State) && e.State != logs.Done {
			line += ", " + string(e.Cause)
		}
		if e.Node != "" {
			line += ", on " + e.Node
		}
		if e.Job != "" {
			line += ", job " + e.Job
		}
		if !e.End.IsZero() {
			line += ", " + e.End.Format(time.RFC3339)
		}
		fmt.Fprintln(out, line)
		if e.Evidence != "" {
			fmt.Fprintln(out, "  "+e.Evidence)
		}
		if e.Log != "" {
			fmt.Fprintf(out, "  %s:\n", e.Log)
		}
		for _, l := range e.Lines {
			fmt.Fprintln(out, "  | "+l)
		}
	}
}

// How often new lines are looked for, how often the end of the run, and how many
// bytes of one log are shown at a time.
const (
	followEvery = 500 * time.Millisecond
	endEvery    = 5 * time.Second
	followBytes = 64 << 10
)

// follow shows what is written to logs from now on, until the run is done or the
// person has seen enough.
func follow(ctx context.Context, out io.Writer, opened *rundir.Run, filter logs.Filter) error {
	offsets, err := logs.Sizes(opened.Dir, filter)
	if err != nil {
		return err
	}
	last, asked := "", time.Now()
	for {
		sizes, err := logs.Sizes(opened.Dir, filter)
		if err != nil {
			return err
		}
		for _, name := range logs.Sorted(sizes) {
			for sizes[name] > offsets[name] {
				text, next, err := logs.From(filepath.Join(opened.Dir.Logs(), name), offsets[name], followBytes)
				if err != nil || next == offsets[name] {
					break // it is looked at again
				}
				offsets[name] = next
				if name != last {
					fmt.Fprintf(out, "==> %s <==\n", name)
					last = name
				}
				if _, err := io.WriteString(out, text); err != nil {
					return err
				}
			}
		}
		if time.Since(asked) >= endEvery {
			if state, err := status.ReadState(ctx, opened); err == nil && state == status.StateDone {
				return nil
			}
			asked = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil // ctrl-C is how it ends
		case <-time.After(followEvery):
		}
	}
}
