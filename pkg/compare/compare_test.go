package compare

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/webpage/webpagetest"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// made writes a run that is done as far as a comparison looks: its recipe, tasks and
// last evaluation, and an iteration an hour, of rollouts that overlap and 2.25 s in all.
// score gives that of a problem at a step.
func made(t testing.TB, folder string, score func(problem, step int) float64, settings ...string) {
	t.Helper()
	madeTaking(t, "", folder, score, settings...)
}

// madeTaking writes a run that takes the scores of another.
func madeTaking(t testing.TB, scores, folder string, score func(problem, step int) float64, settings ...string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	resolved, err := recipe.Load("../../jobs/smoke.yaml", append([]string{"evaluation.shards=1"}, settings...))
	check(err)
	attempt := seal.AttemptFromEnv()
	r, err := rundir.CreateWithScores(t.Context(), graph.Dir(folder), resolved, scores, attempt, "test")
	check(err)
	at := func(hour int, seconds float64) time.Time {
		return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	}
	// A task seals what it makes after some seconds of an hour.
	task := func(stage graph.Stage, k, shard int, from, to float64, metrics map[string]float64) {
		t.Helper()
		done := graph.Task{Node: graph.Node{Stage: stage, Iteration: k}, Shard: shard}
		for _, path := range r.Graph.Outputs(done) {
			m := r.Graph.Expected(done)
			m.Started, m.Metrics = at(k, from), metrics
			w, err := seal.CreateFolder(path, seal.Attempt{Host: "a", Clock: func() time.Time { return at(k, to) }})
			check(err)
			_, err = w.Commit(m)
			check(err)
		}
	}
	e := r.Recipe.Evaluation
	for _, version := range r.Graph.EvaluatedVersions() {
		var rows []shard.EvaluationRow
		for problem := range e.Problems {
			for step := range e.Steps + 1 {
				for sample := range e.Samples {
					row := shard.EvaluationRow{
						TaskID: fmt.Sprintf("p%03d", problem), Set: "test", PolicyVersion: int32(version), Sample: int32(sample), Step: int32(step), Outcome: string(shard.OutcomeOK),
					}
					if version > 0 {
						row.Score = score(problem, step)
					}
					if math.IsNaN(row.Score) {
						row.Score, row.Outcome = 0, string(shard.OutcomeNoRoom)
					}
					rows = append(rows, row)
				}
			}
		}
		m := r.Graph.Expected(graph.Task{Node: graph.Node{Stage: graph.StageEvaluate, Iteration: version}})
		m.Started = at(version, 3)
		_, err = shard.Write(r.Dir.Evaluation(version, 0), rows, nil, seal.Attempt{Host: "a", Clock: func() time.Time { return at(version, 4) }}, m)
		check(err)
	}
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
		task(graph.StageRollout, k, 0, 0, 1, map[string]float64{"response_tokens": 100})
		task(graph.StageRollout, k, 1, 0, 1.5, map[string]float64{"response_tokens": 220})
		task(graph.StageScore, k, 0, 1, 2, nil)
		task(graph.StageScore, k, 1, 1.5, 2, nil)
		check(closing.Seal(r, closing.Closing{Iteration: k, Shards: 2, Included: []int{0, 1}}, attempt, "test"))
		task(graph.StageBuffer, k, 0, 1.75, 2, nil)
		task(graph.StageLearn, k, 0, 2, 2.25, nil)
	}
}

// halves is 1 for even problems at first, and one more of four at each step.
func halves(problem, step int) float64 {
	if problem%4 < 2+step {
		return 1
	}
	return 0
}

func quarters(problem, _ int) float64 {
	if problem%4 < 1 {
		return 1
	}
	return 0
}

// cramped has room for a revision in the problems of one kind of four alone, where it is
// halves.
func cramped(problem, step int) float64 {
	if step > 0 && problem%4 != 2 {
		return math.NaN()
	}
	return halves(problem, step)
}

// filled has room for no revision.
func filled(problem, step int) float64 {
	if step > 0 {
		return math.NaN()
	}
	return halves(problem, step)
}

