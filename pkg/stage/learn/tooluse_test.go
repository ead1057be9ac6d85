package learn_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// TestTurnsOfToolUse: over the turns of tool use, too, the ratio is 1 to the
// last bit; and the curriculum takes up every prefix of an episode that ends
// with a message of the policy, each of which an episode can go on from.
func TestTurnsOfToolUse(t *testing.T) {
	t.Parallel()
	r := stagetest.NewOf(t, "tooluse-smoke", "loss.epochs=2", "curriculum.exit.buffer_size=100", "select=[]")
	got := update(r, inputs(r, batch(r), "learned"))
	if got["trained_tokens"] == 0 || got["first_step_ratio_deviation_max"] != 0 || got["ratio_deviation_max"] == 0 {
		t.Errorf("the first epoch's ratios deviate from 1 by up to %g: %v", got["first_step_ratio_deviation_max"], got)
	}
	turns := map[int32]int{}
	played := map[shard.TraceName][]shard.Message{}
	for _, row := range stagetest.Read[shard.Rollout](r, r.Path("rollout.parquet")) {
		turns[row.Turns]++
		played[row.Name()] = row.Messages
	}
	if turns[2] == 0 || turns[3] == 0 {
		t.Errorf("episodes by their turns: %v; the test shows little", turns)
	}
	prefixes := map[int32]int{}
	for _, entry := range stagetest.Read[shard.Entry](r, r.Path("state.parquet")) {
		prefixes[entry.Turn]++
		task, known := r.Env.Set().Task(entry.TaskID)
		if !known {
			t.Fatalf("there is no task %q", entry.TaskID)
		}
		history := played[shard.TraceName{InstanceID: entry.ParentID, Sample: entry.Ref.Sample}][:entry.Ref.Messages]
		prompt, err := r.Env.Prompt(task, shard.KindImprove, env.Parent{Messages: history})
		r.Check(err)
		begun, err := r.Env.Begin(r.Context(), task, prompt)
		r.Check(err)
		r.Check(begun.Close())
	}
	if prefixes[1] != 12 || prefixes[2] == 0 || prefixes[2] > prefixes[1] {
		t.Errorf("prefixes by their turns: %v, want one of the first turn from each group", prefixes)
	}
}

// An episode that fills the context ends with what the policy said last: it
// is scored by that, and can be learned from.
func TestEpisodesThatFillTheContext(t *testing.T) {
	t.Parallel()
	for _, longest := range []int{200, 260, 330} {
		r := stagetest.NewOf(t, "tooluse-smoke", "select=[]")
		r.LimitContext(longest)
		got := update(r, inputs(r, batch(r), "learned"))
		if got["first_step_ratio_deviation_max"] != 0 {
			t.Errorf("context of %d: ratios deviate from 1 by up to %g", longest, got["first_step_ratio_deviation_max"])
		}
		cut := 0
		for _, row := range stagetest.Read[shard.Rollout](r, r.Path("rollout.parquet")) {
			last := row.Messages[len(row.Messages)-1]
			if row.Turns > 0 && (len(row.TokenIDs) > longest || last.Role != "assistant" || !row.LossMask[len(row.LossMask)-1]) {
				t.Errorf("context of %d: %d tokens in %d turns, the last message is of the role %s", longest, len(row.TokenIDs), row.Turns, last.Role)
			}
			if row.Turns > 0 && row.FinishReason == string(policy.FinishLength) && len(row.TokenIDs) < longest {
				cut++
			}
		}
		for _, row := range stagetest.Read[shard.Score](r, r.Path("score.parquet")) {
			if row.Outcome == string(shard.OutcomeInfra) {
				t.Errorf("context of %d: what has no room is called a failure of ours: %s", longest, row.Feedback)
			}
		}
		if cut == 0 {
			t.Errorf("context of %d: no episode was cut by a result; the test shows little", longest)
		}
	}
}
