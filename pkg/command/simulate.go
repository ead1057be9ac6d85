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
	"github.com/lathe-rl/lathe/pkg/run/rundir"
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
		Name: "simulate", Usage: "estimate a run's time and resources on a cluster without starting it", ArgsUsage: "RECIPE",
		Description: "Runs the recipe in simulated time: tasks start in the order of a real run, and their durations are drawn from\n" +
			"those of existing runs (--from) or from a file (--durations):\n\n" +
			"  nodes: 64                  # also node_cpus, gpus; 0 uses the site profile's\n" +
			"  queue: {seconds: 30, spread: 1}   # median, and the standard deviation of the logarithm\n" +
			"  turnover: {seconds: 1}     # from the end of a task to the start of the next in its place\n" +
			"  gate: {seconds: 5, spread: 0.5}\n" +
			"  failure_share: 0.001\n" +
			"  preemptions_per_hour: 0.02\n" +
			"  file_system: {bytes_per_second: 5e8}   # per task, for policies, optimizers and gradients\n" +
			"  stages:\n" +
			"    rollout: {seconds: 20, unit_seconds: 90, spread: 0.3}   # per task, and per prompt in it\n" +
			"    score: {seconds: 10}\n" +
			"    gradient: {unit_seconds: 4}   # per prompt of the batch; part of learn if no array computes gradients\n" +
			"    learn: {seconds: 20, unit_seconds: 4}\n\n" +
			"--set cluster.FIELD=VALUE sets a field of this file; --grid takes recipe and cluster fields. Controller jobs use\n" +
			"no cores, and other users are only the wait in the queue. Files are those that tasks write. Metadata operations\n" +
			"are scaled from counts for tasks of jobs/smoke.yaml and from the sealed files that a controller job reads. Bytes\n" +
			"are those of policies, optimizer states and gradients, from the shape of the policy.\n" +
			"No program of the recipe is started.",
		Flags: []cli.Flag{
			cmdline.SetFlag(&o.Set),
			cmdline.ListFlag("grid", "simulate every value: `FIELD=VALUE,VALUE`; repeat for all combinations; prints the fastest first", &o.Grids),
			cmdline.ListFlag("from", "take durations from the tasks of `RUN`; may be repeated; tasks of several sizes separate the time per task from the time per prompt", &o.From),
			&cli.StringFlag{Name: "durations", Usage: "YAML `FILE` with the cluster and task durations; overrides --from", Destination: &o.Durations},
			&cli.StringFlag{Name: "executor", Usage: "slurm, or local for lathe run on one machine; default: the site profile's", Destination: &o.Executor},
			&cli.StringFlag{Name: "site", Usage: "site profile `NAME` or file", EnvVars: []string{"LATHE_SITE"}, Destination: &o.Site},
			&cli.IntFlag{Name: "cores", Usage: "with local: number of `CORES` of the machine; 0 uses this machine's", Destination: &o.Cores},
			&cli.Uint64Flag{Name: "seed", Usage: "random `SEED`", Value: 1, Destination: &o.Seed},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RECIPE", &o.Recipe, func(c *cli.Context) error { return Simulate(c.Context, c.App.Writer, o) }),
	})
}

// Simulate estimates what a run will take, for each combination of the values of
// grids, the fastest first.
func Simulate(ctx context.Context, out io.Writer, o SimulateOptions) error {
	if !slices.Contains([]string{"", "slurm", "local"}, o.Executor) {
		return exitcode.Usagef("--executor: got %q, want slurm or local", o.Executor)
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
			"raise schedule.max_attempts to retry failed tasks more often, or lower schedule.quorum to leave shards out")
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
	if err := rundir.SettleApplyShards(&resolved.Recipe, folder); err != nil {
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
	return storageOf(r, *shape, stored).sizes(r), nil
}