func compared(t *testing.T, o Options, folders ...string) Comparison {
	t.Helper()
	c, err := Runs(t.Context(), folders, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Two methods of two seeds, in whatever order they are named; by hand: first answers
// are right in a half and in a quarter of 16 problems, and after a step in three
// quarters and a quarter.
func TestCompare(t *testing.T) {
	t.Parallel()
	sweep := t.TempDir()
	for _, seed := range []string{"1", "2"} {
		made(t, filepath.Join(sweep, "a", seed), halves, "seed="+seed)
		made(t, filepath.Join(sweep, "b", seed), quarters, "seed="+seed, "curriculum.name=uniform", "factors=[]")
	}
	o := Options{Resamples: 500, Seed: 1}
	c := compared(t, o, sweep)
	var again Comparison
	for _, folders := range [][]string{{filepath.Join(sweep, "b"), filepath.Join(sweep, "a")}, {filepath.Join(sweep, "b", "2"), filepath.Join(sweep, "a", "1"), filepath.Join(sweep, "b", "1"), filepath.Join(sweep, "a", "2")}} {
		if again = compared(t, o, folders...); !cmp.Equal(c, again) {
			t.Errorf("in another order:\n%s", cmp.Diff(c, again))
		}
	}
	exit, uniform := c.Methods[0], c.Methods[1]
	if exit.Label != "smoke" || !strings.Contains(uniform.Label, "curriculum.name=uniform") {
		exit, uniform = uniform, exit
	}
	if exit.After[0].Mean != .5 || exit.After[1].Mean != .75 || exit.Delta.Mean != .25 || uniform.After[1].Mean != .25 || *exit.Delta.Std != 0 || exit.Gain.Mean != .5 {
		t.Errorf("means %+v, %+v", exit, uniform)
	}
	if begun, done := exit.Curve[0], exit.Curve[1]; begun.Tokens.Mean != 0 || begun.Seconds.Mean != 0 || done.Tokens.Mean != 2*320 || done.Seconds.Mean != 2*2.25 {
		t.Errorf("curve %+v: want 640 tokens and 4.5 s in two iterations", exit.Curve)
	}
	// A quarter of 16 problems gain 1, the others nothing: a variance of 16·¼·¾/15 = 0.2.
	if s := exit.BySeed[1]; s.Seed != 2 || s.After[1] != .75 || *s.DeltaK != .25 || math.Abs(*s.DeltaKStandardError-math.Sqrt(.2/16)) > 1e-12 {
		t.Errorf("seed 2 by itself: %+v", s)
	}
	against := c
	if c.Baseline != "smoke" {
		o.Baseline = "smoke"
		against = compared(t, o, sweep)
	}
	d := against.Methods[1].FirstAnswers
	if d == nil {
		d = against.Methods[0].FirstAnswers
	}
	if d == nil || d.Mean != -.25 || d.Seeds != 2 || d.Problems != 32 || d.Dominance != -1 || d.High >= 0 {
		t.Errorf("first answers against the baseline: %+v", d)
	}
	var text, table bytes.Buffer
	if err := Text(&text, c); err != nil {
		t.Fatal(err)
	}
	if err := CSV(&table, c); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/compare.txt", text.Bytes())
	golden.Check(t, "testdata/compare.csv", table.Bytes())
	page := t.TempDir()
	if err := Write(page, c); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(filepath.Join(page, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"<script", "http://", "https://", "url("} {
		if bytes.Contains(html, []byte(forbidden)) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	for _, name := range []string{"by_step.svg", "by_step.png"} {
		if _, err := os.Stat(filepath.Join(page, "figures", name)); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(page, "figures", "by_iteration.*")); left != nil {
		t.Errorf("before and after training are drawn as a curve: %v", left)
	}
	if _, err := Runs(t.Context(), []string{sweep}, Options{Resamples: 10, Baseline: "other"}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a baseline that there is not: %v", err)
	}
}

// Versions between the first and the last make curves.
func TestCurves(t *testing.T) {
	t.Parallel()
	run, page := t.TempDir(), t.TempDir()
	made(t, filepath.Join(run, "run"), halves, "evaluation.every=1")
	if err := Write(page, compared(t, Options{Resamples: 10}, run)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"by_iteration.svg", "by_token.png", "by_second.svg"} {
		if _, err := os.Stat(filepath.Join(page, "figures", name)); err != nil {
			t.Error(err)
		}
	}
}

// Nothing of the page is cut off, with methods whose names are long.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	sweep, page := t.TempDir(), t.TempDir()
	for _, rate := range []string{"3e-4", "1e-3"} {
		for _, seed := range []string{"1", "2"} {
			made(t, filepath.Join(sweep, rate, strings.Repeat("folder", 20), seed), halves, "seed="+seed, "optimizer.learning_rate="+rate, "curriculum.exit.buffer_size=1"+rate[:1], "name=a-method-with-quite-a-long-name")
		}
	}
	if err := Write(page, compared(t, Options{Resamples: 10}, sweep)); err != nil {
		t.Fatal(err)
	}
	webpagetest.Check(t, filepath.Join(page, "index.html"))
}

// TestNoRoom: a revision that no prompt left room for is not known, and Δ is of the chains
// that have both answers: of the four problems with room, all wrong at first, all are right
// after the step, while first answers are right in a half of the sixteen.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	sweep := t.TempDir()
	made(t, filepath.Join(sweep, "cramped"), cramped, "name=cramped")
	made(t, filepath.Join(sweep, "filled"), filled, "name=filled")
	c := compared(t, Options{Resamples: 100, Seed: 1}, sweep)
	some, none := c.Methods[0], c.Methods[1]
	if some.After[0].Mean != .5 || some.After[1].Mean != 1 || some.Delta == nil || some.Delta.Mean != 1 || some.BySeed[0].DeltaKStandardError != nil {
		t.Errorf("with room in four problems: %+v", some)
	}
	if len(none.After) != 1 || none.Delta != nil || none.BySeed[0].DeltaK != nil || none.LastAnswers != nil || none.DeltaK != nil || none.FirstAnswers == nil {
		t.Errorf("without room: %+v", none)
	}
	if d := none.FirstAnswers; d.Mean != 0 || d.Dominance != 0 || d.Problems != 16 {
		t.Errorf("equal first answers to 16 problems, whatever room they left: %+v", d)
	}
	var text, table bytes.Buffer
	if err := Text(&text, c); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "not known") || !strings.Contains(text.String(), "filled has a run without an answer after revision 1") {
		t.Errorf("the text hides what is not known:\n%s", text.String())
	}
	if err := CSV(&table, c); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table.String(), "filled,delta_k,") || strings.Contains(table.String(), "filled,after,1") {
		t.Errorf("the table has numbers that were not measured:\n%s", table.String())
	}
	if err := Write(t.TempDir(), c); err != nil {
		t.Fatal(err)
	}
}

