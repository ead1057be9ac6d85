package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/executor/local"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// RunOptions are those of lathe run.
type RunOptions struct{ LaunchOptions }

func runCommand() *cli.Command {
	var o RunOptions
	return cmdline.Help{
		Example: "lathe run jobs/quickstart.yaml --run runs/first --set rollout.shards=4\n" +
			"lathe run runs/first --set schedule.iterations=200",
		Exits: map[int]string{
			exitcode.LeftOut: "done, but some shards were left out; lathe status lists them", exitcode.Data: "", exitcode.Unavailable: "", exitcode.Stopped: "",
		},
	}.Command(&cli.Command{
		Name: "run", Usage: "start, resume or extend a run and wait for it", ArgsUsage: "[RECIPE|RUN]",
		Flags:  o.flags(),
		Action: cmdline.OptionalArgument(&o.Recipe, func(c *cli.Context) error { return Run(c.Context, c.App.Writer, o) }),
	})
}

// Run starts or resumes a run and waits for it.
func Run(ctx context.Context, out io.Writer, o RunOptions) error {
	o.runOrRecipe()
	if err := o.check(); err != nil {
		return err
	}
	if o.DryRun {
		return o.dryRun(ctx, out)
	}
	opened, err := o.open(ctx)
	if err != nil {
		return err
	}
	if err := resume(opened, os.Stderr); err != nil {
		return err
	}
	if p, paused := rundir.ReadPause(opened.Dir); paused {
		return p.Err(opened.Dir)
	}
	if o.Executor == "slurm" {
		return o.driveSlurm(ctx, out, opened)
	}
	return o.driveForeground(ctx, out, opened)
}

// driveForeground runs on this machine or inside an allocation.
func (o RunOptions) driveForeground(ctx context.Context, out io.Writer, opened *rundir.Run) error {
	if err := checkHost(opened.Recipe); err != nil {
		return err
	}
	place := localSite
	if o.Executor == "steps" {
		place = genericSite
	}
	profile, err := o.profile(place)
	if err != nil {
		return err
	}
	binaries, err := binaryFolder()
	if err != nil {
		return err
	}
	launcher, err := o.launcher(ctx, *profile, binaries, opened.Recipe.Policy.Backend)
	if err != nil {
		return err
	}
	defer launcher.Close()
	watcher := newWatcher(os.Stderr, opened)
	driver := &drive.Driver{
		Run: opened, Launcher: launcher, GPUs: launcher, Attempt: seal.AttemptFromEnv(), Binaries: binaries, Monitor: profile.Site.Monitor, Watch: watcher.watch, Version: cmdline.Version, Needs: needsOf(opened),
	}
	if evidence, there := status.OtherDriver(opened.Dir); there {
		fmt.Fprintf(os.Stderr, "lathe: another process runs this run: %s; two are safe but do the same work twice\n", evidence)
	}
	heartbeat, err := status.StartHeartbeat(opened.Dir, cmp.Or(o.Executor, "local"))
	if err != nil {
		return err
	}
	defer heartbeat.Stop()
	err = driver.Drive(ctx)
	heartbeat.Failed(err)
	defer func(ended error) { notify(ctx, opened, profile.Site.Notify, ended, false) }(err)
	watcher.close()
	if err != nil && exitcode.Code(err) != exitcode.LeftOut {
		return err
	}
	if reportErr := writeReport(ctx, out, opened, opened.Dir.Report()); reportErr != nil {
		return errors.Join(err, reportErr)
	}
	return err
}

// checkHost is an error where the run cannot score on this machine, and notes what its
// programs do without.
func checkHost(r recipe.Recipe) error {
	notes, err := r.CheckHost()
	printNotes(os.Stderr, notes)
	return err
}

func (o RunOptions) launcher(ctx context.Context, profile site.Resolved, binaries, backend string) (*local.Pool, error) {
	if o.Executor == "steps" {
		return local.NewSteps(ctx, profile)
	}
	pool := local.New(cmp.Or(o.Cores, runtime.NumCPU()))
	pool.FindGPUs = func() *local.GPUs {
		found := local.FindGPUs(ctx, filepath.Join(binaries, "lathe-monitor"), profile.Site.GPUs)
		if len(found.Names) == 0 && backend != "cuda" {
			printNotes(os.Stderr, []string{"tasks that request GPUs run without: this machine has none that may be used (" + found.From + ")"})
			return nil // the policy runs on the CPU
		}
		return &found
	}
	return pool, nil
}
