package report

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func near(t *testing.T, name string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is null, want %v", name, want)
	} else if math.Abs(*got-want) > 1e-12 {
		t.Errorf("%s is %v, want %v", name, *got, want)
	}
}

// The accuracies and errors are worked out by hand from scoresBefore and
// scoresAfter. Before: problem means 1/2 and 0, so
// SE = sqrt(((1/2-1/4)² + (0-1/4)²) / (2·1)) = 1/4.
func TestAccuracies(t *testing.T) {
	t.Parallel()
	s := finished(t).collect()
	near(t, "before", s.AccuracyBefore, 0.25)
	near(t, "before SE", s.AccuracyBeforeStandardError, 0.25)
	near(t, "after", s.AccuracyAfter, 0.75)
	near(t, "after SE", s.AccuracyAfterStandardError, 0.25)
	// Both problems gain 1/2: how much gains differ was not seen, so the error is not known.
	near(t, "gain", s.AccuracyGain, 0.5)
	if s.AccuracyGainStandardError != nil {
		t.Errorf("gains that do not differ have the standard error %v", *s.AccuracyGainStandardError)
	}
	near(t, "greedy before", s.GreedyAccuracyBefore, 0.5)
	near(t, "greedy after", s.GreedyAccuracyAfter, 1)
	near(t, "Δ before", s.DeltaKBefore, 0.25)
	near(t, "Δ before SE", s.DeltaKBeforeStandardError, 0.25)
	// Differences are 0 and -1 for t1, 0 and +1 for t2: problem means ∓1/2,
	// SE = sqrt((1/4 + 1/4) / 2) = 1/2.
	near(t, "Δ after", s.DeltaK, 0)
	near(t, "Δ after SE", s.DeltaKStandardError, 0.5)
	if diff := cmp.Diff([]float64{0.25, 0.5}, s.AccuracyByStepBefore); diff != "" {
		t.Error("by step before:", diff)
	}
	if diff := cmp.Diff([]float64{0.75, 0.75}, s.AccuracyByStep); diff != "" {
		t.Error("by step:", diff)
	}
	if diff := cmp.Diff(&Corrections{Chains: 4, Corrected: 1, KeptRight: 1, KeptWrong: 2, Net: 1, ProblemsImproved: 1}, s.CorrectionsBefore); diff != "" {
		t.Error("corrections before:", diff)
	}
	if diff := cmp.Diff(&Corrections{Chains: 4, Corrected: 1, Broken: 1, KeptRight: 2, ProblemsImproved: 1, ProblemsWorsened: 1}, s.Corrections); diff != "" {
		t.Error("corrections:", diff)
	}
	if len(s.AccuracyByVersion) != 2 || s.AccuracyByVersion[1].Version != 2 {
		t.Fatalf("versions %+v, want v0 and v2", s.AccuracyByVersion)
	}
	if diff := cmp.Diff([]float64{2, 3}, s.AccuracyByVersion[1].ResponseTokensPerStep); diff != "" {
		t.Error("response tokens by step:", diff)
	}
	kinds := map[string][2]float64{"add": {0.5, 1}, "sub": {0, 0.5}, "digits": {0, 0.5}}
	for _, k := range s.AccuracyByKind {
		near(t, k.Kind+" before", k.Before, kinds[k.Kind][0])
		near(t, k.Kind+" after", k.After, kinds[k.Kind][1])
		if k.Problems != 1 || k.BeforeStandardError != nil {
			t.Errorf("kind %s: %d problems, standard error %v; one problem has none", k.Kind, k.Problems, k.BeforeStandardError)
		}
	}
	if len(s.AccuracyByKind) != 3 {
		t.Errorf("%d kinds, want 3", len(s.AccuracyByKind))
	}
	// The problem t1 is of level 2, t2 of level 10 and of two kinds.
	if len(s.AccuracyByLevel) != 2 || s.AccuracyByLevel[0].Kind != "2" || s.AccuracyByLevel[1].Kind != "10" {
		t.Errorf("levels %+v", s.AccuracyByLevel)
	}
	near(t, "level 2 after", s.AccuracyByLevel[0].After, 1)
	// Right answers reach the milestone.
	if len(s.Milestones) != 1 || s.Milestones[0].Kind != "right" || s.Milestones[0].Problems != 2 {
		t.Errorf("milestones %+v", s.Milestones)
	}
	near(t, "milestone before", s.Milestones[0].Before, 0.25)
	near(t, "milestone after", s.Milestones[0].After, 0.75)
	if len(s.Missing) != 0 {
		t.Errorf("a whole run misses %v", s.Missing)
	}
}

