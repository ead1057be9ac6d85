package buffer_test

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
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// verdict is one response of a test: its score, and how many tokens it has.
type verdict struct {
	outcome shard.Outcome // ok by default
	score   float64       // normalised; the reward too unless reward is given
	tokens  int           // 2 by default
	finish  string
}

// scores is scores that differ by their score alone.
func scores(values ...float64) []verdict {
	out := make([]verdict, len(values))
	for i, v := range values {
		out[i] = verdict{score: v}
	}
	return out
}

// reduction is one run of the buffer stage over rows that a test makes.
type reduction struct {
	*stagetest.Rig
	plan []shard.Instance
	in   buffer.Inputs
}

// newReduction makes a plan with one instance for each group.
func newReduction(t testing.TB, groups int, settings ...string) *reduction {
	t.Helper()
	r := stagetest.New(t, append([]string{"curriculum.name=uniform", "score.embedding=none", "factors=[]"}, settings...)...)
	path, plan := r.Plan(groups)
	return &reduction{Rig: r, plan: plan, in: buffer.Inputs{
		Iteration: 1, Plans: []buffer.PlanRef{{Iteration: 1, Path: path}},
		StateOutput: r.Path("state.parquet"), StatsOutput: r.Path("stats.parquet"), BatchOutput: r.Path("batch.arrow"), LedgerOutput: r.Path("ledger.parquet"),
		PlanOutputs: []buffer.PlanRef{{Iteration: 2, Path: r.Path("next.parquet")}}, PlanRows: 4,
	}}
}

// shard seals the responses to some instances as one rollout and score shard.
func (f *reduction) shard(name string, instances []shard.Instance, groups ...[]verdict) {
	f.Helper()
	var rollouts []shard.Rollout
	var verdicts []shard.Score
	for i, group := range groups {
		for sample, v := range group {
			if v.tokens == 0 {
				v.tokens = 2
			}
			if v.outcome == "" {
				v.outcome = shard.OutcomeOK
			}
			r := shard.Rollout{
				InstanceID: instances[i].InstanceID, GroupID: instances[i].GroupID, Sample: int32(sample), FinishReason: v.finish,
				Messages:     append(append([]shard.Message(nil), instances[i].Messages...), shard.Message{Role: "assistant", Content: "0"}),
				PromptTokens: 1, ResponseTokens: int32(v.tokens), Turns: 1, Outcome: string(shard.OutcomeOK),
				TokenIDs: make([]int32, 1+v.tokens), LossMask: make([]bool, 1+v.tokens), LogProbs: make([]float32, 1+v.tokens),
			}
			for t := 1; t <= v.tokens; t++ {
				r.LossMask[t], r.LogProbs[t] = true, -0.5
			}
			rollouts = append(rollouts, r)
			verdicts = append(verdicts, shard.Score{
				InstanceID: r.InstanceID, GroupID: r.GroupID, Sample: r.Sample, Outcome: string(v.outcome), NormalizedScore: v.score, Reward: v.score,
			})
		}
	}
	f.Check(stagetest.Write(f.Path(name+"-rollout.parquet"), rollouts))
	f.Check(stagetest.Write(f.Path(name+"-score.parquet"), verdicts))
	f.in.Shards = append(f.in.Shards, buffer.ShardRef{Iteration: 1, Rollout: f.Path(name + "-rollout.parquet"), Score: f.Path(name + "-score.parquet")})
}

func (f *reduction) try() error {
	f.Helper()
	chooser, err := f.Recipe.NewCurriculum()
	f.Check(err)
	return buffer.Run(f.Context(), f.Job, buffer.SettingsOf(f.Recipe), f.Env, chooser, f.in)
}

func (f *reduction) run() ([]shard.Sequence, map[string]float64) {
	f.Helper()
	f.Check(f.try())
	batch, m, err := arrowfile.ReadBatch(f.Context(), f.in.BatchOutput, seal.Options{})
	f.Check(err)
	return batch, m.Metrics
}

