package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/simulate"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
	"github.com/lathe-rl/lathe/pkg/site"
)

// SimulateOptions are those of lathe simulate.
type SimulateOptions struct {
	RecipeOptions          // settings that begin with cluster. are of the cluster
	Grids         []string // FIELD=VALUE,VALUE
	From          []string // folders of runs whose tasks are measured
	Durations     string   // YAML file of the cluster and what tasks take
	Executor      string   // slurm or local; empty is what the site profile says
	Site          string   // profile's name or file; empty is generic
	Cores         int      // of local; 0 is those of this machine
	Seed          uint64   // of what is drawn
	JSON          bool
}

func simulateCommand() *cli.Command {
	var o SimulateOptions
	return cmdline.Help{
		Example: "lathe simulate jobs/quickstart.yaml --from runs/quickstart --executor local --cores 8\n" +
			"lathe simulate jobs/quickstart.yaml --from runs/quickstart --site mine.yaml --set cluster.nodes=16 --set cluster.node_cpus=32 --grid rollout.shards=16,64,256\n" +
			"lathe simulate jobs/exit-math.yaml --durations cluster.yaml --site mine.yaml --grid schedule.staleness=0,1 --grid schedule.oversample=1,1.25",
		Exits: cmdline.Exits(exitcode.Failed, exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "simulate", Usage: "foretell what a run will take on a cluster, without starting anything", ArgsUsage: "RECIPE",
		Description: "The run is carried out by a clock that is not there: what is started when is decided as in a run, and\n" +
			"how long tasks take is drawn from those of runs that are there (--from), or from what --durations says:\n\n" +
			"  nodes: 64                  # and node_cpus, gpus; 0: as the site profile says\n" +
			"  queue: {seconds: 30, spread: 1}   # median, and the standard deviation of the logarithm\n" +
			"  turnover: {seconds: 1}     # from the end of a task until another may begin in its place\n" +
			"  gate: {seconds: 5, spread: 0.5}\n" +
			"  failure_share: 0.001\n" +
			"  preemptions_per_hour: 0.02\n" +
			"  file_system: {bytes_per_second: 5e8}   # of one task; of policies, optimizers and gradients\n" +
			"  stages:\n" +
			"    rollout: {seconds: 20, unit_seconds: 90, spread: 0.3}   # of a task, and of each prompt in it\n" +
			"    score: {seconds: 10}\n" +
			"    gradient: {unit_seconds: 4}   # of each prompt of the batch; learn has them too where no array computes gradients\n" +
			"    learn: {seconds: 20, unit_seconds: 4}\n\n" +
			"--set cluster.FIELD=VALUE sets a field of it, and --grid takes both kinds. No core is asked for gates, and tasks\n" +
			"of other users are no more than the wait in the queue. Files are counted by what tasks make; metadata operations\n" +
			"are those that were counted of tasks of jobs/smoke.yaml, and of gates by the sealed files that each looks at; bytes\n" +
			"are those of policies, optimizers' states and gradients, by the shape of the policy.\n" +
			"It starts none of the programs that the recipe names.",
		Flags: []cli.Flag{
			cmdline.SetFlag(),
			&cli.StringSliceFlag{Name: "grid", Usage: "`FIELD=VALUE,VALUE` that takes each value in turn; may be given several times, for all combinations, the fastest first"},
			&cli.StringSliceFlag{Name: "from", Usage: "`RUN` whose tasks are measured; may be given several times: tasks of several sizes tell what each takes by itself"},
			&cli.StringFlag{Name: "durations", Usage: "YAML `FILE` of the cluster and what tasks take on it; it wins over --from", Destination: &o.Durations},
			&cli.StringFlag{Name: "executor", Usage: "slurm, or local: lathe run on one machine; by default as the site profile says", Destination: &o.Executor},
			&cli.StringFlag{Name: "site", Usage: "site profile `NAME` or file", EnvVars: []string{"LATHE_SITE"}, Destination: &o.Site},
			&cli.IntFlag{Name: "cores", Usage: "`CORES` of the machine, for local; 0 takes those of this one", Destination: &o.Cores},
			&cli.Uint64Flag{Name: "seed", Usage: "`SEED` of what is drawn", Value: 1, Destination: &o.Seed},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: func(c *cli.Context) error {
			args, err := cmdline.Arguments(c, "RECIPE")
			if err != nil {
				return err
			}
			o.Recipe, o.Set, o.Grids, o.From = args[0], c.StringSlice("set"), c.StringSlice("grid"), c.StringSlice("from")
			return Simulate(c.Context, c.App.Writer, o)
		},
	})
}

// Simulate foretells what a run will take, for each combination of the values of
// grids, the fastest first.
func Simulate(ctx context.Context, out io.Writer, o SimulateOptions) error {
	if !slices.Contains([]string{"", "slurm", "local"}, o.Executor) {
		return exitcode.Usagef("--executor %q is not slurm or local", o.Executor)
	}
	if err := cmdline.AtLeast(0, "cores", o.Cores); err != nil {
		return err
	}
	grids, err := sweep.ParseGrids(o.Grids)
	if err != nil {
		return err
	}
	profile, err := site.Load(cmp.Or(o.Site, genericSite))
	if err != nil {
		return err
	}
	measured, err := o.measured(ctx)
	if err != nil {
		return err
	}
	base := simulate.Options{Site: profile.Site, Durations: measured, Seed: o.Seed}
	if cmp.Or(o.Executor, profile.Site.Executor) == "slurm" {
		base.Limits = simulatedLimits(profile.Site)
	} else {
		base.Cores = cmp.Or(o.Cores, runtime.NumCPU())
	}
	var rows []simulate.Row
	failed := 0
	for _, combination := range sweep.Combinations(grids) {
		outcome, err := o.simulate(ctx, base, combination)
		if err != nil {
			return err
		}
		if outcome.Stuck != "" {
			failed++
		}
		rows = append(rows, simulate.Row{Set: combination, Outcome: outcome})
	}
	simulate.Order(rows)
	if err := o.print(out, rows); err != nil {
		return err
	}
	if failed == len(rows) {
		return exitcode.WithHint(&exitcode.Error{Code: exitcode.Failed, Err: fmt.Errorf("the run would fail: %s", rows[0].Outcome.Stuck)},
			"what fails is tried again schedule.max_attempts times, and schedule.quorum lets shards be left out")
	}
	return nil
}

func (o SimulateOptions) print(out io.Writer, rows []simulate.Row) error {
	switch {
	case o.JSON:
		return cmdline.WriteJSON(out, rows)
	case len(rows) == 1:
		return rows[0].Outcome.Text(out)
	}
	return simulate.Table(out, rows)
}

// simulate is one combination of settings.
func (o SimulateOptions) simulate(ctx context.Context, base simulate.Options, combination []string) (simulate.Outcome, error) {
	var ofRecipe, ofCluster []string
	for _, setting := range slices.Concat(o.Set, combination) {
		if field, is := strings.CutPrefix(setting, "cluster."); is {
			ofCluster = append(ofCluster, field)
		} else {
			ofRecipe = append(ofRecipe, setting)
		}
	}
	resolved, err := recipe.Load(o.Recipe, ofRecipe)
	if err != nil {
		return simulate.Outcome{}, err
	}
	cluster, err := simulate.Load(o.Durations, ofCluster)
	if err != nil {
		return simulate.Outcome{}, err
	}
	folder, err := resolved.Recipe.Policy.Resolve(filepath.Dir(resolved.Path))
	if err != nil {
		return simulate.Outcome{}, err
	}
	if base.Sizes, err = sizesOf(resolved.Recipe, folder); err != nil {
		return simulate.Outcome{}, err
	}
	base.Graph = graph.Graph{Dir: "/simulated", Recipe: resolved.Recipe} // no file of it is looked at
	base.Cluster, base.Durations = cluster, base.Durations.Given(cluster)
	return simulate.Run(ctx, base)
}

// measured is what the tasks of runs took.
func (o SimulateOptions) measured(ctx context.Context) (simulate.Durations, error) {
	var runs []simulate.Measured
	for _, folder := range o.From {
		opened, err := openRun(ctx, filepath.Clean(folder))
		if err != nil {
			return simulate.Durations{}, err
		}
		sizes, err := sizesOf(opened.Recipe, opened.Dir.Policy(0))
		if err != nil {
			return simulate.Durations{}, err
		}
		runs = append(runs, simulate.Measured{Run: opened, Sizes: sizes})
	}
	return simulate.Measure(ctx, runs)
}

// sizesOf is what the files of a run take that grow with its policy, which is in a folder
// or made by the run; nothing where the folder, or the base of an adapter in it, is not
// there.
func sizesOf(r recipe.Recipe, folder string) (simulate.Sizes, error) {
	shape, stored, err := startShape(r, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return simulate.Sizes{}, nil
	}
	if err != nil {
		return simulate.Sizes{}, err
	}
	s := storageOf(r, *shape, stored)
	sizes := simulate.Sizes{Policy: s.Base + s.Weights, Trained: s.Weights, Optimizer: s.Optimizer, Gradient: s.Gradient}
	if r.Policy.Critic == recipe.CriticModel {
		sizes.Trained, sizes.Optimizer, sizes.Gradient = 2*sizes.Trained, 2*sizes.Optimizer, 2*sizes.Gradient
	}
	return sizes, nil
}
