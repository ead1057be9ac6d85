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
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// finished is what is read of a run that is done.
type finished struct {
	folder   string
	identity rundir.Identity
	recipe   recipe.Recipe
	method   string             // the recipe as text, without what tells seeds and names apart
	tasks    string             // sha256 of the held-out tasks
	measured map[int]evaluation // by policy version
	summary  report.Summary     // of which the times and the tokens are taken, and no score
}

// evaluation is the scores of a policy version, by self-improvement step.
type evaluation struct {
	mean     []float64            // of all answers
	problems map[string][]float64 // of each held-out problem that has answers at every step
}

// last is the evaluation of the run's last policy, first that of the one it began with.
func (r finished) last() evaluation  { return r.measured[r.recipe.Schedule.Iterations] }
func (r finished) first() evaluation { return r.measured[0] }

// runsIn lists the runs that a folder is or holds, at any depth, sorted.
func runsIn(folder string) ([]string, error) {
	var runs []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if _, err := os.Lstat(graph.Dir(path).Identity()); err == nil {
			runs = append(runs, path)
			return fs.SkipDir
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exitcode.Usagef("there is no folder %q", folder)
	case err != nil:
		return nil, err
	case len(runs) == 0:
		return nil, exitcode.Usagef("folder %q is no run and holds none: there is no run.json", folder)
	}
	return runs, nil
}

// read reads a run. done is false for one that has something left to do.
func read(ctx context.Context, folder string) (r finished, done bool, err error) {
	opened, err := rundir.Open(ctx, graph.Dir(folder))
	if err != nil {
		return r, false, err
	}
	r.folder, r.identity, r.recipe = folder, opened.Identity, opened.Recipe
	if r.summary, err = summaryOf(ctx, opened); err != nil || r.summary.State != "done" {
		return r, false, err
	}
	plain := opened.Recipe
	plain.Seed, plain.Name, plain.Description = 0, "", ""
	r.method = string(recipe.Write(&plain))
	if r.tasks, err = heldOut(ctx, opened); err != nil {
		return r, false, err
	}
	r.measured = map[int]evaluation{}
	for _, version := range opened.Graph.EvaluatedVersions() {
		if r.measured[version], err = evaluationOf(ctx, opened, version); err != nil {
			return r, false, err
		}
	}
	return r, true, nil
}

// summaryOf is the report's summary of a run: the one that was written when it was
// done, which does not change any more, or a new one.
func summaryOf(ctx context.Context, r *rundir.Run) (report.Summary, error) {
	var written report.Summary
	content, err := os.ReadFile(r.Dir.Join("report", "summary.json"))
	if err == nil && json.Unmarshal(content, &written) == nil && written.RunID == r.Identity.RunID && written.State == "done" {
		return written, nil
	}
	return report.Collect(ctx, r)
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
	steps := r.Recipe.Evaluation.Steps + 1
	e := evaluation{make([]float64, steps), map[string][]float64{}}
	answers, counts := make([]float64, steps), map[string][]float64{}
	for n := range r.Graph.Shards(graph.Node{Stage: graph.StageEvaluate, Iteration: version}) {
		for row, err := range shard.Rows[evaluated](ctx, r.Dir.Evaluation(version, n), r.Graph.Reading(0)) {
			if err != nil {
				return e, err
			}
			if row.Sample < 0 || cmp.Or(row.Set, string(env.Test)) != string(env.Test) || int(row.Step) >= steps || !shard.Outcome(row.Outcome).Policys() {
				continue
			}
			if e.problems[row.TaskID] == nil {
				e.problems[row.TaskID], counts[row.TaskID] = make([]float64, steps), make([]float64, steps)
			}
			e.mean[row.Step] += row.Score
			answers[row.Step]++
			e.problems[row.TaskID][row.Step] += row.Score
			counts[row.TaskID][row.Step]++
		}
	}
	if slices.Contains(answers, 0) {
		return e, exitcode.Dataf("the evaluation of policy v%06d in %q has a step without an answer that counts", version, r.Dir)
	}
	for step := range e.mean {
		e.mean[step] /= answers[step]
	}
	for task, means := range e.problems {
		if slices.Contains(counts[task], 0) {
			delete(e.problems, task) // some step has failures of ours alone
			continue
		}
		for step := range means {
			means[step] /= counts[task][step]
		}
	}
	return e, nil
}

// newTokens is the length that answers are cut at: without one of its own, that of
// rollouts.
func newTokens(r recipe.Recipe) int { return cmp.Or(r.Evaluation.MaxNewTokens, r.Rollout.MaxNewTokens) }

// incomparable says in what two runs cannot be compared; empty if they can.
func incomparable(a, b finished) string {
	for _, c := range []struct {
		what string
		a, b any
	}{
		{"environment", a.recipe.Env.Name, b.recipe.Env.Name},
		{"evaluation.steps (K)", a.recipe.Evaluation.Steps, b.recipe.Evaluation.Steps},
		{"evaluation.samples", a.recipe.Evaluation.Samples, b.recipe.Evaluation.Samples},
		{"evaluation.temperature", a.recipe.Evaluation.Temperature, b.recipe.Evaluation.Temperature},
		{"evaluation.top_k", a.recipe.Evaluation.TopK, b.recipe.Evaluation.TopK},
		{"evaluation.top_p", a.recipe.Evaluation.TopP, b.recipe.Evaluation.TopP},
		{"evaluation.max_new_tokens", newTokens(a.recipe), newTokens(b.recipe)},
		{"evaluation.seconds", a.recipe.Evaluation.Seconds, b.recipe.Evaluation.Seconds},
		{"evaluation.scaffold", a.recipe.Evaluation.Scaffold, b.recipe.Evaluation.Scaffold},
		{"number of held-out problems", a.recipe.Evaluation.Problems, b.recipe.Evaluation.Problems},
	} {
		if c.a != c.b {
			return fmt.Sprintf("%s is %v and %v", c.what, c.a, c.b)
		}
	}
	if a.recipe.Seed == b.recipe.Seed && a.tasks != b.tasks {
		return fmt.Sprintf("with seed %d both, the held-out problems are others (sha256 %.12s and %.12s)", a.recipe.Seed, a.tasks, b.tasks)
	}
	return ""
}
