package paper

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// content is what a test puts into a run of two iterations with two prompts and two
// samples of each, one shard of everything.
type content struct {
	plans        [2][]shard.Instance
	scores       [2][]shard.Score
	held         map[int][]shard.EvaluationRow // by policy version
	folded       [2]map[string]float64         // metrics of the buffer stage
	dispositions [2][]shard.Fate               // of segments
}

// made writes a run that is done as far as the tables look.
func made(t testing.TB, folder string, of func(r *rundir.Run, train []string) content, settings ...string) {
	t.Helper()
	madeTaking(t, "", folder, of, settings...)
}

// madeTaking writes a run that takes the scores of another.
func madeTaking(t testing.TB, scores, folder string, of func(r *rundir.Run, train []string) content, settings ...string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	resolved, err := recipe.Load("../../jobs/smoke.yaml", append([]string{
		"evaluation.shards=1", "rollout.shards=1", "rollout.prompts=2", "rollout.group=2",
	}, settings...))
	check(err)
	attempt, judging := seal.AttemptFromEnv(), seal.AttemptFromEnv()
	r, err := rundir.CreateWithScores(t.Context(), graph.Dir(folder), resolved, scores, attempt, "test")
	check(err)
	tasks, _, err := shard.Read[shard.TaskRow](t.Context(), r.Dir.Tasks(), seal.Options{})
	check(err)
	var train []string
	for _, row := range tasks {
		if row.Split == "train" {
			train = append(train, row.TaskID)
		}
	}
	c := of(r, train)
	expected := func(stage graph.Stage, k int) seal.Manifest {
		return r.Graph.Expected(graph.Task{Node: graph.Node{Stage: stage, Iteration: k}})
	}
	for i := range resolved.Recipe.Schedule.Iterations {
		k := i + 1
		for row := range c.plans[i] {
			c.plans[i][row].InstanceID = fmt.Sprintf("i%06d-%06d", k, row)
			c.plans[i][row].Iteration = int32(k)
		}
		_, err = shard.Write(r.Dir.Plan(k), c.plans[i], nil, judging, expected(graph.StageBuffer, k-1))
		check(err)
		// An iteration begins each 100 seconds, and its verdicts are there after 60; the rest
		// takes no time.
		sampling := expected(graph.StageRollout, k)
		sampling.Started = time.Date(2026, 1, 1, 0, 0, 100*k, 0, time.UTC)
		judging.Clock = func() time.Time { return sampling.Started.Add(time.Minute) }
		_, err = shard.Write(r.Dir.Rollout(k, 0), []shard.Rollout{}, nil, judging, sampling)
		check(err)
		_, err = shard.Write(r.Dir.Score(k, 0), c.scores[i], nil, judging, expected(graph.StageScore, k))
		check(err)
		var ledger []shard.LedgerRow
		for j, disposition := range c.dispositions[i] {
			row := shard.LedgerRow{Fate: string(disposition), Iteration: int32(k), IterationSampled: int32(k)}
			if j < len(c.plans[i]) {
				row.InstanceID, row.Reward = c.plans[i][j].InstanceID, float64(k)/4
			}
			ledger = append(ledger, row)
		}
		m := expected(graph.StageBuffer, k)
		m.Started, m.Metrics = judging.Clock(), c.folded[i]
		_, err = shard.Write(r.Dir.Ledger(k), ledger, nil, judging, m)
		check(err)
		_, err = seal.WriteBytes(r.Dir.Batch(k), nil, judging, m)
		check(err)
	}
	for _, version := range r.Graph.EvaluatedVersions() {
		_, err = shard.Write(r.Dir.Evaluation(version, 0), c.held[version], nil, attempt, expected(graph.StageEvaluate, version))
		check(err)
	}
	// That what the last iteration made is there is all that is asked of it.
	for _, goal := range r.Graph.Goals() {
		done := graph.Task{Node: goal}
		for _, path := range r.Graph.Outputs(done) {
			if _, err := seal.Read(t.Context(), path, seal.Options{}); errors.Is(err, seal.ErrNotSealed) {
				m := r.Graph.Expected(done)
				m.Started = judging.Clock()
				_, err = seal.WriteBytes(path, nil, judging, m)
				check(err)
			}
		}
	}
}

