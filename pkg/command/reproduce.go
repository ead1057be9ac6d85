package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/reproduce"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// ReproduceOptions are those of lathe reproduce.
type ReproduceOptions struct {
	SweepOptions          // where and how the runs are executed
	Plan         string   // file
	Only         []string // names of experiments; none is all
	Against      string   // reproduction.json of an earlier time, whose policies are compared; empty for none
	Wait         bool     // stay until all runs have ended, on Slurm too
	With         []string // files reproduction.json of other machines, whose experiments need not be run here
	NoRun        bool     // start nothing, and write the page of what there is
}

func reproduceCommand() *cli.Command {
	var o ReproduceOptions
	return cmdline.Help{
		Example: "lathe reproduce analysis/reproduce-mini.yaml --out runs/reproduce-mini\n" +
			"lathe reproduce analysis/reproduce-mini.yaml --out runs/reproduce-mini --status\n" +
			"lathe reproduce analysis/reproduce-mini.yaml --with runs/reproduce-mini/reproduction.json --out kept --no-run  # page and numbers without the runs",
		Exits: cmdline.Exits(exitcode.Data, exitcode.Failed, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "reproduce", Usage: "run or resume a plan's experiments and report which claims hold", ArgsUsage: "PLAN",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "`FOLDER` for the sweeps and the page", Destination: &o.Out},
			cmdline.ListFlag("only", "run only `EXPERIMENT` of the plan; may be repeated", &o.Only),
			&cli.StringFlag{Name: "against", Usage: "count the policies that are byte-identical to those of an earlier reproduction.json `FILE`", Destination: &o.Against},
			&cli.BoolFlag{Name: "wait", Usage: "on Slurm: wait until all runs have ended, and start those that depend on others", Destination: &o.Wait},
			cmdline.ListFlag("with", "use finished experiments of another reproduction.json `FILE` where they are not finished here; may be repeated", &o.With),
			&cli.BoolFlag{Name: "no-run", Usage: "start nothing; write the page and the numbers of the runs that exist (--status prints them instead)", Destination: &o.NoRun},
		}, o.placeFlags()...),
		Action: cmdline.OptionalArgument(&o.Plan, func(c *cli.Context) error { return Reproduce(c.Context, c.App.Writer, o) }),
	})
}

