package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// LaunchOptions say which run is meant and where its tasks run.
type LaunchOptions struct {
	RecipeOptions        // to make the run from; no recipe: the run is there
	Run           string // folder
	Executor      string // local, steps or slurm; empty is what the command does by default
	Site          string // profile's name or file; empty is the run's last one, or generic
	From          string // RUN@VERSION that a new run starts from; empty for none
	Scores        string // folder of a run whose scores the run takes; empty for none
	Cores         int    // that local tasks may use together; 0 is all
	Monitor       string // which tasks have a monitor beside them: gpus, all or none; empty is what the site profile says
	DryRun        bool   // show what would be started
	Verbose       bool   // of a dry run: a line for each array
	Trust         bool   // start what the run names although others may write its folder
}

func (o *LaunchOptions) flags(extra ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "run", Usage: "`RUN` folder", Destination: &o.Run},
		cmdline.SetFlag(&o.Set),
		&cli.StringFlag{Name: "rates", Usage: "set time limits from measured rates: `FILE` printed by lathe policy bench --json on such a node; the limit of a task that samples or learns is twice its estimate", Destination: &o.Rates},
		&cli.StringFlag{Name: "executor", Usage: "local, steps (inside a Slurm allocation) or slurm", Destination: &o.Executor},
		&cli.StringFlag{Name: "site", Usage: "site profile `NAME` or file, for steps and slurm", EnvVars: []string{"LATHE_SITE"}, Destination: &o.Site},
		&cli.StringFlag{Name: "from", Usage: "new run: start from a policy version of another, `RUN@v000100` or RUN for its last, with its optimizer and curriculum state (--set start.optimizer=fresh, start.curriculum=fresh: without) and no warm start", Destination: &o.From},
		&cli.StringFlag{Name: "scores", Usage: "reuse the scores of `RUN` for identical responses instead of scoring them again", Destination: &o.Scores},
		&cli.IntFlag{Name: "cores", Usage: "number of `CORES` for all local tasks together; 0 uses all", Destination: &o.Cores},
		&cli.StringFlag{Name: "monitor", Usage: "start lathe-monitor beside tasks: gpus (tasks with a GPU), all or none; default: the site profile's", Destination: &o.Monitor},
		trustFlag(&o.Trust),
		&cli.BoolFlag{Name: "dry-run", Usage: "print every stage, its size, its command and its resources; start nothing", Destination: &o.DryRun},
		&cli.BoolFlag{Name: "verbose", Usage: "with --dry-run: one line per array", Destination: &o.Verbose},
	}, extra...)
}

// profile is that of the site, or the one of another name where none is given,
// with what the command line says instead.
func (o LaunchOptions) profile(name string) (*site.Resolved, error) {
	return site.Load(cmp.Or(o.Site, name), o.siteSettings()...)
}

// siteSettings is what the command line says instead of the site profile.
func (o LaunchOptions) siteSettings() []string {
	if o.Monitor == "" {
		return nil
	}
	return []string{"monitor=" + o.Monitor}
}

func trustFlag(to *bool) cli.Flag {
	return &cli.BoolFlag{Name: "trust", Usage: "start the run's programs even if other users can write to its folder", Destination: to}
}

// trusted refuses a run that other users may write, unless they are trusted:
// then the tasks and controller jobs that this process starts trust them too.
func trusted(trust bool, run string) error {
	if trust {
		return os.Setenv(rundir.TrustVariable, "1")
	}
	return rundir.Trusted(graph.Dir(run))
}

// check refuses an invalid place to run, before a run is created.
func (o LaunchOptions) check() error {
	if !slices.Contains([]string{"", "local", "steps", "slurm"}, o.Executor) {
		return exitcode.Usagef("--executor: got %q, want local, steps or slurm", o.Executor)
	}
	if err := cmdline.AtLeast(0, "cores", o.Cores); err != nil {
		return err
	}
	if !slices.Contains([]string{"", site.MonitorGPUs, site.MonitorAll, site.MonitorNone}, o.Monitor) {
		return exitcode.Usagef("--monitor: got %q, want gpus, all or none", o.Monitor)
	}
	if o.Site != "" {
		if _, err := o.profile(""); err != nil {
			return err
		}
	}
	switch {
	case o.Run == "" && o.Recipe != "":
		return exitcode.WithHint(exitcode.Usagef("--run is missing: the folder of the run"), "for example --run runs/first")
	case o.Run == "":
		return cmdline.Misusef("RECIPE and --run are missing: give at least one")
	case o.Recipe == "" && o.From != "":
		return exitcode.WithHint(exitcode.Usagef("--from works only for a new run: name the recipe too"), "the recipe of a run will do: %s/recipe.yaml", o.Run)
	case o.Recipe == "" && o.Scores != "":
		return exitcode.Usagef("--scores works only for a new run: name the recipe too")
	case o.Recipe == "" && o.Rates != "":
		return exitcode.Usagef("--rates works only for a new run, an existing run keeps its time limits: name the recipe too")
	}
	return nil
}

