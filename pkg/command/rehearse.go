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
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rehearsal"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/site"
)

// RehearseOptions are those of lathe rehearse.
type RehearseOptions struct {
	RecipeOptions
	PreemptEvery string // a duration, 0 for never, or auto; here and below
	LoseNode     string
	TimeLimit    string
	GiveUpAfter  time.Duration // 0 for ten times the undisturbed run and a minute
	Executor     string        // local, on simulated nodes, or slurm
	Site         string        // profile's name or file, for slurm; empty is generic
	Nodes        int           // that are simulated
	Cores        int           // of a simulated node; 0 is those of this machine
	Out          string        // folder of the runs; empty for one that is removed
	JSON         bool
}

func rehearseCommand() *cli.Command {
	var o RehearseOptions
	return cmdline.Help{
		Example: "lathe rehearse jobs/own-environment.yaml\n" +
			"lathe rehearse jobs/smoke.yaml --preempt-every 300ms --lose-node 1s --time-limit 2s\n" +
			"lathe rehearse jobs/smoke.yaml --executor slurm --site generic --out runs/rehearsal",
		Exits: cmdline.Exits(exitcode.Failed, exitcode.Data, exitcode.Unavailable, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "rehearse", Usage: "carry out a run in miniature with preemptions, lost nodes and time limits, and say what survives", ArgsUsage: "RECIPE",
		Description: "The recipe is cut to few iterations and prompts and run twice on this machine, on nodes that are\n" +
			"simulated: once undisturbed, and once disturbed. Times are those of the miniature; auto takes them from\n" +
			"the undisturbed run, and hits no task more than twice: one that takes longer than what lies between two\n" +
			"disturbances never ends. A policy that is too large for this machine is replaced by --set.\n" +
			"With --executor slurm both runs go through your cluster, and what is disturbed are jobs of this run alone:\n" +
			"they are requeued, and killed together where they share a node, as every user may do with jobs of their\n" +
			"own. Time limits there are Slurm's, in minutes: --set resources.stages.rollout.minutes=1.",
		Flags: []cli.Flag{
			cmdline.SetFlag(),
			&cli.StringFlag{Name: "preempt-every", Usage: "preempt a running task each `DURATION`, 0 for never: SIGTERM, and SIGKILL 20 s later", Value: auto, Destination: &o.PreemptEvery},
			&cli.StringFlag{Name: "lose-node", Usage: "kill all tasks of a node at once each `DURATION`, 0 for never", Value: auto, Destination: &o.LoseNode},
			&cli.StringFlag{Name: "time-limit", Usage: "tell a task to stop after this `DURATION`, 0 for never; each time it has twice as long", Value: auto, Destination: &o.TimeLimit},
			&cli.DurationFlag{Name: "give-up-after", Usage: "give the disturbed run up after this `DURATION`; 0 for ten times the undisturbed one and a minute", Destination: &o.GiveUpAfter},
			&cli.StringFlag{Name: "executor", Usage: "local, or slurm", Value: "local", Destination: &o.Executor},
			&cli.StringFlag{Name: "site", Usage: "site profile `NAME` or file, for slurm", EnvVars: []string{"LATHE_SITE"}, Destination: &o.Site},
			&cli.IntFlag{Name: "nodes", Usage: "`NODES` that are simulated", Value: 2, Destination: &o.Nodes},
			&cli.IntFlag{Name: "cores", Usage: "`CORES` of a node; 0 takes those of this machine", Destination: &o.Cores},
			&cli.StringFlag{Name: "out", Usage: "new `FOLDER` for the runs, which are removed otherwise when all is well", Destination: &o.Out},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: func(c *cli.Context) error {
			args, err := cmdline.Arguments(c, "RECIPE")
			if err != nil {
				return err
			}
			o.Recipe, o.Set = args[0], c.StringSlice("set")
			return Rehearse(c.Context, c.App.Writer, o)
		},
	})
}

// auto is a duration that follows from the undisturbed run.
const auto = "auto"

// The disturbances that are chosen where none are given: so many in the time of the
// undisturbed run, and a time limit that is this share of the longest task, if that
// takes long enough for a machine's own unevenness not to matter.
const (
	autoPreemptions    = 8
	autoNodes          = 3
	autoMostHits       = 2 // of one task
	autoTimeLimitShare = 0.6
	leastTimeLimit     = 2 * time.Second
)

// disturbances reads the options.
func (o RehearseOptions) disturbances() (func(whole, longest time.Duration) rehearsal.Disturbances, error) {
	var given rehearsal.Disturbances
	for _, f := range []struct {
		flag, text string
		to         *time.Duration
	}{{"preempt-every", o.PreemptEvery, &given.PreemptEvery}, {"lose-node", o.LoseNode, &given.LoseNodeEvery}, {"time-limit", o.TimeLimit, &given.TimeLimit}} {
		if f.text == auto {
			continue
		}
		d, err := time.ParseDuration(f.text)
		if err != nil || d < 0 {
			return nil, exitcode.Usagef("--%s %q is not a duration such as 500ms, 0 or auto", f.flag, f.text)
		}
		*f.to = d
	}
	return func(whole, longest time.Duration) rehearsal.Disturbances {
		what := given
		if o.PreemptEvery == auto {
			what.PreemptEvery, what.MostHits = whole/autoPreemptions, autoMostHits
		}
		if o.LoseNode == auto {
			what.LoseNodeEvery, what.MostHits = whole/autoNodes, autoMostHits
		}
		if o.TimeLimit == auto && o.Executor != "slurm" {
			what.TimeLimit = max(leastTimeLimit, time.Duration(autoTimeLimitShare*float64(longest)))
		}
		return what
	}, nil
}

// place is where the runs are carried out.
func (o RehearseOptions) place() (rehearsal.Place, error) {
	switch o.Executor {
	case "", "local":
		binaries, err := binaryFolder()
		return rehearsal.Machine{Nodes: o.Nodes, Cores: cmp.Or(o.Cores, runtime.NumCPU()), Binaries: binaries, Version: cmdline.Version}, err
	case "slurm":
	default:
		return nil, exitcode.Usagef("--executor %q is not local or slurm", o.Executor)
	}
	if o.Out == "" {
		return nil, exitcode.WithHint(exitcode.Usagef("--out is missing: with --executor slurm the runs need a folder that all nodes see"), "for example --out runs/rehearsal")
	}
	if limit, err := time.ParseDuration(o.TimeLimit); err == nil && limit != 0 {
		return nil, exitcode.WithHint(exitcode.Usagef("--time-limit %s: on Slurm time limits are Slurm's own, in minutes", o.TimeLimit), "for example --set resources.stages.rollout.minutes=1")
	}
	name := cmp.Or(o.Site, genericSite)
	profile, err := site.Load(name)
	if err != nil {
		return nil, err
	}
	cluster, err := slurm.Open(profile.Site)
	if err != nil {
		return nil, err
	}
	return rehearsal.Cluster{
		Slurm: cluster, Name: name, Requeue: profile.Site.Requeue, Log: cmdline.Log("lathe"),
		Stay: func(ctx context.Context, run *rundir.Run) error {
			advancer, err := advancerOf(run, name)
			if err != nil {
				return err
			}
			return stay(ctx, io.Discard, advancer)
		},
	}, nil
}

// Rehearse carries out a run in miniature, undisturbed and disturbed.
func Rehearse(ctx context.Context, out io.Writer, o RehearseOptions) error {
	choose, err := o.disturbances()
	if err != nil {
		return err
	}
	if err := cmdline.AtLeast(1, "nodes", o.Nodes); err != nil {
		return err
	}
	if err := cmdline.AtLeast(0, "cores", o.Cores); err != nil {
		return err
	}
	whole, err := o.load()
	if err != nil {
		return err
	}
	cuts := rehearsal.Miniature(whole.Recipe, o.Set)
	o.Set = append(cuts, o.Set...)
	miniature, err := o.load()
	if err != nil {
		return exitcode.WithHint(fmt.Errorf("cutting the recipe to a miniature: %w", err), "what is set with --set is not cut")
	}
	place, err := o.place()
	if err != nil {
		return err
	}
	folder := o.Out
	if folder == "" {
		if folder, err = os.MkdirTemp("", "lathe-rehearsal-"); err != nil {
			return exitcode.IOf("making a folder for the rehearsal: %w", err)
		}
	} else if err := rehearsal.EmptyFolder(folder); err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	report, err := rehearsal.Rehearse(ctx, rehearsal.Options{
		Resolved: miniature, Cuts: cuts, Folder: folder, Place: place, Version: cmdline.Version, Log: cmdline.Log("lathe"), Choose: choose,
		GiveUpAfter: o.GiveUpAfter,
	})
	if err != nil {
		if ctx.Err() != nil && o.Out == "" {
			return errors.Join(err, os.RemoveAll(folder))
		}
		return exitcode.WithHint(err, "the runs are in %s", folder)
	}
	if o.JSON {
		err = cmdline.WriteJSON(out, report)
	} else {
		err = report.Text(out)
	}
	if err != nil {
		return err
	}
	if !report.Survived(rehearsal.ByDesign(miniature.Recipe) != "") {
		failure := errors.New("the run does not survive")
		if report.Unrepeatable != "" {
			failure = errors.New("the recipe does not repeat itself: whether it survives cannot be told from its policies")
		}
		return exitcode.WithHint(failure, "the runs are in %s; lathe logs %s", folder, filepath.Join(folder, "disturbed"))
	}
	if o.Out == "" {
		return os.RemoveAll(folder)
	}
	return nil
}
