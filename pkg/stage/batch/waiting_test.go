package batch_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// iteration makes the responses of iteration k, from 1: groups of scores, in a
// file of its own.
func iteration(f *stagetest.Reduction, k int, last bool, groups ...[]stagetest.Verdict) {
	f.Helper()
	name := func(what string) string { return f.Path(fmt.Sprintf("%d-%s", k, what)) }
	rows := make([]shard.Instance, len(groups))
	for i := range rows {
		rows[i] = f.Rows[0]
		rows[i].InstanceID = plan.InstanceID(k, i)
		rows[i].GroupID, rows[i].Iteration = rows[i].InstanceID, int32(k)
	}
	f.Check(stagetest.Write(name("plan"), rows))
	f.In.Shards, f.In.Waiting = nil, f.In.WaitingOutput
	f.Shard(fmt.Sprint(k), rows, groups...)
	f.In.Shards[0].Iteration = k
	f.In.Iteration, f.In.Plans = k, []buffer.PlanRef{{Iteration: k, Path: name("plan")}}
	f.In.BatchOutput, f.In.LedgerOutput, f.In.StateOutput, f.In.StatsOutput = name("batch"), name("ledger"), name("state"), name("stats")
	f.In.WaitingOutput, f.In.PlanOutputs = name("waiting"), []buffer.PlanRef{{Iteration: k + 1, Path: name("next")}}
	if last {
		f.In.WaitingOutput, f.In.PlanOutputs = "", nil
	}
	f.In.WaveOf = func(ref shard.Ref, _ string) (buffer.WaveRef, error) {
		return buffer.WaveRef{Rollout: f.Path(fmt.Sprintf("%d-rollout.parquet", ref.Iteration))}, nil
	}
}

// waits is the number of segments that wait after the iteration.
func waits(f *stagetest.Reduction) int {
	f.Helper()
	return len(stagetest.Read[shard.Waiting](f.Rig, f.In.WaitingOutput))
}

// TestBatchOfSeveralIterations: with B = 5 and 2, 2 and 3 retained segments the first
// batches are empty and the third has all seven, oldest first, just as if one
// iteration had sampled them; and the eighth is dropped when the run ends.
func TestBatchOfSeveralIterations(t *testing.T) {
	t.Parallel()
	groups := [][]stagetest.Verdict{stagetest.Scores(1, 0), stagetest.Scores(0, 1), {{Score: 1, Tokens: 4}, {Tokens: 1}, {Tokens: 3}}}
	settings := append(centred, "select=[constant_group]", "advantage.whitening=true", "loss.mini_batches=2")
	whole := stagetest.NewReduction(t, 1, settings...)
	iteration(whole, 3, false, groups...)
	want, _ := whole.Run()

	f := stagetest.NewReduction(t, 1, append(settings, "schedule.batch_segments=5")...)
	for i, c := range []struct {
		groups  [][]stagetest.Verdict
		ledger  []string
		waiting int
	}{
		{[][]stagetest.Verdict{groups[0], stagetest.Scores(1, 1)}, []string{"dropped constant_group", "dropped constant_group"}, 2},
		{groups[1:2], nil, 4},
	} {
		iteration(f, i+1, false, c.groups...)
		batch, metrics := f.Run()
		if diff := cmp.Diff(c.ledger, f.Reasons()); len(batch) > 0 || waits(f) != c.waiting || metrics["waiting"] != float64(c.waiting) || diff != "" {
			t.Errorf("iteration %d: %d sequences, %d waiting, metrics %v, want 0 and %d; ledger (-want +got):\n%s", i+1, len(batch), waits(f), metrics, c.waiting, diff)
		}
	}
	iteration(f, 3, false, groups[2])
	got, metrics := f.Run()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(shard.Sequence{}, "InstanceID", "GroupID", "IterationSampled")); diff != "" {
		t.Errorf("batch of one iteration (-) and of three (+):\n%s", diff)
	}
	var sampled []string
	for _, row := range stagetest.Read[shard.LedgerRow](f.Rig, f.In.LedgerOutput) {
		sampled = append(sampled, fmt.Sprintf("%d in %d %s %s", row.IterationSampled, row.Iteration, row.Fate, row.InstanceID))
	}
	first, second, third := "1 in 3 trained i000001-000000", "2 in 3 trained i000002-000000", "3 in 3 trained i000003-000000"
	if diff := cmp.Diff([]string{first, first, second, second, third, third, third}, sampled); diff != "" || waits(f) != 0 || metrics["trained"] != 7 || metrics["groups"] != 1 {
		t.Errorf("%d waiting, metrics %v, ledger (-want +got):\n%s", waits(f), metrics, diff)
	}
	ages := map[int32]int{}
	for _, s := range got {
		ages[s.IterationSampled]++
	}
	if diff := cmp.Diff(map[int32]int{1: 2, 2: 2, 3: 3}, ages); diff != "" {
		t.Errorf("sequences by the iteration that sampled them (-want +got):\n%s", diff)
	}
	iteration(f, 4, true, stagetest.Scores(0, 1), stagetest.Scores(1, 1))
	batch, _ := f.Run()
	if diff := cmp.Diff([]string{"dropped batch_not_full", "dropped batch_not_full", "dropped constant_group", "dropped constant_group"}, f.Reasons()); len(batch) != 0 || diff != "" {
		t.Errorf("at the end: %d sequences, ledger (-want +got):\n%s", len(batch), diff)
	}
}

