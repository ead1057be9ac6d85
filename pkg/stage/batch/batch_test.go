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
)

// advantages are those of each sequence, which is one turn.
func advantages(t *testing.T, batch []shard.Sequence) []float64 {
	t.Helper()
	var out []float64
	for _, s := range batch {
		for i := range s.TokenIDs {
			if s.Turns[i] != 0 || s.Positions[i] != int32(i) {
				t.Errorf("%s sample %d: turns %v, mask %v, positions %v", s.InstanceID, s.Sample, s.Turns, s.LossMask, s.Positions)
			}
		}
		if len(s.TurnAdvantages) != 1 || s.TurnFactors[0] != 1 || s.TurnSegments[0] != 0 {
			t.Errorf("%s sample %d: advantages %v, factors %v, segments %v of one turn", s.InstanceID, s.Sample, s.TurnAdvantages, s.TurnFactors, s.TurnSegments)
		}
		out = append(out, float64(s.TurnAdvantages[0]))
	}
	return out
}

var near = cmpopts.EquateApprox(0, 1e-6)

// centred makes advantages r - mean, which a reader can check in the head.
var centred = []string{"advantage.scale=none", "select=[constant_group]"}

// TestStepImprovement: the reward of an iteration step is max(0, Δ/Δmax)
// (ExIt §4). From 0.4 there is 0.6 to gain: 0.7 gains half of
// it, 1 all, 0.2 and 0.4 nothing.
func TestStepImprovement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		kind shard.Kind
		base float64
		got  []stagetest.Verdict
		on   bool
		want []float64 // rewards - their mean; nil: the group is dropped as constant
	}{
		{"improve", shard.KindImprove, 0.4, stagetest.Scores(0.7, 1, 0.2, 0.4), true, []float64{0.125, 0.625, -0.375, -0.375}},
		{"diverge", shard.KindDiverge, 0.4, stagetest.Scores(0.7, 1, 0.2, 0.4), true, []float64{0.125, 0.625, -0.375, -0.375}},
		{"a base task is rewarded for its quality", shard.KindInitial, 0, stagetest.Scores(0.7, 1, 0.3, 0.4), true, []float64{0.1, 0.4, -0.3, -0.2}},
		{"nothing is left to gain", shard.KindImprove, 1, stagetest.Scores(1, 0, 1, 0), true, nil},
		{"the recipe rewards quality", shard.KindImprove, 0.4, stagetest.Scores(0.7, 1, 0.3, 0.4), false, []float64{0.1, 0.4, -0.3, -0.2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := stagetest.NewReduction(t, 1, append(centred, "reward.name="+map[bool]string{true: "improvement", false: "verdict"}[c.on])...)
			f.Rows[0].Kind, f.Rows[0].BaseScore = string(c.kind), c.base
			f.In.Plans[0].Path = f.Path("kinds.parquet")
			f.Check(stagetest.Write(f.In.Plans[0].Path, f.Rows))
			f.Shard("a", f.Rows, c.got)
			batch, _ := f.Run()
			if diff := cmp.Diff(c.want, advantages(t, batch), near); diff != "" {
				t.Errorf("advantages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOurFailuresEnterNoStatistic: of rewards 1, 0 and two that we failed to
// give, the mean is a half; the failures are counted with their reasons.
func TestOurFailuresEnterNoStatistic(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 1, centred...)
	f.Shard("a", f.Rows, []stagetest.Verdict{{Score: 1}, {Outcome: shard.OutcomeInfra}, {Outcome: shard.OutcomeWrong}, {Outcome: shard.OutcomePreempted}})
	batch, metrics := f.Run()
	if diff := cmp.Diff([]float64{0.5, -0.5}, advantages(t, batch), near); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"trained", "dropped infra", "trained", "dropped preempted"}, f.Reasons()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	for name, want := range map[string]float64{
		"outcome_ok": 1, "outcome_wrong": 1, "outcome_infra": 1, "outcome_preempted": 1, "dropped_infra": 1, "dropped_preempted": 1,
		"trained": 2, "responses": 2, "reward_mean": 0.5, "groups": 1, "sequences": 2, "tokens": 6, "trained_tokens": 4,
	} {
		if metrics[name] != want {
			t.Errorf("metric %s is %g, want %g", name, metrics[name], want)
		}
	}
}

// TestConstantGroupsOfExIt: under the preset exit responses of a group without a
// difference are learned from, with the advantage 0: ExIt Eq. 4 has a KL term.
func TestConstantGroupsOfExIt(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 2, "preset=exit")
	f.Shard("a", f.Rows, stagetest.Scores(1, 1, 1, 1), stagetest.Scores(0, 1, 1, 0))
	batch, _ := f.Run()
	if diff := cmp.Diff([]float64{0, 0, 0, 0, -1, 1, 1, -1}, advantages(t, batch), near); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
}

// TestSelectLeavesItsReasons: what is cut off keeps its part in the
// statistics and loses its gradient (DAPO, section 3.4); groups without a
// difference teach nothing.
func TestSelectLeavesItsReasons(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 3, append(centred, "select=[constant_group, overlong]")...)
	f.Shard("a", f.Rows,
		[]stagetest.Verdict{{Score: 1}, {Score: 0, Finish: "length"}, {Score: 0}, {Score: 0}},
		stagetest.Scores(1, 1, 1, 1),
		stagetest.Scores(0, 0, 0, 1),
	)
	batch, _ := f.Run()
	if diff := cmp.Diff([]float64{0.75, -0.25, -0.25, -0.25, -0.25, -0.25, 0.75}, advantages(t, batch), near); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
	want := []string{
		"trained", "dropped overlong", "trained", "trained",
		"dropped constant_group", "dropped constant_group", "dropped constant_group", "dropped constant_group",
		"trained", "trained", "trained", "trained",
	}
	if diff := cmp.Diff(want, f.Reasons()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// TestCutsDoNotShow: the same responses in one shard or three, and in any
// order of the shards' rows, come to the same bytes.
func TestCutsDoNotShow(t *testing.T) {
	t.Parallel()
	groups := [][]stagetest.Verdict{stagetest.Scores(1, 0, 0, 1), stagetest.Scores(0, 1, 0, 0), stagetest.Scores(1, 1, 1, 0), stagetest.Scores(0, 0, 0, 1), stagetest.Scores(1, 0, 1, 1)}
	whole := stagetest.NewReduction(t, 5, "loss.mini_batches=2")
	whole.Shard("a", whole.Rows, groups...)
	whole.Run()
	cut := stagetest.NewReduction(t, 5, "loss.mini_batches=2")
	cut.Shard("a", cut.Rows[:1], groups[:1]...)
	cut.Shard("b", cut.Rows[1:4], groups[1:4]...)
	cut.Shard("c", cut.Rows[4:], groups[4:]...)
	cut.Run()
	for _, name := range []string{"batch.arrow", "ledger.parquet", "state.parquet", "stats.parquet", "next.parquet"} {
		if got, want := cut.Digest(cut.Path(name)), whole.Digest(whole.Path(name)); got != want {
			t.Errorf("%s: three shards %s, one %s", name, got, want)
		}
	}
}

// TestCarriedAndLost: a late group of an earlier iteration is trained on with
// its age, after this iteration's; what was given up or came too late has its
// disposition in the ledger, response by response.
func TestCarriedAndLost(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 2, append(centred, "rollout.group=2")...)
	later := make([]shard.Instance, 4)
	for i := range later {
		later[i] = f.Rows[0]
		later[i].InstanceID = fmt.Sprintf("i000002-%06d", i)
		later[i].GroupID, later[i].Iteration = later[i].InstanceID, 2
	}
	second := f.Path("second.parquet")
	f.Check(stagetest.Write(second, later))
	f.In.Iteration = 2
	f.In.Plans = []buffer.PlanRef{{Iteration: 2, Path: second}, f.In.Plans[0]}
	f.In.PlanOutputs[0].Iteration = 3
	f.Shard("late", f.Rows[1:], stagetest.Scores(1, 0))
	f.Shard("now", later[:1], stagetest.Scores(0, 1))
	f.In.Shards[1].Iteration = 2
	f.In.LeftOut = []buffer.ShardRef{{Iteration: 2, FirstRow: 1, LastRow: 2}}
	f.In.RunEnded = []buffer.ShardRef{{Iteration: 2, FirstRow: 2, LastRow: 9}}
	batch, _ := f.Run()
	var ages []int32
	for _, s := range batch {
		ages = append(ages, s.IterationSampled)
	}
	if diff := cmp.Diff([]int32{2, 2, 1, 1}, ages); diff != "" {
		t.Errorf("iterations of the batch (-want +got):\n%s", diff)
	}
	want := []string{
		"trained", "trained", "trained", "trained", "dropped left_out", "dropped left_out",
		"dropped run_ended", "dropped run_ended", "dropped run_ended", "dropped run_ended",
	}
	if diff := cmp.Diff(want, f.Reasons()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestRowsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *stagetest.Reduction){
		"a score of another response": func(f *stagetest.Reduction) {
			f.Shard("other", f.Rows[1:], stagetest.Scores(1, 0))
			f.In.Shards[0].Score = f.In.Shards[1].Score
			f.In.Shards = f.In.Shards[:1]
		},
		"fewer scores than responses": func(f *stagetest.Reduction) {
			f.Shard("few", f.Rows[:1], stagetest.Scores(1))
			f.In.Shards[0].Score = f.In.Shards[1].Score
			f.In.Shards = f.In.Shards[:1]
		},
		"a group of no plan": func(f *stagetest.Reduction) {
			alien := f.Rows[0]
			alien.GroupID = "nowhere"
			f.Shard("alien", []shard.Instance{alien}, stagetest.Scores(1, 0))
		},
	} {
		f := stagetest.NewReduction(t, 2, centred...)
		f.Shard("a", f.Rows[:1], stagetest.Scores(1, 0))
		spoil(f)
		if err := f.Try(); exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNothingToLearnFrom: every group constant gives an empty batch, a whole
// ledger, and the next plan all the same.
func TestNothingToLearnFrom(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 2, centred...)
	f.Shard("a", f.Rows, stagetest.Scores(0, 0, 0, 0), stagetest.Scores(1, 1, 1, 1))
	batch, metrics := f.Run()
	if len(batch) != 0 || metrics["sequences"] != 0 || metrics["dropped_constant_group"] != 8 || metrics["reward_mean"] != 0.5 {
		t.Errorf("%d sequences, metrics %v", len(batch), metrics)
	}
	next := stagetest.Read[shard.Instance](f.Rig, f.Path("next.parquet"))
	if len(next) != 4 || next[3].InstanceID != "i000002-000003" || next[3].Iteration != 2 || len(next[3].Messages) == 0 {
		t.Errorf("the next plan is %+v", next)
	}
}

// TestVerdictsOfOtherResponsesAreRefused: a rollout shard that was lost and
// sampled anew, by a server that samples otherwise each time, is not what its
// scores score.
func TestVerdictsOfOtherResponsesAreRefused(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 2, centred...)
	f.Shard("all", f.Rows, stagetest.Scores(1, 0), stagetest.Scores(0, 1))
	rollouts, verdicts := f.In.Shards[0].Rollout, f.In.Shards[0].Score
	rows := stagetest.Read[shard.Score](f.Rig, verdicts)
	judged := func(digest string) {
		f.Check(seal.Remove(verdicts))
		_, err := shard.Write(verdicts, rows, nil, seal.AttemptFromEnv(), seal.Manifest{
			Inputs: []seal.Input{{Path: filepath.Base(rollouts), ContentSHA256: digest}},
		})
		f.Check(err)
	}
	judged(strings.Repeat("0", 64))
	if err := f.Try(); exitcode.Code(err) != exitcode.Data || !strings.Contains(strings.Join(exitcode.Hints(err), " "), verdicts) {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
	judged(f.Digest(rollouts))
	f.Run()
}

// What was sampled enters the state by reference: the row of the plan that it
// was planned in, also where its plan is an earlier one, and of any ids.
func TestReferencesOfEntries(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 3, "curriculum.name=exit")
	f.In.PlanOutputs = nil
	f.Shard("late", f.Rows[2:], stagetest.Scores(1, 0))
	early := []shard.Instance{f.Rows[0]}
	early[0].InstanceID, early[0].GroupID, early[0].Iteration = "mine", "mine", 2
	f.Check(stagetest.Write(f.Path("second.parquet"), early))
	f.In.Iteration = 2
	f.In.Plans = []buffer.PlanRef{{Iteration: 2, Path: f.Path("second.parquet")}, f.In.Plans[0]}
	f.Shard("now", early, stagetest.Scores(0, 0, 1))
	f.Run()
	var got []shard.Ref
	for _, entry := range stagetest.Read[shard.Entry](f.Rig, f.In.StateOutput) {
		got = append(got, entry.Ref)
	}
	n := int32(len(f.Rows[0].Messages)) + 1
	want := []shard.Ref{{Iteration: 2, Messages: n}, {Iteration: 1, Row: 2, Messages: n}}
	if diff := cmp.Diff(want, got, cmp.Transformer("sample", func(r shard.Ref) [6]int32 { return [6]int32{r.Iteration, r.Row, 0, r.Step, r.Wave, r.Messages} })); diff != "" {
		t.Errorf("references but for the sample, which is drawn (-want +got):\n%s", diff)
	}
}