// The times are those of the fixture's timeline:
//
//	warm 0-10 · buffer 10-11, 22-23, 38-39 · rollout 12-15, 12-20, 34-36, 34-37
//	score 16-17, 20-21, 37-38 twice · learn 23-33, 40-50 · evaluate 11-14, 50-60
//
// so no task runs in 21-22 (iteration 1), 33-34 and 39-40 (iteration 2).
func TestTimes(t *testing.T) {
	t.Parallel()
	s := finished(t).collect()
	near(t, "wall", s.WallSeconds, 60)
	want := map[string]float64{"warm": 10, "buffer": 3, "rollout": 11, "score": 3, "learn": 20, "evaluate": 13}
	if diff := cmp.Diff(want, s.WallSecondsByStage); diff != "" {
		t.Error("by stage:", diff)
	}
	for _, st := range s.Stages {
		if st.Stage == "rollout" && (st.Tasks != 4 || st.TaskSeconds != 16 || st.LongestSeconds != 8) {
			t.Errorf("rollout: %+v, want 4 tasks of 3+8+2+3 = 16 s, the longest 8 s", st)
		}
		if st.Stage == "rollout" {
			near(t, "tokens per second", st.TokenRate, 120.0/16)
		}
	}
	near(t, "iteration 1", s.Series[0].WallSeconds, 22) // 11 to 33
	near(t, "idle in 1", s.Series[0].OrchestrationSeconds, 1)
	near(t, "iteration 2", s.Series[1].WallSeconds, 17) // 33 to 50
	near(t, "idle in 2", s.Series[1].OrchestrationSeconds, 2)
	near(t, "median", s.OrchestrationSeconds, 1.5)
	if s.HostCount == nil || *s.HostCount != 2 {
		t.Errorf("hosts %v, want 2", s.HostCount)
	}
}

func TestCountsAndSeries(t *testing.T) {
	t.Parallel()
	s := finished(t).collect()
	number := func(n int64) *int64 { return &n }
	tokens := Tokens{
		Prompt: number(40), Response: number(120), ReadAgain: number(2), Trained: number(120), Learned: number(200), WarmStart: number(1000), Evaluation: number(60),
	}
	if diff := cmp.Diff(tokens, s.Tokens); diff != "" {
		t.Error("tokens:", diff)
	}
	outcomes := map[string]int{"ok": 4, "wrong": 4, "invalid": 0, "timeout": 0, "infra": 0, "preempted": 0}
	if diff := cmp.Diff(outcomes, s.Outcomes); diff != "" {
		t.Error("outcomes:", diff)
	}
	ledger := rundir.Ledger{Planned: 8, Segments: 8, Trained: 5, Dropped: map[string]int{"constant_group": 2, "infra": 1}, Problems: []string{}}
	if diff := cmp.Diff(ledger, s.Ledger); diff != "" {
		t.Error("ledger:", diff)
	}
	if s.State != "done" || s.IterationsDone != 2 || *s.PolicyVersion != 2 || *s.PolicySHA256 != sha("weights 2") {
		t.Errorf("state %s, %d iterations, policy %d %s", s.State, s.IterationsDone, *s.PolicyVersion, *s.PolicySHA256)
	}
	one, two := s.Series[0], s.Series[1]
	near(t, "reward", one.RewardMean, 0.25)
	near(t, "response tokens", one.ResponseTokensMean, 15) // (20+40)/4
	near(t, "cut off", one.CutOffShare, 0.25)
	near(t, "entropy", two.Entropy, 0.5)
	near(t, "ratio", two.RatioDeviationMax, 0)
	near(t, "depth", two.DepthMean, 0.5)
	if *two.BufferSize != 6 || *two.Trained != 3 {
		t.Errorf("iteration 2: buffer %d, trained %d", *two.BufferSize, *two.Trained)
	}
	if diff := cmp.Diff(map[string]int{"initial": 1, "improve": 1}, two.Kinds); diff != "" {
		t.Error("kinds:", diff)
	}
	if two.ReferenceKL != nil {
		t.Error("a run without a KL term has a reference KL")
	}
}

