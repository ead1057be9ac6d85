package buffer_test

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// Iteration 0 makes a state and plans of nothing. Iteration 1 makes a batch of what its
// plan sampled, and the state and the next plans from the scores; the reward's statistics
// of them stay. What each output is made from, it cites.
func TestRun(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 2, "curriculum.name=exit", "curriculum.exit.min_buffer_size=1", "reward.name=running_mean")
	f.Shard("a", f.Rows, stagetest.Scores(1, 0, 0.5), stagetest.Scores(0, 1, 0.25))
	next := f.In
	f.In = buffer.Inputs{StateOutput: f.Path("0-state.parquet"), StatsOutput: f.Path("0-stats.parquet"), PlanOutputs: []buffer.PlanRef{{Iteration: 1, Path: f.Path("0-plan.parquet")}}, PlanRows: 3}
	f.Check(f.Try())
	if rows := stagetest.Read[shard.Instance](f.Rig, f.Path("0-plan.parquet")); len(rows) != 3 || rows[0].InstanceID != "i000001-000000" {
		t.Errorf("the first plan is %+v", rows)
	}
	if state := stagetest.Read[shard.Entry](f.Rig, f.In.StateOutput); len(state) != 0 {
		t.Errorf("the first state has %d entries", len(state))
	}

	f.Check(stagetest.Write(f.Path("known.parquet"), []shard.Stat{}))
	first := f.In
	f.In = next
	f.In.State, f.In.Stats = first.StateOutput, f.Path("known.parquet")
	f.In.WaveOf = func(shard.Ref, string) (buffer.WaveRef, error) {
		return buffer.WaveRef{Rollout: f.In.Shards[0].Rollout, Score: f.In.Shards[0].Score}, nil
	}
	batch, metrics := f.Run()
	if len(batch) != 6 || metrics["responses"] != 6 {
		t.Errorf("%d sequences, metrics %v", len(batch), metrics)
	}
	if state := stagetest.Read[shard.Entry](f.Rig, f.In.StateOutput); len(state) == 0 || state[0].TaskID != f.Rows[0].TaskID && state[0].TaskID != f.Rows[1].TaskID {
		t.Errorf("the state is %+v", state)
	}
	var stats int // that the reward has made of the six scores
	for _, s := range stagetest.Read[shard.Stat](f.Rig, f.In.StatsOutput) {
		if s.Axis == shard.StatReward && s.Iteration == 1 {
			stats++
		}
	}
	if stats != 6 {
		t.Errorf("of the reward's statistics there are %d", stats)
	}
	read := []string{"0-state.parquet", "known.parquet", "plan.parquet", "a-rollout.parquet", "a-score.parquet"}
	for path, kind := range map[string]string{f.In.BatchOutput: "batch", f.In.LedgerOutput: "ledger", f.In.StateOutput: "state", f.In.StatsOutput: "stats", f.In.PlanOutputs[0].Path: "plan"} {
		m, err := seal.Read(t.Context(), path, seal.Options{})
		f.Check(err)
		var cited []string
		for _, input := range m.Inputs {
			cited = append(cited, input.Path)
		}
		if m.Stage != "buffer" || m.Iteration != 1 || m.Shard != 0 || m.Of != 1 || m.Started.IsZero() || !slices.Equal(cited[:min(5, len(cited))], read) {
			t.Errorf("%s: %s of iteration %d, shard %d of %d, from %q", kind, m.Stage, m.Iteration, m.Shard, m.Of, cited)
		}
	}
}
