package measure

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// gradedRow is a valid attempt: its validation score, its test score, its rank, its
// medal and its seconds.
func gradedRow(task string, sample, step int32, validation, test, rank, medal, seconds float64) shard.EvaluationRow {
	return shard.EvaluationRow{
		TaskID: task, Sample: sample, Step: step, AttemptKind: "improve", Outcome: "ok", Score: test, ExecuteSeconds: seconds,
		RewardParts: []shard.RewardPart{
			{Name: env.PartValidation, Value: validation}, {Name: "score", Value: test}, {Name: "humanrank", Value: rank}, {Name: "medal", Value: medal},
		},
	}
}

func brokenRow(task string, sample, step int32, seconds float64) shard.EvaluationRow {
	return shard.EvaluationRow{TaskID: task, Sample: sample, Step: step, AttemptKind: "initial", Outcome: "invalid", ExecuteSeconds: seconds}
}

// TestSubmissions by hand: two tasks, two samples of three attempts each, a budget
// of 8 seconds. What is chosen by validation has ranks
//
//	            task a, sample 0  a, 1  b, 0  b, 1   sample 0  sample 1   mean
//	first             0.2         0.0   0.4   0.6      0.3       0.3      0.3
//	best of 2         0.2         0.5   0.4   0.6      0.3       0.55     0.425
//	best of 3         0.1         0.5   0.4   0.6      0.25      0.55     0.4
//	after 4 s         0.2         0.0   0.4   0.6      0.3       0.3      0.3
//	first valid       0.2         0.5   0.4   0.6      0.3       0.55     0.425
//	oracle            a: 0.9      b: 0.7                0.8
//
// since a's best submission by its test grade says a poor validation score.
func TestSubmissions(t *testing.T) {
	t.Parallel()
	rows := []shard.EvaluationRow{
		gradedRow("a", 0, 0, 0.5, 0.2, 0.2, 0, 2), gradedRow("a", 0, 1, 0.3, 0.9, 0.9, 3, 2), gradedRow("a", 0, 2, 0.6, 0.1, 0.1, 0, 2),
		brokenRow("a", 1, 0, 3), gradedRow("a", 1, 1, 0.1, 0.5, 0.5, 1, 2), brokenRow("a", 1, 2, 2),
		gradedRow("b", 0, 0, 0.9, 0.4, 0.4, 0, 1), brokenRow("b", 0, 1, 1), gradedRow("b", 0, 2, 0.8, 0.7, 0.7, 2, 1),
		gradedRow("b", 1, 0, 0.9, 0.6, 0.6, 2, 4), brokenRow("b", 1, 1, 1), brokenRow("b", 1, 2, 1),
		gradedRow("b", -1, 0, 1, 1, 1, 3, 1), // the greedy one is no sample
	}
	s := SubmissionsOf(rows, 8)
	if s.Tasks != 2 || s.Samples != 2 {
		t.Fatalf("%d tasks, %d samples", s.Tasks, s.Samples)
	}
	want := map[string][2]float64{ // mean rank, share with a medal
		"first attempt": {0.3, 0.25}, "best of 2 attempts": {0.425, 0.5}, "best of 3 attempts": {0.4, 0.5},
		"best after 4 s": {0.3, 0.25}, "first valid": {0.425, 0.5}, "best of the first 2 valid": {0.425, 0.5},
		"oracle: best of 2 samples by test grade": {0.8, 1},
	}
	seen := map[string]SubmissionRow{}
	for _, r := range s.Rows {
		seen[r.Chosen] = r
		if w, ok := want[r.Chosen]; ok && (math.Abs(r.HumanRank.Mean-w[0]) > 1e-12 || math.Abs(r.AnyMedal.Mean-w[1]) > 1e-12) {
			t.Errorf("%s: rank %v, medals %v; want %v", r.Chosen, r.HumanRank.Mean, r.AnyMedal.Mean, w)
		}
	}
	for name := range want {
		if _, ok := seen[name]; !ok {
			t.Errorf("there is no row %q", name)
		}
	}
	// Samples 0.3 and 0.55: half the difference, and over √2 of its root.
	two := seen["best of 2 attempts"].HumanRank
	if math.Abs(two.StandardDeviation-0.125) > 1e-12 || math.Abs(*two.StandardError-0.125) > 1e-12 {
		t.Errorf("standard deviation %v, error %v; want 0.125 both: (0.25/√2)/√2", two.StandardDeviation, *two.StandardError)
	}
	if e := seen["oracle: best of 2 samples by test grade"].HumanRank.StandardError; e != nil {
		t.Errorf("the oracle is one number, and has the error %v", *e)
	}
	if got := s.ByAttempt; len(got) != 2 || got[0] != (AttemptShare{"improve", 7, 1}) || got[1] != (AttemptShare{"initial", 5, 0}) {
		t.Errorf("by attempt: %v", got)
	}
	// What failed for a reason of ours is no attempt, as in analysis/submissions.sql.
	failed := append(slices.Clone(rows), shard.EvaluationRow{TaskID: "a", Sample: 0, Step: 3, AttemptKind: "improve", Outcome: "infra"})
	if diff := cmp.Diff(s, SubmissionsOf(failed, 8)); diff != "" {
		t.Errorf("with a failure of ours (-without +with):\n%s", diff)
	}
	if SubmissionsOf([]shard.EvaluationRow{{Outcome: "ok"}}, 0) != nil {
		t.Error("a task without a leaderboard has a table")
	}
}