// isRun reports whether a path is the folder of a run.
func isRun(path string) bool {
	_, err := os.Stat(graph.Dir(path).Identity())
	return err == nil
}

// open opens the run, and makes it first when a recipe is given.
func (o LaunchOptions) open(ctx context.Context) (*rundir.Run, error) {
	if err := trusted(o.Trust, o.Run); err != nil {
		return nil, err
	}
	if o.Recipe == "" {
		return o.extend(ctx)
	}
	dir, err := filepath.Abs(o.Run)
	if err != nil {
		return nil, err
	}
	resolved, err := o.loadFrom(ctx)
	if err != nil {
		return nil, err
	}
	opening := cmdline.Opening("lathe", resolved.Recipe.Env.Name)
	opened, err := rundir.CreateWithScores(ctx, graph.Dir(dir), resolved, o.Scores, seal.AttemptFromEnv(), cmdline.Version)
	opening()
	if err == nil {
		noteWarmStart(os.Stderr, resolved.Recipe)
		printNotes(os.Stderr, opened.Notes)
	}
	if err == nil && opened.Recipe.Schedule.KeepEvery == recipe.KeepAuto {
		if every, last := opened.Recipe.Schedule.KeepsEvery(), opened.Recipe.Schedule.Iterations; every > 0 {
			fmt.Fprintf(os.Stderr, "lathe: keeping %d of %d policy versions: every %d-th and the last (schedule.keep_every: auto)\n", keptVersions(last, every), last+1, every)
		}
	}
	return opened, err
}

// noteWarmStart tells whoever continues from a policy that it is warmed up again: a base
// recipe may have a warm start that made just that policy.
func noteWarmStart(out io.Writer, r recipe.Recipe) {
	if r.Policy.Path != "" && r.WarmStart.Steps > 0 {
		fmt.Fprintf(out, "lathe: the run starts from policy %s and first trains it on demonstrations for %s (warm_start); to skip the warm start: --set warm_start.steps=0\n", r.Policy.Path, plural.Count(r.WarmStart.Steps, "optimizer step"))
	}
}

func printNotes(out io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintf(out, "lathe: note: %s\n", note)
	}
}

// planned is the graph of the run, which need not be there yet.
func (o LaunchOptions) planned(ctx context.Context) (g graph.Graph, policyFolder string, err error) {
	if o.Recipe == "" {
		opened, changed, err := o.changed(ctx)
		if err != nil {
			return graph.Graph{}, "", err
		}
		if changed != nil {
			opened.Graph.Recipe = changed.Recipe
		}
		return opened.Graph, opened.Identity.PolicySource, nil
	}
	dir, err := filepath.Abs(o.Run)
	if err != nil {
		return graph.Graph{}, "", err
	}
	resolved, err := o.loadFrom(ctx)
	if err != nil {
		return graph.Graph{}, "", err
	}
	noteWarmStart(os.Stderr, resolved.Recipe)
	defer cmdline.Opening("lathe", resolved.Recipe.Env.Name)()
	notes, err := rundir.Rehearse(ctx, graph.Dir(dir), resolved)
	if err != nil {
		return graph.Graph{}, "", err
	}
	printNotes(os.Stderr, notes)
	policyFolder, err = resolved.Recipe.Policy.Resolve(filepath.Dir(resolved.Path))
	return graph.Graph{Dir: graph.Dir(dir), Recipe: resolved.Recipe}, policyFolder, err
}

// binaryFolder is where the task binaries are: beside this one, or wherever
// PATH finds them.
func binaryFolder() (string, error) {
	if folder := os.Getenv("LATHE_BIN"); folder != "" {
		return folder, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if folder := filepath.Dir(self); isExecutable(filepath.Join(folder, "lathe-rollout")) {
		return folder, nil
	}
	return "", nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
