package measure

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Why a whole evaluation lacks a number: what the recipe does not ask for first, then what
// had no room.
func TestExplain(t *testing.T) {
	t.Parallel()
	const (
		noSamples, noRevisions = "the recipe samples no responses (evaluation.samples is 0)", "the recipe has no revisions (evaluation.steps is 0)"
		noRoom, noneScored     = "no held-out prompt left room for a response in the policy's context", "no sampled response could be scored"
		later                  = "no prompt of revision 2 left room for a response in the policy's context"
		noGreedy, unscored     = "the recipe evaluates no greedy responses (evaluation.greedy is false)", "no greedy response could be scored"
	)
	half := 0.5
	for name, c := range map[string]struct {
		samples, steps, noRoom int
		greedy, accuracy       bool
		want                   [4]string // of accuracy and accuracy_by_step, delta_k, corrections, greedy_accuracy; of after
	}{
		"nothing is asked for": {0, 0, 3, false, false, [4]string{noSamples, noRevisions, noRevisions, noGreedy}},
		"no samples":           {0, 2, 3, true, false, [4]string{noSamples, noSamples, noSamples, unscored}},
		"no room":              {1, 2, 3, true, false, [4]string{noRoom, noRoom, noRoom, unscored}},
		"no room later":        {1, 2, 3, true, true, [4]string{"", later, later, unscored}},
		"none scored":          {1, 2, 0, true, false, [4]string{noneScored, noneScored, noneScored, unscored}},
		"no revision scored":   {1, 2, 0, true, true, [4]string{"", noneScored, noneScored, unscored}},
	} {
		f := &findings{Rows: &Rows{Run: &rundir.Run{}}}
		f.Samples, f.Summary.Steps, f.Room.Evaluation.NoRoom, f.Recipe.Evaluation.Greedy = c.samples, c.steps, c.noRoom, c.greedy
		f.Missing = map[string]string{"delta_k_before": "known"}
		if c.accuracy {
			f.AccuracyAfter, f.AccuracyByStep = &half, []float64{half}
		}
		f.explain()
		got := [4]string{f.Missing["accuracy_after"], f.Missing["delta_k"], f.Missing["corrections"], f.Missing["greedy_accuracy_after"]}
		if got != c.want || f.Missing["accuracy_by_step"] != got[0] || f.Missing["delta_k_before"] != "known" || f.Missing["accuracy_before"] == "" || f.Missing["greedy_accuracy_before"] != got[3] {
			t.Errorf("%s: %q, want %q", name, f.Missing, c.want)
		}
	}
	f := &findings{Rows: &Rows{Run: &rundir.Run{}}}
	f.Missing = map[string]string{}
	if err := f.measure(t.Context()); err != nil || len(f.Missing) != 15 || f.AccuracyBySet != nil {
		t.Errorf("without problems: %v, %d reasons: %q", err, len(f.Missing), f.Missing)
	}
}

// No version is selected before all are measured, nor where one has no last answer that
// counts; the earliest of equals is.
func TestChoose(t *testing.T) {
	t.Parallel()
	answer := func(set string, step int32, outcome string, score float64) Answer {
		a := answered("p", 0, step, outcome, score)
		a.Set = set
		return a
	}
	first := []Answer{answer("test", 0, "ok", 1), answer("test", 1, "wrong", .25), answer("val", 0, "ok", 1), answer("val", 1, "wrong", .5)}
	for name, c := range map[string]struct {
		last       []Answer
		unmeasured []Sealed
		want       *Selection
		missing    string
	}{
		"equal":          {first, nil, &Selection{0, .5, .25}, ""},
		"better":         {[]Answer{answer("test", 0, "ok", 1), answer("test", 1, "ok", 1), answer("val", 0, "wrong", 0), answer("val", 1, "wrong", .75)}, nil, &Selection{1, .75, 1}, ""},
		"no last one":    {[]Answer{answer("val", 0, "ok", 1), answer("val", 1, "infra", 0)}, nil, nil, `set "val" has no answer that counts after the last revision of policy v000001`},
		"shards to come": {first, []Sealed{{Version: 1, Sealed: 1, Shards: 2}}, nil, "the evaluation of policy v000001 is not done: 1 of 2 shards sealed"},
	} {
		f := &findings{Rows: &Rows{Run: &rundir.Run{}, held: map[int][]Answer{0: first, 1: c.last}}}
		f.Recipe.Schedule.Iterations = 1
		f.Recipe.Evaluation = recipe.Evaluation{Role: recipe.RoleBenchmark, Problems: 1, Samples: 1, Steps: 1, Shards: 1, Sets: []recipe.EvaluationSet{{Name: "val", Role: recipe.RoleValidation}}}
		f.Graph.Recipe, f.Missing, f.Unmeasured = f.Recipe, map[string]string{}, c.unmeasured
		err := f.choose(t.Context())
		if diff := cmp.Diff(c.want, f.SelectedVersion); err != nil || diff != "" || f.Missing["selected_version"] != c.missing {
			t.Errorf("%s: %v, missing %q (-want +got):\n%s", name, err, f.Missing, diff)
		}
	}
}

