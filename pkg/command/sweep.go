package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// SweepOptions are those of lathe sweep.
type SweepOptions struct {
	LaunchOptions
	Recipes  []string // files, or folders of them; none continues a sweep that is there
	Out      string   // folder of the sweep
	Seeds    string
	Grids    []string
	Parallel int // runs at a time on this machine
	Status   bool
	JSON     bool

	// beside gives the runs of a seed in a plan's other experiments, whose warm starts those
	// of this one may share too; nil for a sweep that is of no plan.
	beside func(seed uint64) ([]*rundir.Run, error)
	// ended says what a run that has ended on this machine shows early about its plan; nil for
	// a sweep that is of no plan.
	ended func(r sweep.Run) ([]string, error)
}

func sweepCommand() *cli.Command {
	var o SweepOptions
	return cmdline.Help{
		Example: "lathe sweep jobs/quickstart.yaml jobs/quickstart-grpo.yaml --seeds 1-3 --out runs/sweep\n" +
			"lathe sweep --out runs/sweep --status",
		Exits: cmdline.Exits(exitcode.Data, exitcode.Failed, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "sweep", Usage: "start or resume a run of every recipe, seed and setting; a folder means all recipes in it", ArgsUsage: "[RECIPE|FOLDER...]",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "`FOLDER` for the sweep: runs, logs and sweep.json", Destination: &o.Out},
			&cli.StringFlag{Name: "seeds", Usage: "run every one of `SEEDS`, such as 1-5 or 1,2,7", Value: "1", Destination: &o.Seeds},
			cmdline.ListFlag("grid", "run every value of a recipe field: `FIELD=VALUE,VALUE`; repeat for all combinations", &o.Grids),
			cmdline.SetFlag(&o.Set),
		}, o.placeFlags()...),
		Action: func(c *cli.Context) error {
			o.Recipes = c.Args().Slice()
			return Sweep(c.Context, c.App.Writer, o)
		},
	})
}

// placeFlags say where and how runs are executed.
func (o *SweepOptions) placeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "executor", Usage: "local, or slurm: all runs advance concurrently, without a driver process", Value: "local", Destination: &o.Executor},
		&cli.StringFlag{Name: "site", Usage: "site profile `NAME` or file, for slurm", EnvVars: []string{"LATHE_SITE"}, Destination: &o.Site},
		&cli.IntFlag{Name: "cores", Usage: "number of `CORES` for all local tasks together; 0 uses all", Destination: &o.Cores},
		&cli.StringFlag{Name: "scores", Usage: "reuse the scores of an earlier sweep's `FOLDER` for identical responses instead of scoring them again", Destination: &o.Scores},
		&cli.IntFlag{Name: "parallel", Usage: "`N` local runs at a time, sharing the cores", Value: 1, Destination: &o.Parallel},
		trustFlag(&o.Trust),
		&cli.BoolFlag{Name: "status", Usage: "print the progress of each run, start nothing", Destination: &o.Status},
		cmdline.JSONFlag(&o.JSON),
	}
}

// check refuses invalid options.
func (o SweepOptions) check() error {
	if err := errors.Join(cmdline.Required("out", o.Out), cmdline.AtLeast(1, "parallel", o.Parallel), cmdline.AtLeast(0, "cores", o.Cores)); err != nil {
		return err
	}
	if o.Executor != "local" && o.Executor != "slurm" {
		return exitcode.Usagef("--executor: got %q, want local or slurm (steps divides one allocation among the tasks of one run: use lathe run --executor steps for each run)", o.Executor)
	}
	return nil
}

// Sweep starts or resumes runs and prints their progress. On this machine
// it stays until all are done or have failed.
func Sweep(ctx context.Context, out io.Writer, o SweepOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	folder, err := filepath.Abs(o.Out)
	if err != nil {
		return err
	}
	index, err := o.index(folder)
	if err != nil {
		return err
	}
	failures := map[string]error{}
	if !o.Status {
		if failures, err = o.start(ctx, folder, index); err != nil {
			return err
		}
	}
	if err := o.table(ctx, out, folder, index, failures); err != nil {
		return err
	}
	if len(failures) > 0 {
		return exitcode.WithHint(&exitcode.Error{Code: exitcode.Failed, Err: fmt.Errorf("%s failed", plural.Of(len(failures), len(index.Runs), "run"))},
			"the same command resumes all of them; their logs: %s", filepath.Join(o.Out, "*.log"))
	}
	return nil
}