// A run that takes the scores of another waits for no scoring: its time is not that of
// its method, and the rest is.
func TestTakenScoresHaveNoTime(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	made(t, first, halves)
	madeTaking(t, first, second, halves, "seed=2")
	for _, folders := range [][]string{{second}, {first, second}} {
		c := compared(t, Options{Resamples: 10}, folders...)
		m := c.Methods[0]
		if m.Seconds != nil || m.Curve[1].Seconds != nil || m.Curve[1].Tokens.Mean != 2*320 || m.Gain.Mean != .5 {
			t.Errorf("of %d runs: %+v", len(folders), m)
		}
		var text, table bytes.Buffer
		if err := errors.Join(Text(&text, c), CSV(&table, c)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "not known") || strings.Contains(table.String(), "wall_seconds") {
			t.Errorf("of %d runs: %s\n%s", len(folders), text.String(), table.String())
		}
	}
}

// What cannot be compared is refused, and says why.
func TestIncomparable(t *testing.T) {
	t.Parallel()
	first, unfinished := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "unfinished")
	made(t, first, halves)
	made(t, unfinished, halves, "schedule.staleness=1")
	if err := os.Remove(seal.ManifestPath(graph.Dir(unfinished).Policy(2))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"evaluation.steps=2"}, "evaluation.steps (K) is 1 and 2"},
		{[]string{"evaluation.samples=3"}, "evaluation.samples is 2 and 3"},
		{[]string{"evaluation.top_k=5"}, "evaluation.top_k is 0 and 5"},
		{[]string{"evaluation.top_p=0.5"}, "evaluation.top_p is 1 and 0.5"},
		{[]string{"rollout.max_new_tokens=5"}, "evaluation.max_new_tokens is 6 and 5"},
		{[]string{"rollout.max_new_tokens_by_turn=[6, 5]"}, "evaluation.max_new_tokens is 6 and 6 5"},
		{[]string{"evaluation.seconds=9"}, "evaluation.seconds is 0 and 9"},
		{[]string{"evaluation.problems=8"}, "number of held-out problems is 16 and 8"},
		{[]string{"data.test.generate.levels=[2]", "data.train.generate.levels=[2]"}, "the held-out problems are others"},
		{[]string{"seed=2", "data.test.generate.levels=[2]", "data.train.generate.levels=[2]"}, "the held-out problems are drawn from others: data.test.generate.levels is [1] and [2]"},
		{[]string{"env.answer.extract=last"}, "answers are scored in another way: env.answer.extract is whole and last"},
		{nil, "are of one recipe and seed"},
	} {
		second := filepath.Join(t.TempDir(), "second")
		made(t, second, halves, c.settings...)
		_, err := Runs(t.Context(), []string{first, second}, Options{Resamples: 10})
		if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), second) {
			t.Errorf("%v: %v; want %q", c.settings, err, c.want)
		}
	}
	// Runs of one revision and of two have first answers in common, and one revision.
	longer := filepath.Join(t.TempDir(), "longer")
	made(t, longer, halves, "evaluation.steps=2")
	for steps, gain := range []float64{0.5, 0.75} {
		c := compared(t, Options{Resamples: 10, Steps: &steps}, first, longer)
		if last := c.Methods[1].After; c.Steps != steps || len(last) != steps+1 || last[steps].Mean != gain {
			t.Errorf("up to revision %d: %+v", steps, c.Methods[1])
		}
	}
	if _, err := Runs(t.Context(), []string{first, longer}, Options{Resamples: 10}); !strings.Contains(strings.Join(exitcode.Hints(err), ""), "--steps 0 compares first answers alone, --steps 1 all that both have") {
		t.Errorf("%v with hints %q", err, exitcode.Hints(err))
	}
	for _, c := range []struct {
		folders []string
		want    string
	}{
		{[]string{first, first}, "are one run"},
		{[]string{t.TempDir()}, "is no run and holds none"},
		{[]string{filepath.Join(first, "nothing")}, "there is no folder"},
		{[]string{unfinished}, "none of the runs is done"},
	} {
		if _, err := Runs(t.Context(), c.folders, Options{Resamples: 10}); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v; want %q", c.folders, err, c.want)
		}
	}
	// Where a run has lost what a curve is drawn over, the curve is not known, and all else is.
	if err := os.Remove(seal.ManifestPath(graph.Dir(first).Rollout(1, 1))); err != nil {
		t.Fatal(err)
	}
	if c := compared(t, Options{Resamples: 10}, first); c.Methods[0].Curve[1].Tokens != nil || c.Methods[0].Curve[1].Seconds != nil || c.Methods[0].Gain.Mean != .5 {
		t.Errorf("with a lost manifest: %+v", c.Methods[0])
	}
	if c := compared(t, Options{Resamples: 10}, first, unfinished); len(c.Unfinished) != 1 || len(c.Methods) != 1 {
		t.Errorf("beside a run that is not done: %+v", c)
	}
	// Other seeds may have drawn other problems: both are compared, and nothing is paired.
	other := filepath.Join(t.TempDir(), "other")
	made(t, other, quarters, "seed=2", "optimizer.learning_rate=1e-2")
	if c := compared(t, Options{Resamples: 10}, first, other); c.Methods[1].FirstAnswers != nil || len(c.notes()) != 1 {
		t.Errorf("without a seed in common: %+v", c)
	}
}

