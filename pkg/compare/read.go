package compare

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/efficiency"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Run is a run that is done, with what its method is known by.
type Run struct {
	*rundir.Run
	Folder string
	method string // the recipe as text, without what tells seeds and names of runs apart
}

// Open opens the runs that folders are or hold, each once. Those that have something
// left to do are named in unfinished; that none is done is a usage error.
func Open(ctx context.Context, folders []string) (runs []Run, unfinished []string, err error) {
	unfinished = []string{}
	seen := map[string]string{}
	for _, folder := range folders {
		paths, err := runsIn(ctx, folder)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range paths {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			r, done, err := openOne(ctx, path)
			if err != nil {
				return nil, nil, fmt.Errorf("reading run %q: %w", path, err)
			}
			if !done {
				unfinished = append(unfinished, path)
				continue
			}
			if other, twice := seen[r.Identity.RunID]; twice {
				return nil, nil, exitcode.Usagef("%q and %q are one run, %q: name it once", other, path, r.Identity.RunID)
			}
			seen[r.Identity.RunID] = path
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil, nil, exitcode.Usagef("none of the runs is done: %s", strings.Join(unfinished, ", "))
	}
	joinSeeds(runs)
	return runs, unfinished, nil
}

// joinSeeds makes runs that each go on from the run of their own seed of one method. Those
// that all go on from the same run have the same method as it is, seed and all.
func joinSeeds(runs []Run) {
	same := map[string]int{}
	for _, r := range runs {
		same[r.method]++
	}
	for i, r := range runs {
		if same[r.method] == 1 {
			runs[i].method = seedless(r.method, r.Recipe.Seed)
		}
	}
}

// finished is what is read of a run that is compared.
type finished struct {
	Run
	steps    int                // revisions that are compared
	tasks    string             // sha256 of the held-out tasks
	drawn    map[string]string  // settings that say which these are, by their path
	scored   map[string]string  // settings that say what an answer scores
	measured map[int]evaluation // by policy version, of the test split
	costs    measure.Costs
	joules   map[int]float64 // of the GPUs, by iteration; without those of which it is not known
	numbers  []number        // of the measures that were asked for
}

// evaluation is the scores of a policy version, by revision: those before
// the first step at which no prompt left room for an answer.
type evaluation struct {
	measure.Version
	first    map[string][]float64 // of each held-out problem, at step 0 alone
	problems map[string][]float64 // of each held-out problem, of its chains that have all of these steps
}

// number is a measure of a run.
type number struct {
	value float64
	why   string // the run does not have it; empty where it does
}

// joulesUntil is what the GPUs took until a policy version, if that is known of every
// iteration.
func (r finished) joulesUntil(version int) (sum float64, known bool) {
	for k := 1; k <= version; k++ {
		of, sampled := r.joules[k]
		if !sampled {
			return 0, false
		}
		sum += of
	}
	return sum, len(r.joules) > 0
}

// last is the evaluation of the run's last policy, first that of the one it began with.
func (r finished) last() evaluation  { return r.measured[r.Recipe.Schedule.Iterations] }
func (r finished) first() evaluation { return r.measured[0] }

// runsIn lists the runs that a folder is or holds, at any depth, sorted. Links are
// followed, and a run that has several names is listed once.
func runsIn(ctx context.Context, folder string) ([]string, error) {
	var runs []string
	listed := map[string]bool{} // by the paths without links
	err := rundir.Walk(ctx, graph.Dir(folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if _, err := os.Lstat(graph.Dir(path).Identity()); err != nil {
			return nil
		}
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		if !listed[resolved] {
			listed[resolved] = true
			runs = append(runs, path)
		}
		return fs.SkipDir
	})
	switch {
	case errors.Is(err, fs.SkipDir): // the folder is a run
	case errors.Is(err, fs.ErrNotExist):
		return nil, exitcode.Usagef("there is no folder %q", folder)
	case err != nil:
		return nil, err
	case len(runs) == 0:
		return nil, exitcode.Usagef("folder %q is no run and holds none: there is no run.json", folder)
	}
	return runs, nil
}

// openOne opens a run. done is false for one that has something left to do.
func openOne(ctx context.Context, folder string) (r Run, done bool, err error) {
	opened, err := rundir.Open(ctx, graph.Dir(folder))
	if err != nil {
		return r, false, err
	}
	r.Folder, r.Run = folder, opened
	if state, err := status.ReadState(ctx, opened); err != nil || state != status.StateDone {
		return r, false, err
	}
	plain := opened.Recipe
	plain.Seed, plain.Name, plain.Description = 0, "", ""
	r.method = string(recipe.Write(&plain))
	return r, true, nil
}

// seedless is a recipe's text without its seed in the names of runs that it goes on from:
// a sweep calls them RECIPE-sSEED, and which of them is meant is no setting of a method.
func seedless(text string, seed uint64) string {
	return regexp.MustCompile(fmt.Sprintf(`-s%d(["/\s]|$)`, seed)).ReplaceAllString(text, "-s$1")
}

// read reads the evaluations of a run, what it took, and the measures asked for.
func read(ctx context.Context, run Run, o Options) (r finished, err error) {
	r.Run, r.steps = run, run.Recipe.Evaluation.Steps
	if o.Steps != nil {
		r.steps = min(r.steps, *o.Steps)
	}
	if r.tasks, err = heldOut(ctx, run.Run); err != nil {
		return r, err
	}
	if r.drawn, r.scored, err = measuredBy(run.method); err != nil {
		return r, err
	}
	rows := measure.Of(run.Run)
	r.measured = map[int]evaluation{}
	for _, version := range run.Graph.EvaluatedVersions() {
		answers, err := rows.Answers(ctx, version)
		if err != nil {
			return r, err
		}
		answers = slices.DeleteFunc(answers, func(a measure.Answer) bool { return a.Set != string(env.Test) })
		e := evaluation{Version: measure.VersionOf(version, answers, r.steps)}
		if len(e.AccuracyByStep) == 0 {
			return r, exitcode.Dataf("the evaluation of policy v%06d in %q has no first answer that counts", version, r.Dir)
		}
		e.first, e.problems = measure.ByProblem(answers, 0), measure.ByProblem(answers, len(e.AccuracyByStep)-1)
		r.measured[version] = e
	}
	for _, name := range o.Measures {
		value, _, err := rows.Number(ctx, name, measure.Span{First: 1})
		n := number{value: value}
		if errors.Is(err, measure.ErrUnmeasured) {
			n.why = err.Error()
		} else if err != nil {
			return r, err
		}
		r.numbers = append(r.numbers, n)
	}
	if r.costs, err = measure.ReadCosts(ctx, run.Run); err != nil {
		return r, err
	}
	r.joules, err = efficiency.JoulesByIteration(ctx, run.Run)
	return r, err
}

// heldOut is the digest of the tasks of the test split, by which runs are compared.
func heldOut(ctx context.Context, r *rundir.Run) (string, error) {
	h := sha256.New()
	for row, err := range shard.Rows[shard.TaskRow](ctx, r.Dir.Tasks(), r.Graph.Reading(0)) {
		if err != nil {
			return "", err
		}
		if row.Split != string(env.Test) {
			continue
		}
		if err := json.NewEncoder(h).Encode(row); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
