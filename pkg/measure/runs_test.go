package measure

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// file is a sealed file or folder of a run in testdata.
type file struct {
	Path           string // in the run
	Name           string // of a folder's file, where it is not that of weights
	Host           string
	Attempt        int
	From, To       float64 // seconds of the tests' clock
	Metrics, Usage map[string]float64
	Notes          map[string]json.RawMessage
	Rows           json.RawMessage // of a table
	JSON           json.RawMessage // of a document
}

func table[R shard.Row](path string, rows json.RawMessage, a seal.Attempt, m seal.Manifest) error {
	var of []R
	err := json.Unmarshal(rows, &of)
	if err == nil {
		_, err = shard.Write(path, of, nil, a, m)
	}
	return err
}

// tables are the kinds of rows, by the end of a path in the run, of its file or folder.
var tables = map[string]func(path string, rows json.RawMessage, a seal.Attempt, m seal.Manifest) error{
	"tasks.parquet": table[shard.TaskRow], "plan.parquet": table[shard.Instance], "rollout": table[shard.Rollout], "score": table[shard.Score],
	"ledger.parquet": table[shard.LedgerRow], "state.parquet": table[shard.Entry], "stats.parquet": table[shard.Stat],
}

// sealed writes the run of a file in testdata: a line for the settings of its recipe and
// its identity, and one for each file.
func sealed(t *testing.T, lines *bufio.Scanner) *rundir.Run {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var of struct {
		Settings []string
		Identity rundir.Identity
	}
	lines.Scan()
	check(json.Unmarshal(lines.Bytes(), &of))
	dir := graph.Dir(filepath.Join(t.TempDir(), "run"))
	resolved, err := recipe.Load(filepath.Join("testdata", "recipe.yaml"), of.Settings)
	check(err)
	g := graph.Graph{Dir: dir, Recipe: resolved.Recipe, RunID: "r", RecipeSHA256: "recipe"}
	of.Identity.RunID, of.Identity.RecipeSHA256 = g.RunID, g.RecipeSHA256
	if p := of.Identity.Pool; p != nil {
		p.Path = dir.Join(p.Path)
	}
	for lines.Scan() {
		var f file
		check(json.Unmarshal(lines.Bytes(), &f))
		path := dir.Join(strings.Split(f.Path, "/")...)
		task, known := g.TaskOf(path)
		if !known && strings.Contains(f.Path, "/") {
			t.Fatalf("no task makes %s", f.Path)
		}
		m := g.Expected(task)
		m.Started, m.Metrics, m.Usage, m.Notes = second(f.From), f.Metrics, f.Usage, f.Notes
		a := seal.Attempt{Host: f.Host, Number: f.Attempt, Clock: second(f.To).Local}
		check(os.MkdirAll(filepath.Dir(path), 0o777))
		write, named := tables[filepath.Base(path)]
		if !named {
			write, named = tables[filepath.Base(filepath.Dir(path))]
		}
		switch {
		case f.JSON != nil || filepath.Ext(path) == ".arrow":
			_, err = seal.WriteBytes(path, f.JSON, a, m)
		case named:
			err = write(path, f.Rows, a, m)
		case filepath.Ext(path) == ".parquet":
			err = table[shard.EvaluationRow](path, f.Rows, a, m)
		default:
			w, made := seal.CreateFolder(path, a)
			check(made)
			check(os.WriteFile(filepath.Join(w.Path(), cmp.Or(f.Name, "model.safetensors")), []byte(f.Path), 0o666))
			_, err = w.Commit(m)
		}
		check(err)
	}
	check(lines.Err())
	return &rundir.Run{Dir: dir, Identity: of.Identity, Recipe: g.Recipe, Graph: g}
}