// What the GPUs took is known up to an iteration of which nothing is known.
func TestJoules(t *testing.T) {
	t.Parallel()
	r := finished{joules: map[int]float64{1: 5, 2: 7, 4: 1}}
	for version, want := range map[int]float64{0: 0, 1: 5, 2: 12, 3: -1, 4: -1} {
		if got, known := r.joulesUntil(version); known != (want >= 0) || known && got != want {
			t.Errorf("until version %d: %v, %v; want %v", version, got, known, want)
		}
	}
	if _, known := (finished{}).joulesUntil(0); known {
		t.Error("a run without samples has a known energy")
	}
	c := Comparison{Methods: []Method{{Label: "a", Curve: []Point{{Joules: &Spread{Mean: 12000}}}}, {Label: "b", Curve: []Point{{}}}}}
	rows := c.costRows()
	if head, a, b := rows[0], rows[1], rows[2]; head[4] != "energy of GPUs" || a[4] != "12 kJ" || b[4] != "not known" {
		t.Errorf("the table is %v", rows)
	}
}

// Where all runs have the same tasks, a problem without an answer in one of them is not
// drawn for any; where seeds have their own, it is left out of its seed alone.
func TestPaired(t *testing.T) {
	t.Parallel()
	run := func(seed uint64, tasks string, scores map[string][]float64) finished {
		return finished{Run: Run{Run: &rundir.Run{Recipe: recipe.Recipe{Seed: seed}}}, tasks: tasks, measured: map[int]evaluation{0: {problems: scores}}}
	}
	first := func(s []float64) float64 { return s[0] }
	for _, c := range []struct {
		tasks  string // of the second seed
		want   [][]float64
		shared bool
	}{
		{"same", [][]float64{{.5}, {0}}, true},
		{"others", [][]float64{{.5, 1}, {0}}, false},
	} {
		method := []finished{run(1, "same", map[string][]float64{"a": {1}, "b": {1}}), run(2, c.tasks, map[string][]float64{"a": {1}})}
		baseline := []finished{
			run(1, "same", map[string][]float64{"a": {.5}, "b": {0}}), run(2, c.tasks, map[string][]float64{"a": {1}, "b": {0}}),
			run(3, "unpaired", map[string][]float64{"a": {0}}),
		}
		if got, shared := paired(method, baseline, func(r finished) map[string][]float64 { return r.last().problems }, first); !cmp.Equal(got, c.want) || shared != c.shared {
			t.Errorf("tasks %q: %v, shared %v; want %v, %v", c.tasks, got, shared, c.want, c.shared)
		}
	}
}