// Reproduce carries the experiments of a plan as far as they go, one after the other,
// measures what is done, and writes the page. On Slurm the runs of all experiments
// are submitted, and the same command measures them later, unless it waits for them.
func Reproduce(ctx context.Context, out io.Writer, o ReproduceOptions) error {
	if o.Plan == "" {
		return exitcode.Usagef("PLAN is missing")
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.Status && o.NoRun {
		return cmdline.Misusef("--status and --no-run exclude each other")
	}
	starts := !o.Status && !o.NoRun
	plan, err := reproduce.Load(o.Plan)
	if err != nil {
		return err
	}
	whole := plan
	if plan, err = plan.Only(o.Only); err != nil {
		return err
	}
	folder, err := filepath.Abs(o.Out)
	if err != nil {
		return err
	}
	if err := whole.CheckArms(folder); err != nil {
		return err
	}
	taken := reproduce.Taken{} // runs that need not be started here
	if len(o.With) > 0 {
		if _, taken, _, err = o.measure(ctx, folder, whole); err != nil {
			return err
		}
	}
	if starts {
		if err := plan.CheckData(ctx, folder, taken); err != nil {
			return err
		}
	}
	var begun begun
	for before, left := -1, 1; starts && (left > 0 || len(begun.waiting) > 0 && len(begun.dirs) > before); {
		before = len(begun.dirs)
		if begun, err = o.begin(ctx, folder, whole, plan, taken); err != nil {
			return err
		}
		if !o.Wait || o.Executor != "slurm" {
			break
		}
		if left, err = await(ctx, begun); err != nil {
			return err
		}
	}
	result, taken, refused, err := o.measure(ctx, folder, whole)
	if err != nil {
		return err
	}
	notes, err := o.compareWithEarlier(result.WithoutTaken(taken))
	if err != nil {
		return err
	}
	notes = append(append(notes, takenNotes(result, taken)...), refused...)
	if !o.Status {
		if err := writeReproduction(ctx, folder, result, taken, notes); err != nil {
			return err
		}
	}
	if o.JSON {
		err = cmdline.WriteJSON(out, result)
	} else if err = reproduce.Text(out, result); err == nil {
		for _, note := range append(notes, begun.waiting...) {
			fmt.Fprintln(out, note)
		}
		if !o.Status {
			fmt.Fprintf(out, "page      %s\n", filepath.Join(o.Out, "index.html"))
		}
	}
	if failed := begun.failed; err == nil && failed > 0 {
		err = exitcode.WithHint(&exitcode.Error{Code: exitcode.Failed, Err: fmt.Errorf("%s failed", plural.Count(failed, "run"))},
			"the same command resumes all of them; their logs: %s", filepath.Join(o.Out, "*", "*.log"))
	}
	return err
}

// writeReproduction writes the page of a plan, with one of each experiment whose runs
// are all here.
func writeReproduction(ctx context.Context, folder string, result reproduce.Reproduction, taken reproduce.Taken, notes []string) (err error) {
	compared := map[string]bool{}
	for _, e := range result.Results {
		if len(taken[e.Name]) > 0 {
			continue // not all of its runs are here
		}
		if compared[e.Name], err = sideBySide(ctx, e); err != nil {
			return err
		}
	}
	return reproduce.Write(folder, result, compared, notes)
}

// begun is what of a plan is under way or has ended.
type begun struct {
	dirs    []string // of runs
	failed  int      // runs
	waiting []string // what waits for which runs, in words
}

// begin carries experiments as far as they go, but for those that are taken from
// elsewhere. whole is the plan that they are of.
func (o ReproduceOptions) begin(ctx context.Context, folder string, whole, plan reproduce.Plan, taken reproduce.Taken) (b begun, err error) {
	for _, e := range plan.Experiments {
		planned, err := e.Runs(folder)
		if err != nil {
			return b, fmt.Errorf("experiment %q: %w", e.Name, err)
		}
		planned.Runs = slices.DeleteFunc(planned.Runs, func(r sweep.Run) bool { return taken[e.Name][r.Name] })
		if len(planned.Runs) == 0 {
			continue
		}
		if e.Pool != nil {
			ready, err := gather(ctx, folder, whole.Named(e.Pool.Experiment), *e.Pool)
			if err != nil {
				return b, fmt.Errorf("experiment %q: %w", e.Name, err)
			}
			if !ready {
				b.waiting = append(b.waiting, fmt.Sprintf("Experiment %s waits for the runs of %s of experiment %s: once they are done, run the same command again.", e.Name, e.Pool.Method, e.Pool.Experiment))
				continue
			}
		}
		index, err := sweep.Begin(filepath.Join(folder, e.Name), planned)
		if err != nil {
			return b, fmt.Errorf("experiment %q: %w", e.Name, err)
		}
		here := o.SweepOptions
		here.beside = func(seed uint64) ([]*rundir.Run, error) { return besides(ctx, folder, whole, e.Name, seed) }
		here.ended = func(r sweep.Run) ([]string, error) { return e.Early(ctx, folder, r) }
		if here.Scores != "" {
			here.Scores = filepath.Join(o.Scores, e.Name)
			if _, err := os.Stat(here.Scores); errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(os.Stderr, "lathe: scoring experiment %s again: %s has none of its runs\n", e.Name, o.Scores)
				here.Scores = ""
			}
		}
		first, then := e.InOrder(index)
		for _, runs := range []sweep.Index{first, then} {
			ready, err := e.Ready(ctx, folder, runs)
			if err != nil {
				return b, err
			}
			failures, err := here.start(ctx, filepath.Join(folder, e.Name), ready)
			if err != nil {
				return b, err
			}
			b.failed += len(failures)
			for _, r := range ready.Runs {
				if failures[r.Name] == nil {
					b.dirs = append(b.dirs, filepath.Join(folder, e.Name, r.Name))
				}
			}
			if n := len(runs.Runs) - len(ready.Runs); n > 0 {
				b.waiting = append(b.waiting, fmt.Sprintf("waiting for the warm start of other runs: %s of experiment %s; once those are done, run the same command again.", plural.Count(n, "run"), e.Name))
			}
		}
	}
	return b, nil
}

// besides are the runs of a seed that a plan's other experiments have here. What is wrong
// with one that cannot be opened its own experiment says.
func besides(ctx context.Context, folder string, whole reproduce.Plan, but string, seed uint64) (runs []*rundir.Run, err error) {
	for _, e := range whole.Experiments {
		if e.Name == but {
			continue
		}
		index, err := e.Runs(folder)
		if err != nil {
			return nil, fmt.Errorf("experiment %q: %w", e.Name, err)
		}
		for _, r := range index.Runs {
			if r.Seed != seed {
				continue
			}
			if opened, err := rundir.Open(ctx, graph.Dir(filepath.Join(folder, e.Name, r.Name))); err == nil {
				runs = append(runs, opened)
			}
		}
	}
	return runs, ctx.Err()
}