// TestSubmissionsOfTurns: an attempt of several messages may submit more than
// once, and what it ends with need be no submission. By hand, one task, ranks
// chosen by validation under a budget of 16 s, in which all end: sample 0 submits 0.2
// (says 0.5, 2 s) and 0.6 (says 0.7, 3 s), then asks for something (1 s); sample 1 submits nothing and then, in its
// second attempt, 0.4 and 0.3, of which the earlier says more.
func TestSubmissionsOfTurns(t *testing.T) {
	t.Parallel()
	turn := func(validation, rank, seconds float64) shard.EvaluationTurn {
		r := gradedRow("", 0, 0, validation, rank, rank, 0, 0)
		return shard.EvaluationTurn{Outcome: r.Outcome, Score: r.Score, RewardParts: r.RewardParts, ExecuteSeconds: seconds}
	}
	asked := brokenRow("a", 0, 0, 6)
	asked.EarlierTurns = []shard.EvaluationTurn{turn(0.5, 0.2, 2), turn(0.7, 0.6, 3)}
	second := gradedRow("a", 1, 1, 0.1, 0.3, 0.3, 0, 5)
	second.EarlierTurns = []shard.EvaluationTurn{turn(0.2, 0.4, 4)}
	s := SubmissionsOf([]shard.EvaluationRow{asked, brokenRow("a", 1, 0, 1), second}, 16)
	want := map[string][2]float64{ // mean rank, share valid
		"first attempt": {0.3, 0.5}, "best of 2 attempts": {0.5, 1}, "first valid": {0.3, 1}, "best of the first 2 valid": {0.5, 1},
		"best after 4 s": {0.1, 0.5}, "best after 8 s": {0.5, 1}, "oracle: best of 2 samples by test grade": {0.6, 1},
	}
	found := 0
	for _, r := range s.Rows {
		if w, ok := want[r.Chosen]; ok {
			found++
			if math.Abs(r.HumanRank.Mean-w[0]) > 1e-12 || math.Abs(r.Valid.Mean-w[1]) > 1e-12 {
				t.Errorf("%s: rank %v, valid %v; want %v", r.Chosen, r.HumanRank.Mean, r.Valid.Mean, w)
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d rows in %v", found, len(want), s.Rows)
	}
	// Within 4 s, generation included, sample 0 has its first program alone and sample 1 none.
	asked.EarlierTurns[0].GenerateSeconds, asked.GenerateSeconds = 2, 2
	second.EarlierTurns[0].GenerateSeconds, second.GenerateSeconds = 1, 1
	late := SubmissionsOf([]shard.EvaluationRow{asked, brokenRow("a", 1, 0, 1), second}, 4)
	if got := late.final(); got.HumanRank.Mean != 0.1 || got.Valid.Mean != 0.5 {
		t.Errorf("what ends after the budget counts: %+v", got)
	}
	if got := s.ByAttempt; len(got) != 2 || got[0] != (AttemptShare{"improve", 1, 1}) || got[1] != (AttemptShare{"initial", 2, 0.5}) {
		t.Errorf("by attempt: %v", got)
	}
}