// A gradient that is computed in shards has one learn task per optimizer
// step; their metrics are joined by tokens, steps and maxima.
func TestShardedLearner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "schedule.gradient_shards=2", "loss.mini_batches=2")
	for step, m := range []map[string]float64{
		{"tokens": 30, "trained_tokens": 10, "optimizer_steps": 1, "loss": 1, "entropy": 1, "grad_norm": 2, "ratio_deviation_max": 0, "first_step_ratio_deviation_max": 0},
		{"tokens": 50, "trained_tokens": 30, "optimizer_steps": 1, "loss": 2, "entropy": 2, "grad_norm": 4, "ratio_deviation_max": 0.5, "first_step_ratio_deviation_max": 0.5},
	} {
		a, manifest := f.job("a", float64(step), float64(step+1), graph.StageLearn, 1, 0, 1, m)
		manifest.Step = step
		for _, path := range f.run.Graph.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 1, Step: step}}) {
			f.folder(path, "weights", a, manifest)
		}
	}
	s := f.collect()
	it := s.Series[0]
	near(t, "entropy", it.Entropy, 1.75) // (10·1 + 30·2) / 40
	near(t, "gradient norm", it.GradNorm, 3)
	near(t, "ratio", it.RatioDeviationMax, 0.5)
	near(t, "ratio of the first step", it.FirstStepRatioDeviationMax, 0)
	near(t, "loss", it.Loss, 1.5)
	if *s.Tokens.Trained != 40 || *s.Tokens.Learned != 80 {
		t.Errorf("tokens %d and %d, want 40 and 80", *s.Tokens.Trained, *s.Tokens.Learned)
	}
}

// What is not known is null with a reason, and never 0.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.collect()
	if s.State != "pending" || s.WallSeconds != nil || s.PolicyVersion != nil || s.Outcomes != nil || s.Tokens.Prompt != nil {
		t.Errorf("a run that has not begun: %+v", s)
	}
	f.begin()
	f.sample(1, 0, "a", [2]float64{12, 15}, [2]float64{16, 17})
	s = f.collect()
	if s.State != "unknown" || s.IterationsDone != 0 || *s.PolicyVersion != 0 || s.PolicySHA256 != nil {
		t.Errorf("a run under way: state %s, %d iterations", s.State, s.IterationsDone)
	}
	if s.Ledger.Planned != 4 || s.Ledger.Pending != 4 {
		t.Errorf("ledger %+v, want 4 planned and pending", s.Ledger)
	}
	encoded := map[string]json.RawMessage{}
	content := must.Get(json.Marshal(s))(t)
	must.Do(t, json.Unmarshal(content, &encoded))
	for _, key := range []string{
		"accuracy_before", "accuracy_after", "accuracy_by_step", "greedy_accuracy_after", "delta_k", "corrections", "policy_sha256",
		"accuracy_by_version", "accuracy_by_kind", "accuracy_gain",
	} {
		if string(encoded[key]) != "null" || s.Missing[key] == "" {
			t.Errorf("%s is %s, reason %q; want null with a reason", key, encoded[key], s.Missing[key])
		}
	}
	if want := "the evaluation of policy v000002 is not done: 0 of 1 shard sealed"; s.Missing["accuracy_after"] != want {
		t.Errorf("reason %q, want %q", s.Missing["accuracy_after"], want)
	}
	if it := s.Series[0]; it.RewardMean != nil || it.Entropy != nil || it.BufferSize != nil || it.Trained != nil {
		t.Errorf("an iteration that is not folded has %+v", it)
	}
	near(t, "tokens so far", s.Series[0].ResponseTokensMean, 10)
}

func TestWithoutEvaluation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run.Recipe.Evaluation.Problems = 0
	f.run.Graph.Recipe = f.run.Recipe
	f.begin()
	f.iterations()
	s := f.collect()
	if s.State != "done" || s.AccuracyAfter != nil || s.AccuracyByVersion != nil {
		t.Errorf("state %s, accuracy %v", s.State, s.AccuracyAfter)
	}
	if want := "the recipe evaluates no problems (evaluation.problems is 0)"; s.Missing["accuracy_after"] != want {
		t.Errorf("reason %q, want %q", s.Missing["accuracy_after"], want)
	}
	if s.Missing["tokens.evaluation"] == "" {
		t.Error("no reason for the tokens of evaluations")
	}
}

func TestWithoutSamplesOrSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "evaluation.steps=0", "evaluation.greedy=false")
	f.evaluate(0, 0, 1, []shard.EvaluationRow{
		{TaskID: "t1", Outcome: "ok", Score: 1, ResponseTokens: 2},
		{TaskID: "t2", Outcome: "infra"}, // not the policy's: in no average
	})
	s := f.collect()
	near(t, "accuracy", s.AccuracyBefore, 1)
	if s.AccuracyByVersion[0].Excluded != 1 {
		t.Errorf("excluded %d, want 1", s.AccuracyByVersion[0].Excluded)
	}
	for key, want := range map[string]string{
		"delta_k_before":         "the recipe has no revisions (evaluation.steps is 0)",
		"greedy_accuracy_before": "the recipe evaluates no greedy responses (evaluation.greedy is false)",
	} {
		if s.Missing[key] != want {
			t.Errorf("%s: reason %q, want %q", key, s.Missing[key], want)
		}
	}
}

// Iteration 1 was closed without its second shard.
func TestLeftOutShards(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "schedule.quorum=0.5")
	f.begin()
	f.sample(1, 0, "a", [2]float64{12, 15}, [2]float64{16, 17})
	f.closing(closing.Closing{Iteration: 1, Shards: 2, Included: []int{0}, LeftOut: []int{1}})
	f.buffer(1, 22, 23, map[string]float64{"reward_mean": 0.5}, fates(1, "", "", "left_out", "left_out"))
	f.learn(1, 23, 33)
	s := f.collect()
	if s.LeftOutShards != 1 || *s.Series[0].LeftOutShards != 1 || s.Ledger.Dropped["left_out"] != 2 || s.Series[0].Dropped["left_out"] != 2 {
		t.Errorf("left out %d, series %v, ledger %v", s.LeftOutShards, *s.Series[0].LeftOutShards, s.Ledger.Dropped)
	}
	var text strings.Builder
	must.Do(t, Text(&text, s))
	if !strings.Contains(text.String(), "1 shard left out") {
		t.Errorf("the text does not say so:\n%s", &text)
	}
}

// An empty batch changes nothing, so the learner's means are no numbers.
func TestSkippedLearner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, m := f.job("a", 0, 1, graph.StageLearn, 1, 0, 1, map[string]float64{"tokens": 0, "entropy": 0, "loss": 0, "skipped_steps": 1, "optimizer_steps": 1})
	f.folder(f.run.Dir.Policy(1), "weights", a, m)
	f.folder(f.run.Dir.Optimizer(1), "moments", a, m)
	if it := f.collect().Series[0]; it.Entropy != nil || it.Loss != nil {
		t.Errorf("entropy %v and loss %v of nothing", it.Entropy, it.Loss)
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	f := finished(t)
	must.Do(t, os.WriteFile(f.run.Dir.Evaluation(2, 0), []byte("short"), 0o666))
	_, err := measure.Of(f.run).Summary(context.Background())
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "00000.parquet") {
		t.Errorf("damage gives %v, want a data error that names the file", err)
	}
}

// The keys of summary.json that people and programs lean on.
func TestSummaryKeys(t *testing.T) {
	t.Parallel()
	content := must.Get(json.Marshal(finished(t).collect()))(t)
	var s map[string]any
	must.Do(t, json.Unmarshal(content, &s))
	for _, key := range []string{
		"accuracy_before", "accuracy_after", "accuracy_by_step", "wall_seconds", "wall_seconds_by_stage",
		"tokens", "outcomes", "ledger", "policy_sha256",
	} {
		if s[key] == nil {
			t.Errorf("key %q is missing", key)
		}
	}
	for object, keys := range map[string][]string{
		"ledger": {"planned", "segments", "trained", "dropped", "pending"},
		"tokens": {"prompt", "response", "trained", "warm_start", "evaluation"},
	} {
		for _, key := range keys {
			if _, ok := s[object].(map[string]any)[key]; !ok {
				t.Errorf("key %q of %q is missing", key, object)
			}
		}
	}
}
