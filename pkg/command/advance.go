package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// AdvanceOptions are those of lathe advance.
type AdvanceOptions struct {
	LaunchOptions
	Retry      bool   // forget earlier failures
	Extended   int    // how often the run was extended
	SiteSHA256 string // of the site profile, which must be this one; empty for any
	// UnlessPaused leaves a run alone that lathe pause or lathe cancel holds; controller jobs
	// do. Without it the run goes on.
	UnlessPaused bool
}

func advanceCommand() *cli.Command {
	var o AdvanceOptions
	return cmdline.Help{
		Example: "lathe advance --recipe jobs/quickstart.yaml --run runs/first --site generic",
		Exits: map[int]string{
			exitcode.LeftOut: "done, but some shards were left out; lathe status lists them", exitcode.Data: "",
			exitcode.Unavailable: "Slurm or something else that is required is missing on this machine", exitcode.Stopped: "",
		},
	}.Command(&cli.Command{
		Name: "advance", Usage: "submit every ready task of a run, then exit", ArgsUsage: "[RUN]",
		Flags: o.flags(
			&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` for a new run, if the run does not exist", Destination: &o.Recipe},
			&cli.StringFlag{Name: "site-sha256", Usage: "refuse a site profile whose resolved YAML has another `SHA256`; set by controller jobs", Destination: &o.SiteSHA256},
			&cli.IntFlag{Name: "extended", Usage: "wait until this node sees that the run was extended `N` times; set by controller jobs", Destination: &o.Extended},
			&cli.BoolFlag{Name: "unless-paused", Usage: "submit nothing if the run is paused or cancelled; set by controller jobs", Destination: &o.UnlessPaused},
			&cli.BoolFlag{Name: "retry", Usage: "clear recorded failures and retry the failed tasks", Destination: &o.Retry},
		),
		Action: cmdline.OptionalArgument(&o.Run, func(c *cli.Context) error { return Advance(c.Context, c.App.Writer, o) }),
	})
}

// Advance submits what of a run is ready, and leaves.
func Advance(ctx context.Context, out io.Writer, o AdvanceOptions) error {
	if o.Executor == "local" || o.Executor == "steps" {
		return exitcode.WithHint(exitcode.Usagef("--executor %q does not work with lathe advance: its tasks end with the process that started them", o.Executor),
			"use lathe run")
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.DryRun {
		return o.dryRun(ctx, out)
	}
	if err := rundir.AwaitExtension(ctx, graph.Dir(o.Run), o.Extended); err != nil {
		return err
	}
	opened, err := o.open(ctx)
	if err != nil {
		return err
	}
	if !o.UnlessPaused {
		if err := resume(opened, os.Stderr); err != nil {
			return err
		}
	}
	if p, paused := rundir.ReadPause(opened.Dir); paused {
		fmt.Fprintf(os.Stderr, "lathe: run %s is %s: nothing is submitted\n", opened.Dir, p)
		return nil
	}
	err = o.advance(ctx, out, opened)
	if p, paused := rundir.ReadPause(opened.Dir); paused && o.UnlessPaused && exitcode.Code(err) == exitcode.Stopped && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "lathe: run %s is %s: no more tasks are submitted\n", opened.Dir, p)
		return nil
	}
	return err
}

// queueFullEvery is how often a queue that takes no more jobs is asked again.
const queueFullEvery = 30 * time.Second

// advance submits what is ready and leaves. When the run is done it
// writes the report.
func (o AdvanceOptions) advance(ctx context.Context, out io.Writer, opened *rundir.Run) (err error) {
	advancer, err := advancerOf(opened, o.Site, o.siteSettings()...)
	defer func() { noteEnd(ctx, opened, advancer, err) }()
	if err != nil {
		return err
	}
	if o.SiteSHA256 != "" && o.SiteSHA256 != advancer.Site.SHA256 {
		return exitcode.WithHint(exitcode.Usagef("the site profile %q changed after this controller job was submitted: its sha256 is %s, not %s", advancer.Site.Path, advancer.Site.SHA256, o.SiteSHA256),
			"to use the changed profile: lathe advance --run %s --site %s", opened.Dir, advancer.Site.Path)
	}
	if o.Retry {
		if err := advance.Forgive(opened.Dir, advancer.Attempt); err != nil {
			return err
		}
	}
	done, err := o.submitReady(ctx, out, advancer)
	if done || err != nil {
		notify(ctx, opened, advancer.Site.Site.Notify, err, true)
	}
	return err
}

// submitReady submits what is ready, and finishes a run that is done.
func (o AdvanceOptions) submitReady(ctx context.Context, out io.Writer, advancer *advance.Advancer) (done bool, err error) {
	opened := advancer.Run
	result, err := advancer.Advance(ctx)
	for errors.Is(err, slurm.ErrQueueFull) {
		// Nothing waits in the queue that would continue the run.
		fmt.Fprintf(os.Stderr, "lathe: %v; retrying every %s\n", err, queueFullEvery)
		select {
		case <-ctx.Done():
			return false, exitcode.WithHint(ctx.Err(), "when the queue has room: lathe advance --run %s", opened.Dir)
		case <-time.After(queueFullEvery):
		}
		result, err = advancer.Advance(ctx)
	}
	if err != nil {
		return false, err
	}
	if result.Done {
		return true, finishSlurm(ctx, out, opened)
	}
	sealMetrics(ctx, opened, iterationsDone(opened))
	fmt.Fprintf(os.Stderr, "lathe: %s submitted, %s pending or running\n", plural.Count(len(result.Submitted), "array"), plural.Count(result.Live, "task"))
	return false, nil
}