// Measures that are asked for are taken of each run, and set against the baseline seed by
// seed: in 16 problems of two samples, eight chains end with a better score by
// halves and none by quarters, with each of two seeds.
func TestMeasures(t *testing.T) {
	t.Parallel()
	sweep := t.TempDir()
	for _, seed := range []string{"1", "2"} {
		made(t, filepath.Join(sweep, "a", seed), halves, "seed="+seed)
		made(t, filepath.Join(sweep, "b", seed), quarters, "seed="+seed, "name=other")
	}
	c := compared(t, Options{Resamples: 10, Baseline: "other", Measures: []string{"net_corrections.net_improvements", "net_corrections.net_improvements.test", "net_corrections.others"}}, sweep)
	for _, m := range c.Methods {
		want := 8.
		if m.Label == "other" {
			want = 0
		}
		for _, of := range m.Measures[:2] {
			if of.Spread == nil || of.Spread.Mean != want || of.Unit != "count" || (of.Difference == nil) != (m.Label == "other") || of.Difference != nil && of.Difference.Mean != 8 {
				t.Errorf("%s of %s: %+v, %+v, %+v", of.Name, m.Label, of, of.Spread, of.Difference)
			}
		}
		if of := m.Measures[2]; of.Spread != nil || !strings.Contains(of.Missing, "net_corrections.others: not measured") {
			t.Errorf("%s: %+v", of.Name, of)
		}
	}
	if len(c.notes()) != 2 {
		t.Errorf("notes %q", c.notes())
	}
	if _, err := Runs(t.Context(), []string{sweep}, Options{Resamples: 10, Measures: []string{"correction.net"}}); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `there is no measure "correction.net"`) {
		t.Errorf("a measure that there is not: %v", err)
	}
}
