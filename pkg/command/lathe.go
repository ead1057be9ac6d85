package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/executor/local"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Lathe is the operator's command.
func Lathe() *cli.App {
	app := newApp("lathe", "train language-model policies on a Slurm cluster, or on one machine")
	cmdline.Group(app,
		runCommand(), advanceCommand(), statusCommand(), verifyCommand(), pruneCommand(), replayCommand(), reportCommand(),
		evalCommand(), policyCommand(), dataCommand(), recipeCommand(),
	)
	return app
}

// makeFlags are the flags of the commands that make runs.
func makeFlags(extra ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "run", Usage: "folder of the `RUN`"},
		&cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"},
		&cli.StringFlag{Name: "executor", Usage: "local, steps (inside an allocation) or slurm"},
		&cli.StringFlag{Name: "site", Usage: "site profile `NAME` or file, for steps and slurm", EnvVars: []string{"LATHE_SITE"}},
		&cli.IntFlag{Name: "cores", Usage: "`CORES` that local tasks may use together; 0 takes all"},
		&cli.BoolFlag{Name: "dry-run", Usage: "show every array, its size and its command, and start nothing"},
	}, extra...)
}

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "make a run, or go on with one, and stay until it is done", ArgsUsage: "[RECIPE]",
		Flags: makeFlags(),
		Action: func(c *cli.Context) error {
			opened, err := openOrCreate(c)
			if err != nil || opened == nil {
				return err
			}
			switch name := c.String("executor"); name {
			case "":
				return driveForeground(c, opened, "local")
			case "slurm":
				return driveSlurm(c, opened)
			default:
				return driveForeground(c, opened, name)
			}
		},
	}
}

