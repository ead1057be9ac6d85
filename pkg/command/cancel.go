package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// PauseOptions are those of lathe pause and lathe cancel.
type PauseOptions struct {
	Run       string // folder
	Stop      bool   // tasks that run, too: lathe cancel
	Stage     string // alone; empty for every stage
	Iteration *int   // alone; nil for every iteration
	Now       bool   // kill them, without time to stop
	JSON      bool
}

func pauseCommand() *cli.Command {
	var o PauseOptions
	return cmdline.Help{
		Example: "lathe pause runs/quickstart\nlathe run --run runs/quickstart",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Unavailable, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "pause", Usage: "finish running tasks, start no new ones", ArgsUsage: "RUN",
		Description: "Removes tasks and controller jobs that wait in Slurm's queue. A driver process, on any host, exits when its\n" +
			"last task has ended. The command that started the run resumes it.",
		Flags:  []cli.Flag{cmdline.JSONFlag(&o.JSON)},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return PauseRun(c.Context, c.App.Writer, o) }),
	})
}

func cancelCommand() *cli.Command {
	o := PauseOptions{Stop: true}
	return cmdline.Help{
		Example: "lathe cancel runs/quickstart\nlathe run --run runs/quickstart",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Unavailable, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "cancel", Usage: "stop a run's tasks, controller jobs and driver", ArgsUsage: "RUN",
		Description: "Keeps everything that is sealed; the command that started the run resumes it. Tasks get the time that Slurm\n" +
			"grants between SIGTERM and SIGKILL, in which they seal or drop their work. With --stage or --iteration only\n" +
			"those tasks are stopped and other submitted tasks finish. In both cases no new task is submitted.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "stage", Usage: "stop only tasks of `STAGE`", Destination: &o.Stage},
			cmdline.NumberFlag("iteration", "stop only tasks of iteration `K`; for evaluations, the policy version", &o.Iteration),
			&cli.BoolFlag{Name: "now", Usage: "kill tasks at once, without time to seal their work", Destination: &o.Now},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return PauseRun(c.Context, c.App.Writer, o) }),
	})
}

// Paused is what lathe pause and lathe cancel did.
type Paused struct {
	Run    string             `json:"run"`
	Slurm  *advance.Cancelled `json:"slurm"`  // nil when the run was never handed to Slurm
	Driver string             `json:"driver"` // what became of the one in the foreground; empty without
}

// PauseRun holds a run, and stops what of it runs if that is wanted.
func PauseRun(ctx context.Context, out io.Writer, o PauseOptions) error {
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	p := rundir.Pause{By: whoAmI(), Since: time.Now().UTC().Truncate(time.Second), Stop: o.Stop, Iteration: o.Iteration}
	if o.Stage != "" {
		if p.Stage, err = graph.ParseStage(o.Stage); err != nil {
			return err
		}
	}
	var cluster *slurm.Cluster
	var unasked error // why jobs stay in the queue; a run that was copied here has none
	if _, handed := advance.SitePath(opened.Dir); handed {
		if cluster, unasked = slurm.Open(site.Default()); unasked != nil {
			unasked = exitcode.OnlyHint(exitcode.Unavailablef("jobs of the run that Slurm may have were not looked for: %w", unasked), "if it has any, run the same command where Slurm is")
		}
	}
	// Before anything is cancelled: a controller job that is at it submits nothing more.
	if err := p.Write(opened.Dir, seal.AttemptFromEnv()); err != nil {
		return err
	}
	result := Paused{Run: string(opened.Dir)}
	if cluster != nil {
		cancelled, err := advance.Cancel(ctx, cluster, opened.Dir, opened.Identity.RunID, p, o.Now)
		if err != nil {
			return exitcode.WithHint(err, "no new tasks start; run the same command again to cancel the rest")
		}
		result.Slurm = &cancelled
		if o.Now { // what a killed task leaves looks like a failure of its own
			if err := advance.Forgive(opened.Dir, seal.AttemptFromEnv()); err != nil {
				return err
			}
		}
	}
	if result.Driver, err = o.driverLeaves(ctx, opened); err != nil {
		return err
	}
	if o.JSON {
		return errors.Join(cmdline.WriteJSON(out, result), unasked)
	}
	return errors.Join(result.print(out, p), unasked)
}

func (r Paused) print(out io.Writer, p rundir.Pause) error {
	if r.Slurm != nil {
		fmt.Fprintf(out, "removed from the queue: %s, %s\n", plural.Count(r.Slurm.Gates, "controller job"), plural.Count(r.Slurm.Arrays, "job array"))
	}
	if r.Driver != "" {
		fmt.Fprintln(out, r.Driver)
	}
	_, err := fmt.Fprintf(out, "run %s is %s; the command that started it resumes it\n", r.Run, p)
	return err
}

// driverPatience is how long a driver may take to see that its run was cancelled,
// and its tasks to stop.
const driverPatience = 30 * time.Second

// driverLeaves says what becomes of the foreground driver of a run, and waits until
// it has stopped what it is to stop.
func (o PauseOptions) driverLeaves(ctx context.Context, opened *rundir.Run) (string, error) {
	if o.Now && o.Stage == "" && o.Iteration == nil {
		who, err := status.KillDriver(opened.Dir)
		if err != nil || who != "" {
			return "killed the driver: " + who, err
		}
	}
	evidence, there := status.OtherDriver(opened.Dir)
	if !there {
		return "", nil
	}
	if !o.Stop || o.Stage != "" || o.Iteration != nil {
		return fmt.Sprintf("the driver exits when its last task has ended: %s", evidence), nil
	}
	for deadline := time.Now().Add(driverPatience); time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		if _, there := status.OtherDriver(opened.Dir); !there {
			return "the driver has exited", nil
		}
	}
	return fmt.Sprintf("the driver was asked to exit and is still running: %s", evidence), nil
}

func whoAmI() string {
	name, host := "somebody", "an unknown host"
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + " on " + host
}

// resume ends the pause of a run when a person starts it again. A job that Slurm has
// put back into the queue was started by nobody.
func resume(opened *rundir.Run, talk io.Writer) error {
	p, paused := rundir.ReadPause(opened.Dir)
	if !paused || seal.AttemptFromEnv().Restarts > 0 {
		return nil
	}
	fmt.Fprintf(talk, "lathe: run %s was %s and is now resumed\n", opened.Dir, p)
	return rundir.Resume(opened.Dir)
}
