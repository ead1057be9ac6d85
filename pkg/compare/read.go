package compare

import (
	"cmp"
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
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/seal"
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
	tasks    string             // sha256 of the held-out tasks
	drawn    map[string]string  // settings that say which these are, by their path
	judged   map[string]string  // settings that say what an answer scores
	measured map[int]evaluation // by policy version
	costs    report.Costs
	joules   map[int]float64 // of the GPUs, by iteration; without those of which it is not known
}

// evaluation is the scores of a policy version, by self-improvement step: those before
// the first step at which no prompt left room for an answer.
type evaluation struct {
	mean     []float64            // of all answers
	delta    *float64             // after step K less at step 0, of the chains that have both; nil for none
	problems map[string][]float64 // of each held-out problem, of its chains that have all of these steps
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

// measure reads the evaluations of a run, and what it took.
func measure(ctx context.Context, run Run) (r finished, err error) {
	r.Run = run
	if r.tasks, err = heldOut(ctx, run.Run); err != nil {
		return r, err
	}
	if r.drawn, r.judged, err = measuredBy(run.method); err != nil {
		return r, err
	}
	r.measured = map[int]evaluation{}
	for _, version := range run.Graph.EvaluatedVersions() {
		if r.measured[version], err = evaluationOf(ctx, run.Run, version); err != nil {
			return r, err
		}
	}
	if r.costs, err = report.ReadCosts(ctx, run.Run); err != nil {
		return r, err
	}
	r.joules, err = efficiency.JoulesByIteration(ctx, run.Run)
	return r, err
}

// heldOut is the digest of the tasks that a run is measured on.
func heldOut(ctx context.Context, r *rundir.Run) (string, error) {
	h := sha256.New()
	for row, err := range shard.Rows[shard.TaskRow](ctx, r.Dir.Tasks(), r.Graph.Reading(0)) {
		if err != nil {
			return "", err
		}
		if row.Split == string(env.Train) {
			continue
		}
		if err := json.NewEncoder(h).Encode(row); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// evaluated is what is read of a row of an evaluation.
type evaluated struct {
	TaskID  string  `parquet:"task_id"`
	Set     string  `parquet:"set,dict"`
	Sample  int32   `parquet:"sample"`
	Step    int32   `parquet:"step"`
	Score   float64 `parquet:"score"`
	Outcome string  `parquet:"outcome,dict"`
}

// Schema is that of the whole row.
func (evaluated) Schema() seal.Schema { return shard.EvaluationRow{}.Schema() }

// evaluationOf reads the evaluation of a policy version, of the test split.
func evaluationOf(ctx context.Context, r *rundir.Run, version int) (evaluation, error) {
	type chain struct {
		task   string
		sample int32
	}
	steps := r.Recipe.Evaluation.Steps + 1
	scores, order := map[chain][]*float64{}, []chain{}
	for n := range r.Graph.Shards(graph.Node{Stage: graph.StageEvaluate, Iteration: version}) {
		for row, err := range shard.Rows[evaluated](ctx, r.Dir.Evaluation(version, n), r.Graph.Reading(0)) {
			if err != nil {
				return evaluation{}, err
			}
			if row.Sample < 0 || cmp.Or(row.Set, string(env.Test)) != string(env.Test) || int(row.Step) >= steps || !shard.Outcome(row.Outcome).Policys() {
				continue
			}
			of := chain{row.TaskID, row.Sample}
			if scores[of] == nil {
				scores[of], order = make([]*float64, steps), append(order, of)
			}
			scores[of][row.Step] = &row.Score
		}
	}
	// mean is that of a step over the chains that have all of some steps; none is not known.
	mean := func(step int, having ...int) (m float64, known bool) {
		n := 0.0
		for _, of := range order {
			if !slices.ContainsFunc(having, func(step int) bool { return scores[of][step] == nil }) {
				m += *scores[of][step]
				n++
			}
		}
		return m / n, n > 0
	}
	e := evaluation{problems: map[string][]float64{}}
	for step := range steps {
		m, known := mean(step, step)
		if !known {
			break
		}
		e.mean = append(e.mean, m)
	}
	if len(e.mean) == 0 {
		return e, exitcode.Dataf("the evaluation of policy v%06d in %q has no first answer that counts", version, r.Dir)
	}
	if last := steps - 1; last > 0 {
		if after, known := mean(last, 0, last); known {
			before, _ := mean(0, 0, last)
			delta := after - before
			e.delta = &delta
		}
	}
	counts := map[string]float64{}
	for _, of := range order {
		whole := scores[of][:len(e.mean)]
		if slices.Contains(whole, nil) {
			continue
		}
		if e.problems[of.task] == nil {
			e.problems[of.task] = make([]float64, len(e.mean))
		}
		for step, score := range whole {
			e.problems[of.task][step] += *score
		}
		counts[of.task]++
	}
	for task, means := range e.problems {
		for step := range means {
			means[step] /= counts[task]
		}
	}
	return e, nil
}