// index is what the sweep is made of.
func (o SweepOptions) index(folder string) (sweep.Index, error) {
	if len(o.Recipes) == 0 {
		index, known, err := sweep.Read(folder)
		if err == nil && !known {
			err = exitcode.WithHint(exitcode.Usagef("%q has no sweep, and RECIPE is missing", o.Out), "lathe sweep RECIPE... --seeds 1-3 --out %s", o.Out)
		}
		return index, err
	}
	recipes, err := sweep.Recipes(o.Recipes)
	if err != nil {
		return sweep.Index{}, err
	}
	seeds, err := sweep.ParseSeeds(o.Seeds)
	if err != nil {
		return sweep.Index{}, err
	}
	grids, err := sweep.ParseGrids(o.Grids)
	if err != nil {
		return sweep.Index{}, err
	}
	planned, err := sweep.Plan(recipes, seeds, grids, o.Set)
	if err != nil || o.Status {
		return planned, err
	}
	return sweep.Begin(folder, planned)
}

// begunRun is a run of a sweep that is under way or has ended.
type begunRun struct {
	*rundir.Run
	ended chan struct{} // closed once it goes no further
}

// start carries every run as far as it goes. One that fails does not stop the others.
func (o SweepOptions) start(ctx context.Context, folder string, index sweep.Index) (map[string]error, error) {
	var mu sync.Mutex // of failures
	failures := map[string]error{}
	failed := func(r sweep.Run, err error) {
		mu.Lock()
		failures[r.Name] = err
		mu.Unlock()
		fmt.Fprintf(os.Stderr, "lathe: run %s failed: %v\n", r.Name, err)
	}
	var begun []begunRun // whose warm starts later ones may share
	slots := make(chan struct{}, o.Parallel)
	var all sync.WaitGroup
	for _, r := range index.Runs {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		opened, err := o.open(ctx, folder, r)
		if err != nil {
			if ctx.Err() == nil {
				failed(r, err)
			}
			<-slots
			continue
		}
		before, own := slices.Clone(begun), begunRun{opened, make(chan struct{})}
		begun = append(begun, own)
		all.Go(func() {
			defer func() { <-slots }()
			defer close(own.ended)
			if err := o.carry(ctx, folder, r, opened, before); err != nil && ctx.Err() == nil {
				failed(r, err)
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return failures, exitcode.WithHint(err, "run the same command again to resume the sweep")
	}
	return failures, nil
}

// open makes or opens a run.
func (o SweepOptions) open(ctx context.Context, folder string, r sweep.Run) (*rundir.Run, error) {
	launch := o.LaunchOptions
	launch.Run, launch.Recipe, launch.Set = filepath.Join(folder, r.Name), r.Recipe, r.Set
	if o.Scores != "" {
		launch.Scores = filepath.Join(o.Scores, r.Name)
		if _, err := os.Stat(launch.Scores); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "lathe: scoring run %s again: %s has no such run\n", r.Name, o.Scores)
			launch.Scores = ""
		}
	}
	return launch.open(ctx)
}

// shareWarmStart gives a run the warm start of one that was begun before, where that is
// the same, once that has made it.
func (o SweepOptions) shareWarmStart(ctx context.Context, of *rundir.Run, before []begunRun) error {
	if _, sealed, err := seal.Check(ctx, of.Dir.Policy(0), of.Graph.Reading(0)); err != nil || sealed {
		return err
	}
	name := filepath.Base(string(of.Dir))
	share := func(other *rundir.Run) (bool, error) {
		shared, err := sweep.ShareWarmStart(ctx, of, other, seal.AttemptFromEnv(), cmdline.Version)
		if shared {
			theirs, err := filepath.Rel(filepath.Dir(string(of.Dir)), string(other.Dir))
			fmt.Fprintf(os.Stderr, "lathe: run %s uses the warm start of %s\n", name, theirs)
			return true, err
		}
		return false, err
	}
	for _, other := range before {
		if !sweep.SameWarmStart(of, other.Run) {
			continue
		}
		if o.Executor != "slurm" {
			if err := other.awaitWarmStart(ctx, name); err != nil {
				return err
			}
		}
		shared, err := share(other.Run)
		if err == nil && !shared && o.Executor == "slurm" {
			// Its controller jobs go on once the other, which is under way, has made it.
			return advance.AwaitWarmStart(of.Dir, other.Dir, seal.AttemptFromEnv())
		}
		if shared || err != nil {
			return err
		}
	}
	if o.beside == nil {
		return nil
	}
	others, err := o.beside(of.Recipe.Seed)
	if err != nil {
		return err
	}
	for _, other := range others {
		if shared, err := share(other); err != nil || shared {
			return err
		}
	}
	return nil
}

// awaitWarmStart waits until a run that a process of its own runs has made its
// warm start, or goes no further.
func (r begunRun) awaitWarmStart(ctx context.Context, waiting string) error {
	const every = 200 * time.Millisecond
	for looked := 0; ; looked++ {
		if _, sealed, err := seal.Check(ctx, r.Dir.Policy(0), r.Graph.Reading(0)); err != nil || sealed {
			return err
		}
		if looked == 1 {
			fmt.Fprintf(os.Stderr, "lathe: run %s waits for the warm start of %s\n", waiting, filepath.Base(string(r.Dir)))
		}
		select {
		case <-r.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// carry submits what of a run is ready, or drives it to its end in a process of its
// own that writes its log. Runs that were begun before may have its warm start.
func (o SweepOptions) carry(ctx context.Context, folder string, r sweep.Run, opened *rundir.Run, before []begunRun) error {
	if state, err := status.ReadState(ctx, opened); o.Executor != "slurm" && err == nil && state == status.StateDone {
		return nil
	}
	if err := o.shareWarmStart(ctx, opened, before); err != nil {
		return err
	}
	if o.Executor == "slurm" {
		if err := resume(opened, os.Stderr); err != nil {
			return err
		}
		advance := AdvanceOptions{LaunchOptions: o.LaunchOptions}
		return advance.advance(ctx, io.Discard, opened)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := plainfile.Create(filepath.Join(folder, r.Name+".log"), os.O_APPEND)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, "run", "--run", string(opened.Dir), "--cores", strconv.Itoa(o.coresOfRun()))
	cmd.Args[0] = "lathe"
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	fmt.Fprintf(os.Stderr, "lathe: started run %s; log: %s\n", r.Name, log.Name())
	started, err := child.Start(cmd, syscall.SIGINT)
	if err != nil {
		return err
	}
	waitTelling(ctx, started, r.Name, log.Name())
	var ended *exec.ExitError
	if err := started.Err(); err != nil && (!errors.As(err, &ended) || ended.ExitCode() != exitcode.LeftOut) {
		return fmt.Errorf("%s: %s", started.How(), lastLine(log.Name()))
	}
	fmt.Fprintf(os.Stderr, "lathe: run %s ended after %s\n", r.Name, time.Since(began).Round(time.Second))
	if o.ended == nil {
		return nil
	}
	words, err := o.ended(r)
	for _, w := range words {
		fmt.Fprintf(os.Stderr, "lathe: run %s: %s\n", r.Name, w)
	}
	return err
}

// waitTelling waits for the process of a run, stops it when the sweep is stopped, and meanwhile
// passes on every so often how far it is.
func waitTelling(ctx context.Context, started *child.Child, name, log string) {
	ticker := time.NewTicker(logEvery)
	defer ticker.Stop()
	told := ""
	for {
		select {
		case <-started.Exited():
			return
		case <-ctx.Done():
			started.Signal(syscall.SIGINT)
			<-started.Exited()
			return
		case <-ticker.C:
			if line := lastLine(log); line != told && line != "" {
				told = line
				fmt.Fprintf(os.Stderr, "lathe: run %s: %s\n", name, line)
			}
		}
	}
}

// coresOfRun is a run's share of the cores.
func (o SweepOptions) coresOfRun() int {
	if o.Parallel == 1 {
		return o.Cores
	}
	return max(1, cmp.Or(o.Cores, runtime.NumCPU())/o.Parallel)
}

// lastLine is the last line of a log that says lathe's last word.
func lastLine(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "lathe: ") {
			return strings.TrimPrefix(lines[i], "lathe: ")
		}
	}
	return lines[len(lines)-1]
}

// sweepRow is how far a run of a sweep is.
type sweepRow struct {
	Name       string `json:"name"`
	State      string `json:"state"`
	Learned    int    `json:"iterations_learned"`
	Iterations int    `json:"iterations"`
	Evidence   string `json:"evidence"`
}

// table shows all runs in one table.
func (o SweepOptions) table(ctx context.Context, out io.Writer, folder string, index sweep.Index, failures map[string]error) error {
	rows := make([]sweepRow, len(index.Runs))
	for i, r := range index.Runs {
		rows[i] = sweepRow{Name: r.Name, State: "not created", Evidence: "no folder yet"}
		opened, err := rundir.Open(ctx, graph.Dir(filepath.Join(folder, r.Name)))
		if errors.Is(err, seal.ErrNotSealed) && failures[r.Name] == nil {
			continue
		}
		if err == nil {
			seen, seenErr := seeJobs(ctx, opened)
			var s status.Status
			if s, err = status.Read(ctx, opened, seen, seenErr); err == nil {
				rows[i] = sweepRow{r.Name, string(s.State), s.Learned, s.Iterations, s.Evidence}
			}
		}
		if err = cmp.Or(failures[r.Name], err); err != nil {
			rows[i].State, rows[i].Evidence = "failed", err.Error()
		}
	}
	if o.JSON {
		return cmdline.WriteJSON(out, rows)
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "run\tstate\titerations\tevidence")
	for _, row := range rows {
		fmt.Fprintf(table, "%s\t%s\t%d of %d\t%s\n", row.Name, row.State, row.Learned, row.Iterations, row.Evidence)
	}
	return table.Flush()
}
