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
		Name: "rehearse", Usage: "test a run in miniature with preemptions, lost nodes and time limits", ArgsUsage: "RECIPE",
		Description: "Cuts the recipe to few iterations and prompts and runs it twice on simulated nodes of this machine:\n" +
			"first undisturbed, then with disturbances. Both must give the same policy. Durations are those of the\n" +
			"miniature; auto derives them from the undisturbed run and hits no task more than twice. A task that is\n" +
			"longer than the time between two disturbances never ends. Use --set for a policy that fits this machine.\n" +
			"With --executor slurm both runs use your cluster, and only jobs of this run are disturbed: they are\n" +
			"requeued, or killed together if they share a node, which needs no administrator. Time limits there\n" +
			"are Slurm's, in minutes: --set resources.stages.rollout.minutes=1.",
		Flags: []cli.Flag{
			cmdline.SetFlag(&o.Set),
			&cli.StringFlag{Name: "preempt-every", Usage: "preempt a running task every `DURATION`: SIGTERM, then SIGKILL after 20 s; 0 means never", Value: auto, Destination: &o.PreemptEvery},
			&cli.StringFlag{Name: "lose-node", Usage: "kill all tasks of one node every `DURATION`; 0 means never", Value: auto, Destination: &o.LoseNode},
			&cli.StringFlag{Name: "time-limit", Usage: "stop a task after `DURATION`, doubled at each retry; 0 means never", Value: auto, Destination: &o.TimeLimit},
			&cli.DurationFlag{Name: "give-up-after", Usage: "abort the disturbed run after `DURATION`; 0 means 10 times the undisturbed run plus 1 minute", Destination: &o.GiveUpAfter},
			&cli.StringFlag{Name: "executor", Usage: "local, or slurm", Value: "local", Destination: &o.Executor},
			&cli.StringFlag{Name: "site", Usage: "site profile `NAME` or file, for slurm", EnvVars: []string{"LATHE_SITE"}, Destination: &o.Site},
			&cli.IntFlag{Name: "nodes", Usage: "number of simulated `NODES`", Value: 2, Destination: &o.Nodes},
			&cli.IntFlag{Name: "cores", Usage: "number of `CORES` per simulated node; 0 uses this machine's", Destination: &o.Cores},
			&cli.StringFlag{Name: "out", Usage: "keep the runs in a new `FOLDER`; default: delete them after success", Destination: &o.Out},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RECIPE", &o.Recipe, func(c *cli.Context) error { return Rehearse(c.Context, c.App.Writer, o) }),
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
			return nil, exitcode.Usagef("--%s: got %q, want a duration such as 500ms, 0 or auto", f.flag, f.text)
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

// place is where the runs are executed.
func (o RehearseOptions) place() (rehearsal.Place, error) {
	switch o.Executor {
	case "", "local":
		binaries, err := binaryFolder()
		return rehearsal.Machine{Nodes: o.Nodes, Cores: cmp.Or(o.Cores, runtime.NumCPU()), Binaries: binaries, Version: cmdline.Version}, err
	case "slurm":
	default:
		return nil, exitcode.Usagef("--executor: got %q, want local or slurm", o.Executor)
	}
	if o.Out == "" {
		return nil, exitcode.WithHint(exitcode.Usagef("--out is missing: --executor slurm needs a folder that all nodes share"), "for example --out runs/rehearsal")
	}
	if limit, err := time.ParseDuration(o.TimeLimit); err == nil && limit != 0 {
		return nil, exitcode.WithHint(exitcode.Usagef("--time-limit %s: does not work with --executor slurm, which uses Slurm's time limits, in minutes", o.TimeLimit), "for example --set resources.stages.rollout.minutes=1")
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

// Rehearse runs a run in miniature, undisturbed and disturbed.
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
		return exitcode.WithHint(fmt.Errorf("cut the recipe to a miniature: %w", err), "settings given by --set are not cut")
	}
	place, err := o.place()
	if err != nil {
		return err
	}
	folder := o.Out
	if folder == "" {
		if folder, err = os.MkdirTemp("", "lathe-rehearsal-"); err != nil {
			return exitcode.IOf("create a folder for the rehearsal: %w", err)
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
		failure := errors.New("the run does not survive the disturbances")
		if report.Unrepeatable != "" {
			failure = errors.New("two undisturbed runs of the recipe differ, so its policies cannot show whether it survives")
		}
		return exitcode.WithHint(failure, "the runs are in %s; lathe logs %s", folder, filepath.Join(folder, "disturbed"))
	}
	if o.Out == "" {
		return os.RemoveAll(folder)
	}
	return nil
}