func turns(outcomes ...shard.Outcome) (all []shard.TurnScore) {
	for _, o := range outcomes {
		all = append(all, shard.TurnScore{Outcome: string(o)})
	}
	return all
}

func judged(k, row, sample int, reward float64, outcomes ...shard.Outcome) shard.Score {
	return shard.Score{
		InstanceID: fmt.Sprintf("i%06d-%06d", k, row), Sample: int32(sample), Outcome: string(outcomes[len(outcomes)-1]), Reward: reward, Turns: turns(outcomes...),
	}
}

func said(prompt string) []shard.Message { return []shard.Message{{Role: "user", Content: prompt}} }

// byHand is a run whose numbers are worked out beside each test.
func byHand(right float64) func(*rundir.Run, []string) content {
	return func(_ *rundir.Run, train []string) content {
		const ok, wrong = shard.OutcomeOK, shard.OutcomeWrong
		a, b := train[0], train[1]
		initial, base := string(shard.KindInitial), string(shard.OriginBase)
		c := content{
			plans: [2][]shard.Instance{
				{{TaskID: a, Kind: initial, Origin: base, Messages: said("a=")}, {TaskID: b, Kind: initial, Origin: base, Messages: said("b=")}},
				{
					{TaskID: a, Kind: string(shard.KindImprove), Origin: string(shard.OriginBuffer), ParentID: "i000001-000000/0/0/2", Depth: 1, Turn: 1, Messages: said("a=1;")},
					{TaskID: b, Kind: initial, Origin: base, Messages: said("b=")},
				},
			},
			scores: [2][]shard.Score{
				{judged(1, 0, 0, 1, wrong, ok), judged(1, 0, 1, .5, ok, wrong), judged(1, 1, 0, 0, wrong, wrong), judged(1, 1, 1, 0, shard.OutcomeInfra)},
				{judged(2, 0, 0, 1, ok, ok), judged(2, 0, 1, 1, wrong, ok), judged(2, 1, 0, 0, wrong, wrong), judged(2, 1, 1, .25, wrong, wrong)},
			},
			folded: [2]map[string]float64{
				{"outcome_ok": 1, "outcome_wrong": 2, "outcome_infra": 1, "transition_f2s": 1, "transition_s2f": 1, "transition_f2f": 1, "effective_f2s": 1, "nonzero_advantage": 2},
				{"outcome_ok": 2, "outcome_wrong": 2, "transition_s2s": 1, "transition_f2s": 1, "transition_f2f": 2, "nonzero_advantage": 0},
			},
			held: map[int][]shard.EvaluationRow{},
		}
		// Two problems of two samples: at first p is right in sample 0 alone and q in
		// none; after a step p is right in both and q in sample 0, and p's first one is
		// wrong where right is 0.
		answer := func(version int, task string, sample, step int, score float64) {
			outcome := wrong
			if score == 1 {
				outcome = ok
			}
			c.held[version] = append(c.held[version], shard.EvaluationRow{
				TaskID: task, Set: "test", Kind: "add", PolicyVersion: int32(version), Sample: int32(sample), Step: int32(step), Score: score, Outcome: string(outcome),
			})
		}
		for version := range 3 {
			answer(version, "p", 0, 0, 1)
			answer(version, "p", 1, 0, 0)
			answer(version, "q", 0, 0, 0)
			answer(version, "q", 1, 0, 0)
			answer(version, "p", 0, 1, right)
			answer(version, "p", 1, 1, 1)
			answer(version, "q", 0, 1, 1)
			answer(version, "q", 1, 1, 0)
		}
		return c
	}
}