// gather makes the pools of an experiment from runs of another, once these are done.
func gather(ctx context.Context, folder string, from reproduce.Experiment, p reproduce.Pool) (ready bool, err error) {
	result, err := reproduce.Read(ctx, folder, reproduce.Plan{Experiments: []reproduce.Experiment{from}})
	if err != nil {
		return false, err
	}
	var runs []string
	for _, r := range result.Results[0].Runs {
		if r.Method == p.Method {
			if !r.Done {
				return false, nil
			}
			runs = append(runs, filepath.Join(folder, from.Name, r.Name))
		}
	}
	for _, selection := range p.Select {
		out := filepath.Join(folder, from.Name, selection+".parquet")
		_, sealed, err := seal.Check(ctx, out, seal.Options{})
		if err == nil && !sealed {
			_, _, err = pooling(ctx, PoolOptions{Runs: runs, Select: selection, Out: out}, time.Now())
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// sideBySide writes the page that compares the methods of an experiment, which is
// left out where they are not measured alike.
func sideBySide(ctx context.Context, e reproduce.Result) (bool, error) {
	if !e.Done() {
		return false, nil
	}
	c, err := compare.Runs(ctx, []string{e.Folder}, compare.Options{Resamples: 10_000, Seed: 1})
	var usage *exitcode.Error
	if errors.As(err, &usage) && usage.Code == exitcode.Usage {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, compare.Write(filepath.Join(e.Folder, "compare"), c)
}

// measure says what came out of a whole plan so far, here and in other reproductions, and
// which runs are theirs.
func (o ReproduceOptions) measure(ctx context.Context, folder string, whole reproduce.Plan) (result reproduce.Reproduction, taken reproduce.Taken, refused []string, err error) {
	taken = reproduce.Taken{}
	if result, err = reproduce.Read(ctx, folder, whole); err != nil {
		return result, nil, nil, err
	}
	for _, file := range o.With {
		other, err := readReproduction("--with", file)
		if err != nil {
			return result, nil, nil, err
		}
		more, not, err := result.With(whole, folder, other)
		if err != nil {
			return result, nil, nil, err
		}
		for experiment, names := range more {
			if taken[experiment] == nil {
				taken[experiment] = map[string]bool{}
			}
			maps.Copy(taken[experiment], names)
		}
		refused = append(refused, not...)
	}
	return result, taken, refused, nil
}

// takenNotes say which runs are from elsewhere.
func takenNotes(result reproduce.Reproduction, taken reproduce.Taken) []string {
	var words []string
	for _, e := range result.Results {
		switch n := len(taken[e.Name]); {
		case taken.All(e):
			words = append(words, e.Name)
		case n > 0:
			words = append(words, fmt.Sprintf("%s of %s", plural.Of(n, len(e.Runs), "run"), e.Name))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []string{"From other reproductions: " + strings.Join(words, ", ") + "."}
}

// readReproduction reads the reproduction.json that a flag names.
func readReproduction(flag, file string) (r reproduce.Reproduction, err error) {
	content, err := plainfile.Read(file, plainfile.MaxDocument)
	if errors.Is(err, os.ErrNotExist) {
		return r, exitcode.Usagef("%s: %q does not exist", flag, file)
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err == nil && r.Format != reproduce.Format {
		err = fmt.Errorf("format: got %q, want %q", r.Format, reproduce.Format)
	}
	if err != nil {
		return r, exitcode.Dataf("read %q: %w", file, err)
	}
	return r, nil
}

// compareWithEarlier says how many policies are those of an earlier time.
func (o ReproduceOptions) compareWithEarlier(result reproduce.Reproduction) ([]string, error) {
	if o.Against == "" {
		return nil, nil
	}
	earlier, err := readReproduction("--against", o.Against)
	if err != nil {
		return nil, err
	}
	same, others := result.Same(earlier)
	notes := []string{fmt.Sprintf("%s %s the same weights as in %s, to the byte.", plural.Of(same, same+len(others), "policy"), plural.Verb(same, "has", "have"), filepath.Base(o.Against))}
	if len(others) > 0 {
		notes = append(notes, "Different weights: "+strings.Join(others, ", ")+".")
	}
	return notes, nil
}