// reasons lists what the ledger says, in its order.
func (f *reduction) reasons() []string {
	f.Helper()
	var out []string
	for _, row := range stagetest.Read[shard.LedgerRow](f.Rig, f.in.LedgerOutput) {
		text := row.Fate
		if row.Reason != "" {
			text += " " + row.Reason
		}
		out = append(out, text)
	}
	return out
}

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
		got  []verdict
		on   bool
		want []float64 // rewards - their mean; nil: the group is dropped as constant
	}{
		{"improve", shard.KindImprove, 0.4, scores(0.7, 1, 0.2, 0.4), true, []float64{0.125, 0.625, -0.375, -0.375}},
		{"diverge", shard.KindDiverge, 0.4, scores(0.7, 1, 0.2, 0.4), true, []float64{0.125, 0.625, -0.375, -0.375}},
		{"a base task is rewarded for its quality", shard.KindInitial, 0, scores(0.7, 1, 0.3, 0.4), true, []float64{0.1, 0.4, -0.3, -0.2}},
		{"nothing is left to gain", shard.KindImprove, 1, scores(1, 0, 1, 0), true, nil},
		{"the recipe rewards quality", shard.KindImprove, 0.4, scores(0.7, 1, 0.3, 0.4), false, []float64{0.1, 0.4, -0.3, -0.2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newReduction(t, 1, append(centred, "reward.name="+map[bool]string{true: "improvement", false: "verdict"}[c.on])...)
			f.plan[0].Kind, f.plan[0].BaseScore = string(c.kind), c.base
			f.in.Plans[0].Path = f.Path("kinds.parquet")
			f.Check(stagetest.Write(f.in.Plans[0].Path, f.plan))
			f.shard("a", f.plan, c.got)
			batch, _ := f.run()
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
	f := newReduction(t, 1, centred...)
	f.shard("a", f.plan, []verdict{{score: 1}, {outcome: shard.OutcomeInfra}, {outcome: shard.OutcomeWrong}, {outcome: shard.OutcomePreempted}})
	batch, metrics := f.run()
	if diff := cmp.Diff([]float64{0.5, -0.5}, advantages(t, batch), near); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"trained", "dropped infra", "trained", "dropped preempted"}, f.reasons()); diff != "" {
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
	f := newReduction(t, 2, "preset=exit")
	f.shard("a", f.plan, scores(1, 1, 1, 1), scores(0, 1, 1, 0))
	batch, _ := f.run()
	if diff := cmp.Diff([]float64{0, 0, 0, 0, -1, 1, 1, -1}, advantages(t, batch), near); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
}

// TestSelectLeavesItsReasons: what is cut off keeps its part in the
// statistics and loses its gradient (DAPO, section 3.4); groups without a
// difference teach nothing.
func TestSelectLeavesItsReasons(t *testing.T) {
	t.Parallel()
	f := newReduction(t, 3, append(centred, "select=[constant_group, overlong]")...)
	f.shard("a", f.plan,
		[]verdict{{score: 1}, {score: 0, finish: "length"}, {score: 0}, {score: 0}},
		scores(1, 1, 1, 1),
		scores(0, 0, 0, 1),
	)
	batch, _ := f.run()
	if diff := cmp.Diff([]float64{0.75, -0.25, -0.25, -0.25, -0.25, -0.25, 0.75}, advantages(t, batch), near); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
	want := []string{
		"trained", "dropped overlong", "trained", "trained",
		"dropped constant_group", "dropped constant_group", "dropped constant_group", "dropped constant_group",
		"trained", "trained", "trained", "trained",
	}
	if diff := cmp.Diff(want, f.reasons()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// TestCutsDoNotShow: the same responses in one shard or three, and in any
// order of the shards' rows, come to the same bytes.
func TestCutsDoNotShow(t *testing.T) {
	t.Parallel()
	groups := [][]verdict{scores(1, 0, 0, 1), scores(0, 1, 0, 0), scores(1, 1, 1, 0), scores(0, 0, 0, 1), scores(1, 0, 1, 1)}
	whole := newReduction(t, 5, "loss.mini_batches=2")
	whole.shard("a", whole.plan, groups...)
	whole.run()
	cut := newReduction(t, 5, "loss.mini_batches=2")
	cut.shard("a", cut.plan[:1], groups[:1]...)
	cut.shard("b", cut.plan[1:4], groups[1:4]...)
	cut.shard("c", cut.plan[4:], groups[4:]...)
	cut.run()
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
	f := newReduction(t, 2, append(centred, "rollout.group=2")...)
	later := make([]shard.Instance, 4)
	for i := range later {
		later[i] = f.plan[0]
		later[i].InstanceID = fmt.Sprintf("i000002-%06d", i)
		later[i].GroupID, later[i].Iteration = later[i].InstanceID, 2
	}
	second := f.Path("second.parquet")
	f.Check(stagetest.Write(second, later))
	f.in.Iteration = 2
	f.in.Plans = []buffer.PlanRef{{Iteration: 2, Path: second}, f.in.Plans[0]}
	f.in.PlanOutputs[0].Iteration = 3
	f.shard("late", f.plan[1:], scores(1, 0))
	f.shard("now", later[:1], scores(0, 1))
	f.in.Shards[1].Iteration = 2
	f.in.LeftOut = []buffer.ShardRef{{Iteration: 2, FirstRow: 1, LastRow: 2}}
	f.in.RunEnded = []buffer.ShardRef{{Iteration: 2, FirstRow: 2, LastRow: 9}}
	batch, _ := f.run()
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
	if diff := cmp.Diff(want, f.reasons()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestRowsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *reduction){
		"a score of another response": func(f *reduction) {
			f.shard("other", f.plan[1:], scores(1, 0))
			f.in.Shards[0].Score = f.in.Shards[1].Score
			f.in.Shards = f.in.Shards[:1]
		},
		"fewer scores than responses": func(f *reduction) {
			f.shard("few", f.plan[:1], scores(1))
			f.in.Shards[0].Score = f.in.Shards[1].Score
			f.in.Shards = f.in.Shards[:1]
		},
		"a group of no plan": func(f *reduction) {
			alien := f.plan[0]
			alien.GroupID = "nowhere"
			f.shard("alien", []shard.Instance{alien}, scores(1, 0))
		},
	} {
		f := newReduction(t, 2, centred...)
		f.shard("a", f.plan[:1], scores(1, 0))
		spoil(f)
		if err := f.try(); exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNothingToLearnFrom: every group constant gives an empty batch, a whole
// ledger, and the next plan all the same.
func TestNothingToLearnFrom(t *testing.T) {
	t.Parallel()
	f := newReduction(t, 2, centred...)
	f.shard("a", f.plan, scores(0, 0, 0, 0), scores(1, 1, 1, 1))
	batch, metrics := f.run()
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
	f := newReduction(t, 2, centred...)
	f.shard("all", f.plan, scores(1, 0), scores(0, 1))
	rollouts, verdicts := f.in.Shards[0].Rollout, f.in.Shards[0].Score
	rows := stagetest.Read[shard.Score](f.Rig, verdicts)
	judged := func(digest string) {
		f.Check(seal.Remove(verdicts))
		_, err := shard.Write(verdicts, rows, nil, seal.AttemptFromEnv(), seal.Manifest{
			Inputs: []seal.Input{{Path: filepath.Base(rollouts), ContentSHA256: digest}},
		})
		f.Check(err)
	}
	judged(strings.Repeat("0", 64))
	if err := f.try(); exitcode.Code(err) != exitcode.Data || !strings.Contains(strings.Join(exitcode.Hints(err), " "), verdicts) {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
	judged(f.Digest(rollouts))
	f.run()
}
