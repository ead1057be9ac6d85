package evaluate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// transcript is an environment whose last message alone tells nothing.
type transcript struct{ env.Env }

func (transcript) Traits() env.Traits { return env.Traits{Transcript: true} }

// TestEarlierTurns: an attempt's row is the score of its last message and has
// those on the messages before it; its seconds are those of all. An attempt
// without room has neither score nor seconds.
func TestEarlierTurns(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "evaluation.samples=1", "evaluation.greedy=false")
	instances, err := evaluate.Instances(r.Env, r.Recipe.Evaluation, r.Recipe.Seed)
	r.Check(err)
	said := func(step int32) shard.Rollout {
		return shard.Rollout{Step: step, Kind: "initial", Messages: []shard.Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: "7"}, {Role: "user", Content: "no"}}, PromptMessages: 1, ResponseTokens: 2}
	}
	score := shard.Score{Outcome: string(shard.OutcomeOK), Turns: []shard.TurnScore{
		{Outcome: "ok", NormalizedScore: 0.5, RawScore: 12, RewardParts: []shard.RewardPart{{Name: "humanrank", Value: 0.5}}, ExecuteSeconds: 2},
		{Outcome: "wrong", ExecuteSeconds: 1},
		{Outcome: "ok", NormalizedScore: 0.25, ExecuteSeconds: 4},
	}}
	trace := evaluate.Trace{Rows: []shard.Rollout{said(0), said(1)}, Score: score}
	rows, err := evaluate.Rows(r.Recipe.Evaluation, r.Env, instances[:1], map[shard.TraceName]evaluate.Trace{{InstanceID: instances[0].InstanceID}: trace}, 3)
	r.Check(err)
	if len(rows) != 2 || rows[0].Score != 0.25 || rows[0].ExecuteSeconds != 7 || rows[1].Outcome != "no_room" || rows[1].Score != 0 || rows[1].ExecuteSeconds != 0 || len(rows[1].EarlierTurns) != 0 {
		t.Fatalf("rows %+v", rows)
	}
	for step, response := range []string{"7", ""} {
		if row := rows[step]; row.Response != response || row.Prompt != "q" || row.ResponseTokens != 2 || row.PolicyVersion != 3 || row.Step != int32(step) || row.AttemptKind != "initial" {
			t.Errorf("attempt %d: %+v", step, row)
		}
	}
	traces := map[shard.TraceName]evaluate.Trace{{InstanceID: instances[0].InstanceID}: trace}
	if rows, err := evaluate.Rows(r.Recipe.Evaluation, transcript{r.Env}, instances[:1], traces, 3); err != nil || rows[0].Response != "7\nno" {
		t.Errorf("of a transcript: %+v, %v", rows, err)
	}
	want := []shard.EvaluationTurn{
		{Outcome: "ok", Score: 0.5, RawScore: 12, RewardParts: []shard.RewardPart{{Name: "humanrank", Value: 0.5}}, ExecuteSeconds: 2},
		{Outcome: "wrong", RewardParts: []shard.RewardPart{}, ExecuteSeconds: 1},
	}
	if diff := cmp.Diff(want, rows[0].EarlierTurns); diff != "" {
		t.Error(diff)
	}
}
