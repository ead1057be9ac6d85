package batch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// replay is iteration 2 of a run: its one group is sampled from an entry, which is the whole
// of sample 1 of the group before.
func replay(f *stagetest.Reduction, scores ...float64) {
	f.Helper()
	iteration(f, 1, false, stagetest.Scores(1, 0))
	f.Run()
	entry := shard.Entry{
		EntryID: "i000001-000000/1/0/2", TaskID: f.Rows[0].TaskID, Kind: "improve", ParentID: "i000001-000000",
		Ref: shard.Ref{Iteration: 1, Sample: 1, Messages: int32(len(f.Rows[0].Messages)) + 1},
	}
	f.Check(seal.Remove(f.In.StateOutput))
	f.Check(stagetest.Write(f.In.StateOutput, []shard.Entry{entry}))
	state, stats := f.In.StateOutput, f.In.StatsOutput
	f.Rows[0].ParentID = entry.EntryID
	iteration(f, 2, true, stagetest.Scores(scores...))
	f.In.State, f.In.Stats = state, stats
}

// TestHindsight: the group of iteration 1 has the rewards 1 and 0, so V(P_0) = 1/2 and σ = 1/2, and
// what the policy makes of sample 1 has 1 and 1, so V(P_1) = 1. The response that led there, which
// had −1, gets (1 − 1/2)/(1/2) = 1 in iteration 2, before the two responses of a group without a
// deviation. The ledger of iteration 2 has its own two alone.
func TestHindsight(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 1, "advantage.name=prefix_value")
	replay(f, 1, 1)
	batch, metrics := f.Run()
	var got []string
	for _, s := range batch {
		got = append(got, fmt.Sprintf("%s %d: %v in %d, %v old", s.InstanceID, s.Sample, s.TurnAdvantages, s.IterationSampled, s.OldLogProbs[1]))
	}
	want := []string{"i000001-000000 1: [1] in 1, -0.5 old", "i000002-000000 0: [0] in 2, -0.5 old", "i000002-000000 1: [0] in 2, -0.5 old"}
	if diff := cmp.Diff(want, got); diff != "" || metrics["hindsight_segments"] != 1 {
		t.Errorf("%v hindsight segments; batch (-want +got):\n%s", metrics["hindsight_segments"], diff)
	}
	if diff := cmp.Diff([]string{"trained", "trained"}, f.Reasons()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// TestNoHindsight: an entry that has left the state is none, and a value that is no news is
// no credit; with other advantages nothing is looked for.
func TestNoHindsight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings []string
		scores   []float64
		gone     bool
	}{
		"gone":    {[]string{"advantage.name=prefix_value"}, []float64{1, 1}, true},
		"no news": {[]string{"advantage.name=prefix_value"}, []float64{1, 0}, false},
		"group":   {nil, []float64{1, 1}, false},
	} {
		f := stagetest.NewReduction(t, 1, c.settings...)
		replay(f, c.scores...)
		if c.gone {
			f.In.State = ""
		}
		if batch, metrics := f.Run(); len(batch) != 2 || metrics["hindsight_segments"] != 0 {
			t.Errorf("%s: %d sequences, %v of earlier iterations", name, len(batch), metrics["hindsight_segments"])
		}
	}
}

// TestHindsightOfWhatIsLost names the file that the entry's response was in.
func TestHindsightOfWhatIsLost(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 1, "advantage.name=prefix_value")
	replay(f, 1, 1)
	f.Check(seal.Remove(f.Path("1-rollout.parquet")))
	err := f.Try()
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `entry "i000001-000000/1/0/2" continues`) || !strings.Contains(err.Error(), "1-rollout.parquet") {
		t.Errorf("exit %d, %v", exitcode.Code(err), err)
	}
}
