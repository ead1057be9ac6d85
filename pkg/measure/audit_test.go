package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// Two shards, one of them all zero, counted by hand.
func TestAudit(t *testing.T) {
	t.Parallel()
	shard := func(metrics map[string]float64) finishedTask {
		return finishedTask{Task: graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}}, metrics: metrics}
	}
	got := audit([]finishedTask{
		shard(map[string]float64{
			"responses": 8, "reward_min": 0, "reward_max": 0, "reason/no answer": 6, "reason/budget": 2,
			"form/integer": 8, "compared/math-verify-0.8": 8, "accepts/math-verify-0.8": 1,
		}),
		shard(map[string]float64{
			"responses": 60, "reward_min": 0, "reward_max": 1, "reason/equal": 6, "reason/not equal": 54,
			"form/integer": 10, "form_right/integer": 6, "form/set": 50, "compared/math-verify-0.8": 60, "refuses/math-verify-0.8": 2, "compared/exact": 60,
		}),
		shard(map[string]float64{"responses": 8}), // of a version that kept no reasons
	})
	want := &RewardAudit{
		Responses: 68, Reasons: map[string]int{"no answer": 6, "budget": 2, "equal": 6, "not equal": 54}, BudgetHits: 2,
		Forms:         []FormAudit{{Form: "set", Responses: 50}, {Form: "integer", Responses: 18, Right: 6}},
		Disagreements: []VerifierAudit{{Verifier: "exact", Compared: 60}, {Verifier: "math-verify-0.8", Compared: 68, Accepts: 1, Refuses: 2}},
		Shards:        2, ConstantShards: 1, ZeroShards: 1,
		Warnings: []string{
			"all rewards are 0 in 1 of 2 shards: nothing can be learned from it; look at the reasons and at a few responses",
			"2 answers need more work than one verification may do: a policy may be learning to write such answers",
			"none of 50 answers to references of the form set is right",
			"math-verify-0.8 scores 3 of 68 responses otherwise",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	// What is on a bound is not above it: a budget of 1 in 100, and half unreadable.
	reasons := map[string]float64{"reward_min": .5, "reward_max": .5, "responses": 8, "reason/budget": 1, "reason/cannot be read": 30, "reason/no answer": 20, "reason/equal": 49}
	low, high := map[string]float64{"reward_min": 0, "reward_max": 1}, shard(reasons)
	if got := audit([]finishedTask{shard(low), high, shard(low), shard(low)}); got.ConstantShards != 1 || got.Responses != 100 || len(got.Warnings) > 0 {
		t.Errorf("on the bounds: %+v", got)
	}
	if audit(nil) != nil {
		t.Error("an audit of nothing")
	}
}