func advanceCommand() *cli.Command {
	return &cli.Command{
		Name: "advance", Usage: "look at the files of a run, submit what is ready, and leave", ArgsUsage: "[RUN]",
		Flags: makeFlags(
			&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` to make the run from when it is not there"},
			&cli.BoolFlag{Name: "retry", Usage: "forget earlier failures and try again"},
		),
		Action: func(c *cli.Context) error {
			if name := c.String("executor"); name == "local" || name == "steps" {
				return exitcode.WithHint(exitcode.Usagef("--executor %q cannot be advanced: its tasks end with the process that started them", name),
					"use lathe run")
			}
			opened, err := openOrCreate(c)
			if err != nil || opened == nil {
				return err
			}
			return advanceSlurm(c, opened)
		},
	}
}

// checkPlace refuses a place to run that cannot be meant, before a run is made
// for it.
func checkPlace(c *cli.Context) error {
	if name := c.String("executor"); !slices.Contains([]string{"", "local", "steps", "slurm"}, name) {
		return exitcode.Usagef("--executor %q is not local, steps or slurm", name)
	}
	if err := atLeast(c, 0, "cores"); err != nil {
		return err
	}
	if name := c.String("site"); name != "" {
		if _, err := site.Load(name); err != nil {
			return err
		}
	}
	return nil
}

// openOrCreate finds the run that the command line means. It returns nil
// after a dry run.
func openOrCreate(c *cli.Context) (*rundir.Run, error) {
	if err := checkPlace(c); err != nil {
		return nil, err
	}
	dir, path := c.String("run"), c.String("recipe")
	args := c.Args().Slice()
	if len(args) > 1 {
		return nil, exitcode.Usagef("unexpected argument %q", args[1])
	}
	if len(args) == 1 {
		if c.Command.Name == "advance" {
			dir = args[0]
		} else {
			path = args[0]
		}
	}
	if dir == "" && path != "" {
		return nil, exitcode.WithHint(exitcode.Usagef("--run is missing: the folder that the run lives in"), "for example --run runs/first")
	}
	if dir == "" {
		return nil, withHelp(c, exitcode.Usagef("neither a recipe nor --run is given"))
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if path == "" {
		if len(c.StringSlice("set")) > 0 {
			return nil, exitcode.Usagef("--set changes a recipe, and a run that is made keeps its own: name the recipe too")
		}
		opened, err := rundir.Open(c.Context, graph.Dir(absolute))
		if err == nil && c.Bool("dry-run") {
			return nil, dryRun(c, opened.Graph)
		}
		return opened, err
	}
	resolved, err := recipe.Load(path, c.StringSlice("set"))
	if err != nil {
		return nil, err
	}
	if c.Bool("dry-run") {
		if err := rundir.Rehearse(c.Context, graph.Dir(absolute), resolved); err != nil {
			return nil, err
		}
		return nil, dryRun(c, graph.Graph{Dir: graph.Dir(absolute), Recipe: resolved.Recipe})
	}
	return rundir.Create(c.Context, graph.Dir(absolute), resolved, seal.AttemptFromEnv(), Version)
}

// driveForeground runs on this machine or inside an allocation.
func driveForeground(c *cli.Context, opened *rundir.Run, name string) error {
	launcher, err := launcherOf(c, opened, name)
	if err != nil {
		return err
	}
	defer launcher.Close()
	binaries, err := binaryFolder()
	if err != nil {
		return err
	}
	watcher := newWatcher(os.Stderr, opened)
	driver := &drive.Driver{
		Run: opened, Launcher: launcher, Attempt: seal.AttemptFromEnv(), Binaries: binaries, Watch: watcher.watch, Version: Version,
	}
	if evidence, there := status.OtherDriver(opened.Dir); there {
		fmt.Fprintf(os.Stderr, "lathe: another process goes on with this run: %s; nothing is lost by two, but they do the same work twice\n", evidence)
	}
	heartbeat, err := status.StartHeartbeat(opened.Dir, name)
	if err != nil {
		return err
	}
	defer heartbeat.Stop()
	err = driver.Drive(c.Context)
	heartbeat.Failed(err)
	watcher.close()
	if err != nil && exitcode.Code(err) != exitcode.LeftOut {
		return err
	}
	summary, reportErr := report.Write(c.Context, opened)
	if reportErr != nil {
		return errors.Join(err, reportErr)
	}
	if textErr := report.Text(stdout, summary); textErr != nil {
		return textErr
	}
	fmt.Fprintf(os.Stderr, "lathe: the report is %s\n", filepath.Join(opened.Dir.Report(), "index.html"))
	return err
}

func launcherOf(c *cli.Context, opened *rundir.Run, name string) (drive.Launcher, error) {
	if name == "steps" {
		site, err := site.Load(siteName(c))
		if err != nil {
			return nil, err
		}
		return local.NewSteps(c.Context, *site)
	}
	cores := c.Int("cores")
	if cores == 0 {
		cores = runtime.NumCPU()
	}
	return local.New(cores), nil
}

func siteName(c *cli.Context) string {
	if name := c.String("site"); name != "" {
		return name
	}
	return "generic"
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

// dryRun shows what a run would start.
func dryRun(c *cli.Context, g graph.Graph) error {
	table := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "ARRAY\tTASKS\tCORES\tGPUS\tMINUTES\tCOMMAND")
	total := map[graph.Stage]int{}
	for _, n := range g.Nodes() {
		tasks := g.Shards(n)
		total[n.Stage] += tasks
		q := g.Request(n.Stage)
		command := g.Command("", n)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", n, tasks, q.CPUs, q.GPUs, q.Minutes, strings.Join(command, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	sum := 0
	fmt.Fprint(stdout, "total:")
	for _, s := range graph.Stages() {
		if total[s] > 0 {
			fmt.Fprintf(stdout, " %d %s,", total[s], s)
			sum += total[s]
		}
	}
	fmt.Fprintf(stdout, " %d tasks\n", sum)
	if c.String("executor") == "slurm" {
		return dryRunSlurm(c, g)
	}
	return nil
}

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "say what of a run is done, running, failed or unknown, with the evidence", ArgsUsage: "RUN",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			opened, err := openRun(c)
			if err != nil {
				return err
			}
			seen, seenErr := seeJobs(c.Context, opened)
			s, err := status.Read(c.Context, opened, seen, seenErr)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return writeJSON(stdout, s)
			}
			return s.Print(stdout)
		},
	}
}

// openRun opens the run that the one argument, or --run, names.
func openRun(c *cli.Context) (*rundir.Run, error) {
	args, err := arguments(c, "RUN")
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(args[0])
	if err != nil {
		return nil, err
	}
	return rundir.Open(c.Context, graph.Dir(absolute))
}

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "digest every sealed file of a run and check the ledger", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "repair", Usage: "remove what is damaged, so that lathe run makes it again"},
		},
		Action: func(c *cli.Context) error {
			opened, err := openRun(c)
			if err != nil {
				return err
			}
			result, err := verify.Verify(c.Context, opened)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				if err := writeJSON(stdout, result); err != nil {
					return err
				}
			} else {
				printVerification(result)
			}
			if len(result.Faults) == 0 {
				return nil
			}
			if c.Bool("repair") {
				removed, err := verify.Repair(opened, result, seal.AttemptFromEnv())
				for _, path := range removed {
					fmt.Fprintf(os.Stderr, "lathe: removed %s\n", path)
				}
				if err == nil {
					fmt.Fprintf(os.Stderr, "lathe: to make what is missing again: lathe run --run %s\n", opened.Dir)
				}
				return err
			}
			first := result.Faults[0]
			return exitcode.WithHint(exitcode.Dataf("run %q has %d faults; the first: %s: %s", opened.Dir, len(result.Faults), first.Path, first.Problem),
				"%s", first.Mend)
		},
	}
}

func printVerification(v verify.Verification) {
	fmt.Fprintf(stdout, "%d sealed files and folders match, %d bytes\n", v.Files, v.Bytes)
	for _, f := range v.Faults {
		fmt.Fprintf(stdout, "%s: %s\n  mend: %s\n", f.Path, f.Problem, f.Mend)
	}
	fmt.Fprintf(stdout, "ledger: %d planned, %d trained, %d pending", v.Ledger.Planned, v.Ledger.Trained, v.Ledger.Pending)
	for _, reason := range sortedKeys(v.Ledger.Dropped) {
		fmt.Fprintf(stdout, ", %d dropped (%s)", v.Ledger.Dropped[reason], reason)
	}
	fmt.Fprintln(stdout)
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "carry out a stage of a run again and compare the bytes", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "iter", Usage: "iteration `K`; for warm the checkpoint, for evaluate the policy version"},
			&cli.StringFlag{Name: "stage", Usage: "`STAGE`: warm, buffer, rollout, score, gradient, learn or evaluate"},
			&cli.StringFlag{Name: "shard", Usage: "shard `N`; all when left out"},
			&cli.IntFlag{Name: "step", Usage: "optimizer step `U`, for gradient shards"},
			&cli.IntFlag{Name: "threads", Usage: "engine `THREADS`"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: replay,
	}
}

func replay(c *cli.Context) error {
	opened, err := openRun(c)
	if err != nil {
		return err
	}
	stage, err := graph.ParseStage(c.String("stage"))
	if err != nil {
		return err
	}
	node := graph.Node{Stage: stage, Iteration: c.Int("iter"), Step: c.Int("step")}
	if !slices.Contains(opened.Graph.Nodes(), node) {
		return exitcode.Usagef("the run has no %s", node)
	}
	var tasks []graph.Task
	if text := c.String("shard"); text != "" {
		shard, err := strconv.Atoi(text)
		if err != nil {
			return exitcode.Usagef("--shard %q is not a number", text)
		}
		if shards := opened.Graph.Shards(node); shard < 0 || shard >= shards {
			return exitcode.Usagef("shard %d of %s: it has shards 0 to %d", shard, node, shards-1)
		}
		tasks = []graph.Task{{Node: node, Shard: shard}}
	} else {
		for shard := range opened.Graph.Shards(node) {
			tasks = append(tasks, graph.Task{Node: node, Shard: shard})
		}
	}
	if err := atLeast(c, 0, "threads"); err != nil {
		return err
	}
	w := worker.New(opened, seal.AttemptFromEnv(), Version, talk("lathe"))
	w.Threads = c.Int("threads")
	results, err := worker.Replay(c.Context, w, tasks)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := writeJSON(stdout, results); err != nil {
			return err
		}
	}
	different, remote := 0, 0
	for _, r := range results {
		word, digest := "same", r.Now
		switch {
		case r.Remote:
			word, digest = "remote", r.Sealed
			remote++
		case !r.Same:
			word = "DIFFERENT"
			different++
		}
		if !c.Bool("json") {
			fmt.Fprintf(stdout, "%-9s %s %s\n", word, digest, r.Path)
		}
	}
	if remote > 0 {
		fmt.Fprintf(os.Stderr, "%d outputs were sampled by a server, which need not say the same again: they match what was sealed, and all stages after them can be replayed\n", remote)
	}
	if different > 0 {
		return exitcode.WithHint(exitcode.Dataf("%d of %d outputs came out different", different, len(results)),
			"was the run made by other binaries? run.json and the manifests name their version")
	}
	return nil
}

func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write the report of a run and print its summary", ArgsUsage: "RUN",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print summary.json instead of text"}},
		Action: func(c *cli.Context) error {
			opened, err := openRun(c)
			if err != nil {
				return err
			}
			summary, err := report.Write(context.WithoutCancel(c.Context), opened)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return writeJSON(stdout, summary)
			}
			return report.Text(stdout, summary)
		},
	}
}