// Of a warm start the loss before is of the first checkpoint, and that after of the last.
func TestWarmStartLoss(t *testing.T) {
	t.Parallel()
	chunk := func(stage graph.Stage, number int, metrics ...float64) finishedTask {
		t := finishedTask{Task: graph.Task{Node: graph.Node{Stage: stage, Iteration: number}}, metrics: map[string]float64{}}
		for i, value := range metrics {
			t.metrics[[]string{"held_out_loss", "held_out_loss_before"}[i]] = value
		}
		return t
	}
	three := 3.
	for _, c := range []struct {
		tasks []finishedTask
		want  *WarmStartLoss
	}{
		{[]finishedTask{chunk(graph.StageWarm, 1), chunk(graph.StageLearn, 2, 5, 6)}, nil},
		{[]finishedTask{chunk(graph.StageWarm, 1), chunk(graph.StageLearn, 2, 5, 6), chunk(graph.StageWarm, 2, 1.5)}, &WarmStartLoss{nil, 1.5}},
		{[]finishedTask{chunk(graph.StageWarm, 1, 2, 3), chunk(graph.StageWarm, 3, 1), chunk(graph.StageWarm, 2, 1.5)}, &WarmStartLoss{&three, 1}},
	} {
		if diff := cmp.Diff(c.want, warmStartLoss(c.tasks)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Of three score files one has an input of another run; a rollout is no score.
func TestScoresTaken(t *testing.T) {
	t.Parallel()
	task := func(stage graph.Stage, inputs ...string) finishedTask {
		var m seal.Manifest
		for _, path := range inputs {
			m.Inputs = append(m.Inputs, seal.Input{Path: path})
		}
		return finishedTask{Task: graph.Task{Node: graph.Node{Stage: stage}}, outputs: []output{{manifest: m}}}
	}
	tasks := []finishedTask{task(graph.StageRollout, "/a"), task(graph.StageScore, "a", "/a"), task(graph.StageScore, "a"), task(graph.StageEvalScore)}
	if diff := cmp.Diff(&ScoresTaken{From: "/other", Taken: 1, Files: 3}, scoresTaken(tasks, "/other")); diff != "" || scoresTaken(tasks, "") != nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Vectors of 3 and 4, and of 2, are made (0.6, 0.8) and (0, 1): their product is 0.8, and they
// are √0.4 apart. One without a length stays as it is: 1 from both.
func TestDistances(t *testing.T) {
	t.Parallel()
	r := &Rows{Embed: func(_ context.Context, texts []string) ([][]float32, error) {
		of := map[string][]float32{"none": {0, 0}, "a": {3, 4}, "b": {0, 2}}
		var vectors [][]float32
		for _, text := range texts {
			vectors = append(vectors, of[text])
		}
		return vectors, nil
	}}
	for _, c := range []struct {
		texts             []string
		cosine, euclidean float64
	}{{[]string{"none", "a", "b"}, 2.2 / 3, (2 + math.Sqrt(.4)) / 3}, {[]string{"a", "b"}, .2, math.Sqrt(.4)}, {[]string{"b"}, 0, 0}, {nil, 0, 0}} {
		cosine, euclidean, known, err := r.distances(t.Context(), c.texts)
		if err != nil || known != (len(c.texts) > 1) || math.Abs(cosine-c.cosine) > 1e-6 || math.Abs(euclidean-c.euclidean) > 1e-6 {
			t.Errorf("%q: %v, %v, %v, %v; want %v and %v", c.texts, cosine, euclidean, known, err, c.cosine, c.euclidean)
		}
	}
	failed := errors.New("no memory")
	r.Embed = func(context.Context, []string) ([][]float32, error) { return nil, failed }
	if _, _, known, err := r.distances(t.Context(), []string{"a", "b"}); known || !errors.Is(err, failed) {
		t.Errorf("an embedding that fails: %v, %v", known, err)
	}
}

// Instances start from the programs of their entries, the parent's before the partner's.
func TestStartingPrograms(t *testing.T) {
	t.Parallel()
	r := &Rows{traces: []Trace{{InstanceID: "i1", Sample: 1, Extracted: "x=1;"}, {InstanceID: "i2", Extracted: "y=2;"}}}
	start, err := r.startingPrograms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[[2]string]string{{"i1/1/0", "i2/0"}: "x=1;y=2;", {"draft/task", "i2/0"}: "y=2;", {"i1/0", ""}: "", {}: ""} {
		if got := start(shard.Instance{ParentID: of[0], PartnerID: of[1]}); got != want {
			t.Errorf("%q: %q, want %q", of, got, want)
		}
	}
}

// What the buffer stage says of several environments, and of a curriculum of its own.
func TestBuffered(t *testing.T) {
	t.Parallel()
	var it Iteration
	it.buffered(map[string]float64{
		"reward_sum_environment_math": 3, "responses_environment_math": 4, "reward_sum_environment_mle": 1, "responses_environment_mle": 2,
		"curriculum_instances": 7, "curriculum_potential": .5, "curriculum_depth": 2, "transition_f2s": 2, "effective_f2s": 1, "nonzero_advantage": 5, "kind_initial": 3, "origin_base": 6,
	})
	seven, five := 7, 5
	want := Iteration{
		Rewards: map[string]float64{"math": .75, "mle": .5}, Curriculum: map[string]float64{"potential": .5, "depth": 2}, BufferSize: &seven, NonzeroAdvantage: &five,
		Transitions: map[string]int{"f2s": 2, "effective_f2s": 1}, Kinds: map[string]int{"initial": 3}, Origins: map[string]int{"base": 6},
	}
	if diff := cmp.Diff(want, it); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of an iteration that decided on nothing only the reward is a number, and transitions are
// those of traces of several turns: one of four became a success.
func TestSamplingDynamics(t *testing.T) {
	t.Parallel()
	r := &Rows{reductions: []map[string]float64{
		{"nonzero_advantage": 2, "outcome_infra": 1, "reward_mean": .5},
		{"outcome_ok": 1, "outcome_wrong": 2, "effective_f2s": 1},
		{"outcome_ok": 1, "outcome_wrong": 1, "outcome_invalid": 1, "outcome_timeout": 1, "transition_f2s": 1, "effective_f2s": 1, "nonzero_advantage": 3, "reward_mean": .25},
	}}
	values, err := samplingDynamics(t.Context(), r)
	want := []Value{
		{Column: "f2s", X: On(3), Y: 25},
		{Column: "effective_f2s", X: On(3), Y: 25},
		{Column: "final_success", X: On(2), Y: 100. / 3},
		{Column: "final_success", X: On(3), Y: 25},
		{Column: "nonzero_advantage", X: On(2), Y: 0},
		{Column: "nonzero_advantage", X: On(3), Y: 75},
		{Column: "reward", X: On(1), Y: .5},
		{Column: "reward", X: On(3), Y: .25},
	}
	if diff := cmp.Diff(want, values); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Of 300 programs of one task, each worse than the one before and the last two from scratch,
// the first and the last 128 are compared.
func TestProgramsByTask(t *testing.T) {
	t.Parallel()
	trace := func(kind string, qualities []float64, raws ...float64) Trace {
		of := Trace{instance: &shard.Instance{TaskID: "a", Kind: kind, Iteration: 1}}
		for i, raw := range raws {
			turn := shard.TurnScore{Outcome: "ok", RawScore: raw, RewardParts: []shard.RewardPart{{Name: "score", Value: -raw}, {Name: "partial_credit", Value: -raw}}}
			if qualities != nil {
				turn.NormalizedScore = qualities[i]
			}
			of.Turns = append(of.Turns, turn)
		}
		return of
	}
	var raws []float64
	for i := range 298 {
		raws = append(raws, float64(i+1))
	}
	r := &Rows{traces: []Trace{trace("improve", nil, raws...), trace("initial", nil, 299, 300)}}
	values, err := programsByTask(t.Context(), r)
	var want []Value
	for _, w := range []struct {
		column string
		y      float64
	}{
		{"lower_is_better", 1},
		{"first_programs", 1},
		{"last_programs", 173},
		{"programs_each", 128},
		{"programs", 300},
		{"last_improving", 126},
		{"from_scratch", 299},
		{"improve_previous", 173},
		{"last_8", 293},
		{"last_64", 237},
		{"last_128", 173},
		{"last_256", 45},
	} {
		want = append(want, Value{By: "task", Group: "a", Column: w.column, Y: w.y})
	}
	if diff := cmp.Diff(want, values); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for n, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 255: 127, 256: 128, 258: 128} {
		if got := sampleSize(n); got != want {
			t.Errorf("%d of %d programs, want %d", got, n, want)
		}
	}
	// Of gains of 0.01, 0.0125 and -0.5 two are little; none wins a medal.
	r.traces = []Trace{trace("improve", []float64{0, .01, .0125}, 1, 2, 3), trace("improve", []float64{.5, 0}, 1, 2)}
	values, err = thresholds(t.Context(), r)
	want = []Value{{Column: "not_above_median", Y: 100}, {Column: "no_medal", Y: 100}, {Column: "gain_at_most_0_01", Y: 200. / 3}}
	if diff := cmp.Diff(want, values, cmpopts.EquateApprox(0, 1e-9)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	r.traces = r.traces[:1]
	r.traces[0].Turns = r.traces[0].Turns[:1]
	var absent Absent
	if values, err := thresholds(t.Context(), r); !errors.As(err, &absent) || len(values) != 2 {
		t.Errorf("of one submission: %v, %v", values, err)
	}
}

// Rows that were read are forgotten, but for what measures over several runs need.
func TestForget(t *testing.T) {
	t.Parallel()
	run := &rundir.Run{}
	r := &Rows{Run: run, prompts: []string{"p"}, held: map[int][]Answer{0: {}}, planned: []shard.Instance{{}}, traces: []Trace{{}}, summary: &Summary{}}
	if r.Forget(); r.Run != run || len(r.prompts) != 1 || r.held != nil || r.planned != nil || r.traces != nil || r.summary != nil {
		t.Errorf("%+v", r)
	}
}
