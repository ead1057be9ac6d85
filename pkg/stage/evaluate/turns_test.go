package evaluate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// TestEarlierTurns: an attempt's row is the score of its last message and has
// those on the messages before it; its seconds are those of all. An attempt
// without room has neither score nor seconds.
func TestEarlierTurns(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "evaluation.samples=1", "evaluation.greedy=false")
	instances, err := evaluate.Instances(r.Env, r.Recipe.Evaluation, r.Recipe.Seed)
	r.Check(err)
	said := func(step int32) shard.Rollout {
		return shard.Rollout{Step: step, Kind: "initial", Messages: []shard.Message{{Role: "user"}, {Role: "assistant", Content: "7"}}, PromptMessages: 1}
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
	want := []shard.EvaluationTurn{
		{Outcome: "ok", Score: 0.5, RawScore: 12, RewardParts: []shard.RewardPart{{Name: "humanrank", Value: 0.5}}, ExecuteSeconds: 2},
		{Outcome: "wrong", RewardParts: []shard.RewardPart{}, ExecuteSeconds: 1},
	}
	if diff := cmp.Diff(want, rows[0].EarlierTurns); diff != "" {
		t.Error(diff)
	}
}