// told are all numbers of a run: the tables, the summary, the metrics of tasks and the costs.
func told(t *testing.T, r *rundir.Run) string {
	t.Helper()
	var out bytes.Buffer
	rows := Of(r)
	for _, m := range All {
		versions := r.Graph.EvaluatedVersions()
		switch {
		case m.training == nil && m.heldOut == nil:
			continue
		case !m.HeldOut():
			versions = []int{r.Recipe.Schedule.Iterations}
		}
		for _, version := range versions {
			values, err := m.Of(t.Context(), rows, version)
			fmt.Fprintf(&out, "%s of v%d: %v\n", m.Name, version, err)
			for _, v := range values {
				x := ""
				if v.X != nil {
					x = fmt.Sprintf(" at %g", *v.X)
				}
				fmt.Fprintf(&out, "\t%s %s %s%s: %.9g\n", v.By, v.Group, v.Column, x, v.Y)
			}
		}
	}
	s, err := rows.Summary(t.Context())
	costs, err2 := ReadCosts(t.Context(), r)
	fmt.Fprintf(&out, "summary and costs: %v\n", errors.Join(err, err2))
	s.Composition = nil // pkg/recipe has it
	for _, v := range []any{s, costs, s.Unmeasured} {
		text, err := json.MarshalIndent(v, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n", text)
	}
	for k := range r.Recipe.Schedule.Iterations + 1 {
		metrics, usage, err := Metrics(t.Context(), r, k)
		if err != nil {
			t.Fatal(err)
		}
		_, err = seal.Read(t.Context(), r.Dir.Metrics(k), r.Graph.Reading(0))
		fmt.Fprintf(&out, "metrics of %d, sealed %v: %v\nusage: %v\n", k, err == nil, metrics, usage)
	}
	timeouts, err := rows.Timeouts(t.Context())
	fmt.Fprintf(&out, "%d timeouts, %v\n", timeouts, err)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		n, happened, err := rows.Number(t.Context(), path, paths[path])
		fmt.Fprintf(&out, "%s of %v: %.9g, %v, %v\n", path, paths[path], n, happened, err)
	}
	rows.Forget()
	prompts, err := rows.Prompts(t.Context())
	fmt.Fprintf(&out, "prompts %q, %v\n", prompts, err)
	return strings.ReplaceAll(out.String(), string(r.Dir), "RUN")
}

// paths are of single numbers.
var paths = map[string]Span{
	"transitions.f2s": {1, 1}, "kinds.reward.improve": {2, 0}, "accuracy_by_step.accuracy.test": {1, 0}, "programs.score_or_minus_10": {1, 0},
	"accuracy_by_step.0": {1, 0}, "score/responses": {1, 0}, "score/none per score/responses": {1, 2}, "delta_k": {1, 0}, "corrections.net": {1, 0},
	"transitions.none": {1, 2}, "best_by_step.quality": {1, 0},
}

// Runs of a few numbers each, so small that each can be worked out on paper; what they
// come to stands beside them. analysis/*.sql, which pkg/paper holds to the same
// measures, is the other way to ask.
func TestRuns(t *testing.T) {
	t.Parallel()
	runs, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	if err != nil || len(runs) == 0 {
		t.Fatal(runs, err)
	}
	for _, path := range runs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(bytes.NewReader(content))
			lines.Buffer(nil, len(content)+1)
			golden.Check(t, strings.TrimSuffix(path, ".jsonl")+".txt", told(t, sealed(t, lines)))
		})
	}
}

// Of an iteration's learn tasks the last makes its policy version, also where gradients are
// computed by one task and applied by several.
func TestIsLast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gradients int
		apply     recipe.ApplyShards
		want      [2]bool // of the tasks of two optimizer steps
	}{
		"one task":            {1, 1, [2]bool{true, true}}, // which has no other step
		"gradients in shards": {2, 1, [2]bool{false, true}},
		"applied in parts":    {1, 2, [2]bool{false, true}},
	} {
		var r recipe.Recipe
		r.Loss.Epochs, r.Loss.MiniBatches, r.Schedule.GradientShards, r.Schedule.ApplyShards = 2, 1, c.gradients, c.apply
		for step, want := range c.want {
			task := finishedTask{Task: graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1, Step: step}}}
			if got := isLast(graph.Graph{Recipe: r}, task); got != want {
				t.Errorf("%s: step %d is the last: %v", name, step, got)
			}
		}
	}
}