// TestLastBatchOfSeveralIterations: what waited is dropped with the last iteration's
// own where both together are too few, and learned from where they are enough.
func TestLastBatchOfSeveralIterations(t *testing.T) {
	t.Parallel()
	for enough, want := range map[int]string{4: "trained", 5: "dropped batch_not_full"} {
		f := stagetest.NewReduction(t, 1, append(centred, fmt.Sprintf("schedule.batch_segments=%d", enough))...)
		iteration(f, 1, false, stagetest.Scores(1, 0))
		f.Run()
		iteration(f, 2, true, stagetest.Scores(1, 0))
		f.Run()
		if diff := cmp.Diff([]string{want, want, want, want}, f.Reasons()); diff != "" {
			t.Errorf("batches of %d: ledger (-want +got):\n%s", enough, diff)
		}
	}
}

// TestBatchOfOneSegment: where every iteration has a segment to learn from, batches
// of one segment or more are those of iterations, to the byte.
func TestBatchOfOneSegment(t *testing.T) {
	t.Parallel()
	digests := map[string][2]string{}
	for i, segments := range []string{"0", "1"} {
		f := stagetest.NewReduction(t, 1, append(centred, "schedule.batch_segments="+segments, "select=[constant_group, {overlong: {mask: true}}]")...)
		iteration(f, 1, false, []stagetest.Verdict{{Score: 1}, {Finish: "length"}}, stagetest.Scores(1, 0))
		_, metrics := f.Run()
		if waiting, counted := metrics["waiting"]; waiting != 0 || counted != (i == 1) {
			t.Errorf("schedule.batch_segments %s: %v segments wait, counted %v", segments, waiting, counted)
		}
		for _, path := range []string{f.In.BatchOutput, f.In.LedgerOutput, f.In.StateOutput, f.In.StatsOutput, f.In.PlanOutputs[0].Path} {
			m, err := seal.Verify(t.Context(), path, seal.Options{})
			f.Check(err)
			both := digests[filepath.Base(path)]
			both[i] = m.ContentSHA256
			digests[filepath.Base(path)] = both
		}
	}
	for name, both := range digests {
		if both[0] != both[1] {
			t.Errorf("%s: content %s of iterations and %s of one segment", name, both[0], both[1])
		}
	}
}

// TestMaskedSegmentsWait: a segment without a gradient does not fill a batch. It
// waits with the others, for it counts in the denominators: a token of the one that
// is learned from in the first iteration weighs 1/(2+6+2+2).
func TestMaskedSegmentsWait(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 1, append(centred, "schedule.batch_segments=3", "select=[constant_group, {overlong: {mask: true}}]", "weight=token_mean")...)
	iteration(f, 1, false, []stagetest.Verdict{{Score: 1}, {Finish: "length", Tokens: 6}})
	if batch, _ := f.Run(); len(batch) != 0 || waits(f) != 2 {
		t.Fatalf("%d sequences, %d waiting; want 0 and 2", len(batch), waits(f))
	}
	iteration(f, 2, false, stagetest.Scores(1, 0))
	batch, _ := f.Run()
	if diff := cmp.Diff([]string{"trained", "masked overlong", "trained", "trained"}, f.Reasons()); diff != "" || len(batch) != 3 {
		t.Fatalf("%d sequences; ledger (-want +got):\n%s", len(batch), diff)
	}
	if got, want := batch[0].TurnWeights[0], 1./12; got != want {
		t.Errorf("a token weighs %v, want %v", got, want)
	}
}

// TestWaitingSegmentsOfOtherResponses: credit is of the very responses that got it.
func TestWaitingSegmentsOfOtherResponses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(f *stagetest.Reduction)
		want  string
	}{
		"replaced": {func(f *stagetest.Reduction) {
			rows := stagetest.Read[shard.Rollout](f.Rig, f.Path("1-rollout.parquet"))
			rows[0].LogProbs[1] = -0.25
			f.Check(seal.Remove(f.Path("1-rollout.parquet")))
			f.Check(stagetest.Write(f.Path("1-rollout.parquet"), rows))
		}, `does not hold the response to instance "i000001-000000", sample 0, that got its credit`},
		"gone": {func(f *stagetest.Reduction) { f.Check(seal.Remove(f.Path("1-rollout.parquet"))) }, "reading the segments that wait for a batch"},
	} {
		f := stagetest.NewReduction(t, 1, append(centred, "schedule.batch_segments=3")...)
		iteration(f, 1, false, stagetest.Scores(1, 0))
		f.Run()
		iteration(f, 2, false, stagetest.Scores(1, 0))
		c.spoil(f)
		if err := f.Try(); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: exit %d, %v; want %q", name, exitcode.Code(err), err, c.want)
		}
	}
}