// item is a table or figure of the papers' numbers.
func item(t *testing.T, r Result, name string) Item {
	t.Helper()
	for _, i := range r.Items {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("there is no %q", name)
	return Item{}
}

// expect checks numbers of an item: METHOD|GROUP|MEASURE|X to mean and deviation, where
// METHOD is METHOD, WHEN of a figure that draws the policy before training too.
func expect(t *testing.T, i Item, want map[string][2]float64) {
	t.Helper()
	found := map[string]bool{}
	for _, n := range i.Numbers {
		key := strings.Join([]string{n.Method, n.Group, n.Measure}, "|")
		if n.When != "" {
			key = strings.Join([]string{n.Method + ", " + n.When, n.Group, n.Measure}, "|")
		}
		if n.X != nil {
			key += fmt.Sprintf("|%g", *n.X)
		}
		w, asked := want[key]
		if !asked {
			continue
		}
		found[key] = true
		std := 0.
		if n.Std != nil {
			std = *n.Std
		}
		if math.Abs(n.Mean-w[0]) > 1e-9 || math.Abs(std-w[1]) > 1e-9 {
			t.Errorf("%s, %s: %v ± %v, want %v ± %v", i.Title, key, n.Mean, std, w[0], w[1])
		}
	}
	for key := range want {
		if !found[key] {
			t.Errorf("%s has no %s, but %+v", i.Title, key, i.Numbers)
		}
	}
}

// sweep is two seeds of one method, the second with one more right answer, and one
// seed of another.
func sweep(t *testing.T, settings ...string) string {
	t.Helper()
	folder := t.TempDir()
	made(t, filepath.Join(folder, "one"), byHand(0), append(settings, "seed=1")...)
	made(t, filepath.Join(folder, "two"), byHand(1), append(settings, "seed=2")...)
	made(t, filepath.Join(folder, "other"), byHand(1), append(settings, "seed=1", "name=other")...)
	return folder
}

// ranked are the parts of a program: of a valid one with a score, a rank and a medal,
// else the −10 of partial credit alone.
func ranked(valid bool, score, rank, medal, validation float64) []shard.RewardPart {
	if !valid {
		return []shard.RewardPart{{Name: "partial_credit", Value: -10}}
	}
	median := 0.
	if rank > .5 {
		median = 1
	}
	return []shard.RewardPart{
		{Name: "validation", Value: validation},
		{Name: "score", Value: score},
		{Name: "humanrank", Value: rank},
		{Name: "humanrank_mledojo", Value: rank},
		{Name: "above_median", Value: median},
		{Name: "medal", Value: medal},
		{Name: "partial_credit", Value: score},
	}
}

// programs is a run on machine-learning tasks. Training has, of the task a, whose score
// is better when lower, in iteration 1 a trace of an invalid program and of scores 5
// and 3, and one of 4; in iteration 2 one of 2, to improve, and an invalid one to debug.
// Held out, a trace of four attempts is valid in the second, third and fourth.
func programs(_ *rundir.Run, train []string) content {
	initial, improve := string(shard.KindInitial), string(shard.KindImprove)
	turn := func(valid bool, raw, rank, seconds float64) shard.TurnScore {
		t := shard.TurnScore{Outcome: string(shard.OutcomeInvalid), RewardParts: ranked(false, 0, 0, 0, 0), ExecuteSeconds: seconds}
		if valid {
			t.Outcome, t.RawScore, t.NormalizedScore, t.RewardParts = string(shard.OutcomeOK), raw, rank, ranked(true, -raw, rank, 0, 0)
		}
		return t
	}
	judged := func(k, row, sample int, reward float64, turns ...shard.TurnScore) shard.Score {
		return shard.Score{InstanceID: fmt.Sprintf("i%06d-%06d", k, row), Sample: int32(sample), Reward: reward, Outcome: turns[len(turns)-1].Outcome, Turns: turns}
	}
	c := content{
		plans: [2][]shard.Instance{
			{{TaskID: train[0], Kind: initial, Messages: said("a")}},
			{{TaskID: train[0], Kind: improve, Messages: said("a, better")}, {TaskID: train[0], Kind: string(shard.KindDebug), Messages: said("a, mended")}},
		},
		scores: [2][]shard.Score{
			{judged(1, 0, 0, .5, turn(false, 0, 0, 1), turn(true, 5, .2, 2), turn(true, 3, .6, 3)), judged(1, 0, 1, 0, turn(true, 4, .25, 6))},
			{judged(2, 0, 0, 1, turn(true, 2, .8, 4)), judged(2, 1, 0, 0, turn(false, 0, 0, 2))},
		},
		folded:       [2]map[string]float64{{"reward_mean": .25}, {"reward_mean": .5}},
		held:         map[int][]shard.EvaluationRow{},
		dispositions: [2][]shard.Fate{{shard.FateTrained, shard.FateDropped}, {shard.FateDropped, shard.FateDropped}},
	}
	for version := range 3 {
		for step, a := range []struct {
			kind                    string
			valid                   bool
			rank, medal, validation float64
		}{{initial, false, 0, 0, 0}, {initial, true, .2, 0, .5}, {improve, true, .9, 2, .7}, {improve, true, .4, 0, .6}} {
			row := shard.EvaluationRow{
				TaskID: "h", Set: "test", PolicyVersion: int32(version), Step: int32(step), AttemptKind: a.kind, Outcome: string(shard.OutcomeInvalid), RewardParts: ranked(false, 0, 0, 0, 0), ExecuteSeconds: 10,
			}
			if a.valid && version > 0 { // the policy at first submits nothing valid
				row.Outcome, row.RawScore, row.Score, row.RewardParts = string(shard.OutcomeOK), a.rank*10, a.rank, ranked(true, a.rank*10, a.rank, a.medal, a.validation)
			}
			c.held[version] = append(c.held[version], row)
		}
	}
	return c
}

func programsRun(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	made(t, filepath.Join(folder, "one"), programs, "evaluation.steps=3", "evaluation.seconds=40")
	return folder
}

func TestAceGRPO(t *testing.T) {
	t.Parallel()
	r := papersOf(t, "ace", programsRun(t))
	// The best by validation is the third attempt's: rank 0.9, silver.
	expect(t, item(t, r, "table-1"), map[string][2]float64{
		"smoke|test, before training|valid (%)": {0, 0}, "smoke|test, after|valid (%)": {100, 0}, "smoke|test, after|HumanRank (%)": {90, 0},
		"smoke|test, after|silver (%)": {100, 0}, "smoke|test, after|gold (%)": {0, 0}, "smoke|test, after|any medal (%)": {100, 0},
	})
	expect(t, item(t, r, "table-2"), map[string][2]float64{"smoke||any medal (%)": {100, 0}})
	expect(t, item(t, r, "figure-3"), map[string][2]float64{
		"smoke|after|medal (%)": {0, 0}, "smoke|after|HumanRank (%)": {20, 0}, "smoke|after|number of the program": {2, 0},
		"smoke|before training|traces with one (%)": {0, 0},
	})
	expect(t, item(t, r, "figure-4"), map[string][2]float64{
		"smoke, after||HumanRank (%)|1": {0, 0}, "smoke, after||HumanRank (%)|2": {20, 0}, "smoke, after||HumanRank (%)|3": {90, 0}, "smoke, after||HumanRank (%)|4": {90, 0}, "smoke, after||any medal (%)|3": {100, 0},
	})
	// Of 40 seconds each program takes 10: the third ends at 30.
	expect(t, item(t, r, "figure-4-seconds"), map[string][2]float64{"smoke, after||any medal (%)|25": {0, 0}, "smoke, after||any medal (%)|30": {100, 0}})
	expect(t, item(t, r, "figure-5"), map[string][2]float64{
		"smoke|initial|valid (%)|1": {100, 0}, "smoke|initial|score|1": {.25, 0}, "smoke|improve|score|2": {1, 0}, "smoke|debug|valid (%)|2": {0, 0},
		"smoke|initial|reward|1": {.25, 0}, "smoke|improve|reward|2": {.5, 0}, // of the ledger: a quarter in the first iteration, half in the second
	})
	expect(t, item(t, r, "figure-5-right"), map[string][2]float64{"smoke||reward|1": {.25, 0}, "smoke||reward|2": {.5, 0}})
}

// ExIt's greedy search over programs: valid ones of quality 0.2, 0.9 and 0.4 in the
// second to fourth step, the best by validation the third.
func TestGreedySearch(t *testing.T) {
	t.Parallel()
	r := papersOf(t, "exit", programsRun(t))
	for name, group := range map[string]string{"figure-5-right": "", "figure-9": "test", "figure-10": "h"} {
		want := map[string][2]float64{}
		for step, score := range []float64{0, 20, 90, 90} {
			want[fmt.Sprintf("smoke, after|%s|best score (%%)|%d", group, step)] = [2]float64{score, 0}
			want[fmt.Sprintf("smoke, before training|%s|best score (%%)|%d", group, step)] = [2]float64{0, 0}
		}
		expect(t, item(t, r, name), want)
	}
}

// A run without programs holds none of these, and no zeros stand for them.
func TestUngraded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	made(t, filepath.Join(folder, "one"), byHand(0))
	for _, name := range []string{"ace", "rlmle", "mlerl"} {
		for _, i := range papersOf(t, name, folder).Items {
			if strings.HasPrefix(i.Title, "MLE-RL Tab. 4") || strings.HasPrefix(i.Title, "AceGRPO Fig. 5") {
				continue // what was learned from, and rewards, need no grades
			}
			if len(i.Numbers) != 0 || len(i.Missing) != 1 {
				t.Errorf("%s: %+v", i.Title, i)
			}
		}
	}
}

