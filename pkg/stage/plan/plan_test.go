package plan_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// TestRead: what is known before an iteration is the state and the statistics of the one
// before, those of the reward apart, and what was read is cited.
func TestRead(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 1)
	state, stats := f.Path("old-state.parquet"), f.Path("old-stats.parquet")
	f.Check(stagetest.Write(state, []shard.Entry{{EntryID: "e"}}))
	f.Check(stagetest.Write(stats, []shard.Stat{{Axis: shard.StatReward, Name: "r"}, {Axis: shard.StatCurriculum, Name: "c"}}))
	for _, c := range []struct {
		iteration    int
		state, stats string
		want         string // iteration, entries, statistics of the curriculum and the reward, files read
		fails        bool
	}{
		{0, "", "", "0 0 0 0 0", false},
		{3, "", "", "2 0 0 0 0", false},
		{3, state, "", "2 1 0 0 1", false},
		{3, "", stats, "2 0 1 1 1", false},
		{3, state, stats, "2 1 1 1 2", false},
		{3, f.Path("none"), stats, "", true},
		{3, state, f.Path("none"), "", true},
	} {
		known, cited, err := plan.Read(t.Context(), f.Job.Files, c.iteration, c.state, c.stats)
		if c.fails {
			if !errors.Is(err, seal.ErrNotSealed) {
				t.Errorf("%+v: error %v", c, err)
			}
			continue
		}
		f.Check(err)
		got := fmt.Sprint(known.State.Iteration, len(known.State.Entries), len(known.State.Stats), len(known.RewardStats), len(cited))
		if got != c.want || len(known.RewardStats) > 0 && known.RewardStats[0].Name != "r" {
			t.Errorf("%+v: %s with statistics of the reward %+v", c, got, known.RewardStats)
		}
	}
}

// TestPlansOfSeveralIterations: each is written, with rows of its own iteration, and the state
// has what the curriculum measures of itself.
func TestPlansOfSeveralIterations(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 1, "curriculum.name=previous", "curriculum.previous.improve=0")
	for iteration := 3; iteration <= 4; iteration++ {
		f.In.PlanOutputs = append(f.In.PlanOutputs, plan.Ref{Iteration: iteration, Path: f.Path(fmt.Sprint(iteration))})
	}
	f.Shard("a", f.Rows, stagetest.Scores(0, 1))
	f.Run()
	for _, ref := range f.In.PlanOutputs {
		for row, instance := range stagetest.Read[shard.Instance](f.Rig, ref.Path) {
			if instance.InstanceID != plan.InstanceID(ref.Iteration, row) || int(instance.Iteration) != ref.Iteration {
				t.Errorf("plan of iteration %d, row %d: %+v", ref.Iteration, row, instance)
			}
		}
	}
	m, err := seal.Read(t.Context(), f.In.StateOutput, seal.Options{})
	f.Check(err)
	if m.Metrics["curriculum_instances"] != 2 || len(m.Metrics) < 2 {
		t.Errorf("metrics of the state: %v", m.Metrics)
	}
}