func papersOf(t *testing.T, name string, folders ...string) Result {
	t.Helper()
	r, err := Make(t.Context(), name, folders, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExIt(t *testing.T) {
	t.Parallel()
	folder := sweep(t)
	r := papersOf(t, "exit", folder)
	if len(r.Methods) != 2 || r.Methods[0].Label != "other" || r.Methods[1].Label != "smoke" || len(r.Methods[1].Seeds) != 2 {
		t.Fatalf("methods %+v", r.Methods)
	}
	// First answers: 1 of 4 right. After a step 2 of 4 with seed 1, 3 of 4 with seed 2:
	// 62.5 ± 25/√2.
	std := 25 / math.Sqrt2
	expect(t, item(t, r, "table-1"), map[string][2]float64{
		"smoke|test|after: first answer (%)": {25, 0}, "smoke|test|after: revision 1 (%)": {62.5, std}, "smoke|test|after: Δ_1": {37.5, std}, "other|test|after: Δ_1": {50, 0},
		"smoke|test|before training: revision 1 (%)": {62.5, std},
	})
	expect(t, item(t, r, "figure-3"), map[string][2]float64{"smoke, after|test|score (%)|0": {25, 0}, "smoke, after|test|score (%)|1": {62.5, std}})
	// Corrected 2; broken 1 with seed 1, none with seed 2.
	for _, name := range []string{"figure-4", "figure-8"} {
		group := map[string]string{"figure-4": "", "figure-8": "test"}[name]
		expect(t, item(t, r, name), map[string][2]float64{
			"smoke, after|" + group + "|net corrections|0": {0, 0}, "smoke, after|" + group + "|net corrections|1": {1.5, 1 / math.Sqrt2}, "other, after|" + group + "|net corrections|1": {2, 0},
			"smoke, after|" + group + "|net improvements|1": {1.5, 1 / math.Sqrt2}, "smoke, before training|" + group + "|net corrections|1": {1.5, 1 / math.Sqrt2},
		})
	}
	// One instance of the second iteration starts from the first one's.
	expect(t, item(t, r, "figure-5-left"), map[string][2]float64{"smoke||recency (iterations)|2": {1, 0}, "smoke||starting depth|2": {1, 0}})
	expect(t, item(t, r, "figure-6"), map[string][2]float64{
		"smoke||depth|1": {0, 0}, "smoke||depth|2": {.5, 0}, "smoke||start turn|2": {.5, 0}, "smoke||level of the task|1": {1, 0},
	})
	// a=, b= and a=1; of four instances and 60 problems of training.
	expect(t, item(t, r, "figure-7"), map[string][2]float64{
		"smoke||distinct instances": {3, 0}, "smoke||share of the sampled": {.75, 0}, "smoke||relative to the training set": {3. / 60, 0},
	})
	// First answers of the first iteration: 1, ½, 0, and one of our failures that does
	// not count; of the second 0 and ¼.
	expect(t, item(t, r, "figure-1"), map[string][2]float64{"smoke|add|reward|1": {.5, 0}, "smoke|add|reward|2": {.125, 0}})
	if missing := item(t, r, "table-2").Missing; len(missing) != 1 || missing[0] != "it never starts from two different responses" {
		t.Errorf("Table 2 misses %q", missing)
	}
	if i := item(t, r, "figure-9"); len(i.Numbers) != 0 || len(i.Missing) != 1 || !strings.Contains(i.Missing[0], "validation score") {
		t.Errorf("Figure 9: %+v", i)
	}
	if points := item(t, r, "figure-7-projection").Numbers; len(points) != 6 {
		t.Errorf("the projection has %d points, want 3 of each method", len(points))
	}

	out := t.TempDir()
	if err := Write(out, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.html", "paper.json", "tables.txt", "tables/table-1.csv", "figures/figure-4-net-corrections.svg", "figures/figure-6-depth.png", "figures/figure-7-projection.svg"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "tables/figure-9.csv")); err == nil {
		t.Error("a figure without numbers has a file of them")
	}
}

func TestFlipTS(t *testing.T) {
	t.Parallel()
	folder := sweep(t, "curriculum.name=flipts", "factors=[]", "factors=[]", "scaffold.name=chain", "scaffold.steps=1")
	r := papersOf(t, "flipts", folder)
	expect(t, item(t, r, "table-2"), map[string][2]float64{"smoke|test|after: Init (%)": {25, 0}, "smoke|test|after: Turn-2 (%)": {62.5, 25 / math.Sqrt2}})
	expect(t, item(t, r, "table-1"), map[string][2]float64{"smoke|test|traces sampled": {7, 0}, "other|test|traces sampled, × the fewest": {1, 0}})
	expect(t, item(t, r, "table-4"), map[string][2]float64{"smoke||T": {2, 0}, "smoke||G": {2, 0}})
	expect(t, item(t, r, "table-5"), map[string][2]float64{"smoke|test|problems": {2, 0}, "smoke|test|samples": {2, 0}})
	// Of three traces one each of F2S, S2F and F2F; then of four one S2S, one F2S and
	// two F2F.
	expect(t, item(t, r, "figure-3"), map[string][2]float64{
		"smoke||F2S (%)|1": {100. / 3, 0}, "smoke||S2F (%)|1": {100. / 3, 0}, "smoke||S2S (%)|1": {0, 0}, "smoke||S2S (%)|2": {25, 0}, "smoke||F2F (%)|2": {50, 0},
	})
	expect(t, item(t, r, "figure-6"), map[string][2]float64{
		"smoke||F2S (%)|1": {100. / 3, 0}, "smoke||effective F2S (%)|1": {100. / 3, 0}, "smoke||effective F2S (%)|2": {0, 0},
		"smoke||final success (%)|2": {50, 0}, "smoke||advantage other than 0 (%)|1": {200. / 3, 0},
	})
	expect(t, item(t, r, "figure-4"), map[string][2]float64{"smoke|test|accuracy (%)|1": {25, 0}, "smoke|test|accuracy (%)|2": {62.5, 25 / math.Sqrt2}})
	expect(t, item(t, r, "figure-7"), map[string][2]float64{"smoke|add|after (%)": {25, 0}})
	if i := item(t, r, "figure-8"); len(i.Missing) != 1 || i.Missing[0] != "the runs that sample by F2S do not differ in ξ_target" {
		t.Errorf("Figure 8 misses %q", i.Missing)
	}
	if i := item(t, r, "table-3"); len(i.Missing) != 1 || len(i.Numbers) != 0 {
		t.Errorf("Table 3: %+v", i)
	}
}

// Of methods that differ in ξ_target alone, FlipTS Fig. 8 has a line for each.
func TestAblation(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for i, target := range []string{"0.2", "0.8"} {
		made(t, filepath.Join(folder, target), byHand(float64(i)), "curriculum.name=flipts", "factors=[]", "factors=[]", "scaffold.name=chain", "scaffold.steps=1", "curriculum.flipts.target="+target)
	}
	expect(t, item(t, papersOf(t, "flipts", folder), "figure-8"), map[string][2]float64{"ξ_target = 0.2||accuracy (%)|2": {50, 0}, "ξ_target = 0.8||accuracy (%)|2": {75, 0}})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	made(t, filepath.Join(folder, "one"), byHand(0))
	for _, c := range []struct{ paper, baseline, want string }{
		{"nature", "", `there is no paper "nature": there are exit, flipts, ace, rlmle, mlerl`},
		{"exit", "best", `--baseline "best" is none of the methods: smoke`},
	} {
		_, err := Make(t.Context(), c.paper, []string{folder}, Options{Baseline: c.baseline})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || exitcode.Code(err) != exitcode.Usage {
			t.Errorf("paper %q, baseline %q: %v", c.paper, c.baseline, err)
		}
	}
}
