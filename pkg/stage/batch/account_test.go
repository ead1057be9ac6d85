package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// trace is one with an outcome for each turn, and that of its last for itself.
func trace(sample int32, quality float64, outcomes ...shard.Outcome) credit.Trace {
	t := credit.Trace{Score: shard.Score{Sample: sample, NormalizedScore: quality, Outcome: string(outcomes[len(outcomes)-1])}}
	for _, o := range outcomes {
		t.Score.Turns = append(t.Score.Turns, shard.TurnScore{Outcome: string(o)})
	}
	return t
}

// What is counted of two groups: by instance kind and origin, transitions between first and
// last turn (FlipTS §3.2), and the ledger's rows by segment of each trace.
func TestAccount(t *testing.T) {
	t.Parallel()
	const ok, wrong, invalid, infra = shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeInvalid, shard.OutcomeInfra
	a := group{Group: credit.Group{
		Instance: shard.Instance{InstanceID: "a", Kind: "initial", Origin: "base", Depth: 1},
		Traces:   []credit.Trace{trace(0, 1, wrong, wrong, ok), trace(1, 0.5, wrong, ok), trace(2, 0, ok, wrong), trace(4, 0.25, wrong), trace(5, 9, infra)},
	}, iteration: 6, segments: []credit.Segment{
		{Trace: 0, First: 0, Last: 1, Reward: 1, Advantage: 0.5}, {Trace: 0, First: 2, Last: 2, Reward: 3}, // f2s, effective
		{Trace: 1, Last: 1, Reward: 1}, // f2s without an advantage
		{Trace: 2, Last: 1, Advantage: -1, Masked: "m"}, {Trace: 3, Advantage: 2, Dropped: "d"}, {Trace: 4, Advantage: 3, Reward: 99},
	}}
	b := group{Group: credit.Group{
		Instance: shard.Instance{InstanceID: "b", Kind: "improve", Origin: "mined", Depth: 4}, Traces: []credit.Trace{trace(0, 0, invalid), trace(1, 0.25, wrong, ok)},
	}, iteration: 7, segments: []credit.Segment{{Trace: 0, Advantage: -1}, {Trace: 1, Last: 1, Reward: 2, Advantage: 1}}}

	r := &reduction{in: Inputs{Iteration: 7}, metrics: map[string]float64{}, groups: []group{a, b}}
	r.account()
	want := map[string]float64{
		"outcome_ok": 3, "outcome_wrong": 2, "outcome_invalid": 1, "outcome_infra": 1,
		"responses": 6, "responses_initial": 4, "responses_improve": 2, "score_sum_initial": 1.75, "score_sum_improve": 0.25, "invalid_improve": 1,
		"kind_initial": 1, "kind_improve": 1, "origin_base": 1, "origin_mined": 1, "groups": 2, "depth_mean": 2.5,
		"reward_mean": (2 + 1 + 0 + 0 + 0 + 2) / 6., "score_mean": 2. / 6, "nonzero_advantage": 3,
		"transition_f2s": 3, "transition_s2f": 1, "effective_f2s": 2,
		"trained": 6, "masked_m": 1, "dropped_d": 1,
	}
	if diff := cmp.Diff(want, r.metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	var rows []string
	for _, row := range r.ledger {
		rows = append(rows, fmt.Sprint(row.InstanceID, row.Sample, row.Segment, row.IterationSampled, row.Iteration, " ", row.Fate, row.Reason, " ", row.Reward))
	}
	ledger := []string{
		"a0 0 6 7 trained 1", "a0 1 6 7 trained 3", "a1 0 6 7 trained 1", "a2 0 6 7 maskedm 0", "a4 0 6 7 droppedd 0", "a5 0 6 7 trained 99", "b0 0 7 7 trained 0", "b1 0 7 7 trained 2",
	}
	if diff := cmp.Diff(ledger, rows); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}

	// Nothing counted is no mean; open segments have no row, dropped ones have.
	r = &reduction{metrics: map[string]float64{}}
	r.account()
	if diff := cmp.Diff(map[string]float64{"groups": 0, "responses": 0}, r.metrics); diff != "" {
		t.Errorf("metrics of nothing (-want +got):\n%s", diff)
	}
	// Of several environments, what was dropped, masked and retained by their names.
	r = &reduction{Settings: Settings{Environments: true}, metrics: map[string]float64{}}
	for _, name := range []string{"p", "q"} {
		of := a
		of.Instance.Env = name
		r.groups = append(r.groups, of)
	}
	r.groups[1].segments = []credit.Segment{{Trace: 0, Last: 2, Dropped: "other"}, {Trace: 1, Last: 1, Reward: 2}}
	r.account()
	got := map[string]float64{}
	for name, value := range r.metrics {
		if strings.Contains(name, "_environment_") && !strings.HasPrefix(name, "reward_sum") {
			got[name] = value
		}
	}
	byName := map[string]float64{
		"groups_environment_p": 1, "responses_environment_p": 4, "retained_environment_p": 4, "masked_m_environment_p": 1, "dropped_d_environment_p": 1,
		"groups_environment_q": 1, "responses_environment_q": 4, "retained_environment_q": 1, "dropped_other_environment_q": 1,
	}
	if diff := cmp.Diff(byName, got); diff != "" {
		t.Errorf("by environment (-want +got):\n%s", diff)
	}
	r = &reduction{metrics: map[string]float64{}, groups: []group{a}, open: true}
	if r.account(); len(r.ledger) != 1 || r.ledger[0].Reason != "d" {
		t.Errorf("while a batch is open: %+v", r.ledger)
	}
}

// The curriculum sees the last attempt of a trace: two contexts of two messages of the
// policy after a prompt of three.
func TestLastAttempt(t *testing.T) {
	t.Parallel()
	context := func(step, prompt, turns int32, roles ...string) contextRow {
		c := contextRow{Sample: 3, Step: step, Wave: 2, PromptMessages: prompt, Turns: turns}
		for _, role := range roles {
			c.Messages = append(c.Messages, author{role})
		}
		return c
	}
	r := lastAttempt([]contextRow{
		context(0, 1, 1, "user", "assistant"), context(1, 3, 1, "system", "user", "assistant", "assistant"), context(1, 1, 2, "user", "assistant", "user", "assistant"),
	})
	if r.Turns != 3 || r.PromptMessages != 3 || r.Sample != 3 || r.Ref != (shard.Ref{Sample: 3, Step: 1, Wave: 2, Messages: 8}) || r.Said() != 4 {
		t.Errorf("%+v", r)
	}
}

// A trace of three contexts: what is learned from in each, by segment. The reward comes with
// the last turn of a segment that is learned from. Turns 1 and 8 wrote nothing, turns 3 and 7
// are masked, turn 5 is in no segment.
func TestSequencesOf(t *testing.T) {
	t.Parallel()
	g := group{
		Group:    credit.Group{Traces: []credit.Trace{{Contexts: []credit.Context{{Tokens: 9, TurnTokens: []int{2, 0, 3}}, {Tokens: 7, TurnTokens: []int{1, 4, 5}}, {Tokens: 6, TurnTokens: []int{1, 2, 0}}}}}},
		contexts: [][]contextRow{{{}, {}, {}}},
		segments: []credit.Segment{
			{First: 0, Last: 2, Reward: 0.5, Advantage: 1, Factor: 2},
			{First: 3, Last: 4, Reward: 0.25, Advantage: -1, Factor: 1, MaskedTurns: []bool{true, false}, TurnFactors: []float64{9, 3}},
			{First: 6, Last: 8, Reward: 0.75, Advantage: 1, Factor: 1, MaskedTurns: []bool{false, true, false}},
		},
	}
	r := &reduction{batch: []group{g}}
	var got []string
	for _, s := range r.sequencesOf(0, 0) {
		got = append(got, fmt.Sprint(s.context, s.firstTurn, s.turns, s.lengths, s.TurnSegments, s.TurnAdvantages, s.TurnFactors, s.TurnRewards, s.tokens))
	}
	if want := []string{"0 0 [0 2] [2 3] [0 0] [1 1] [2 2] [0 0.5] 9", "1 3 [1] [4] [1] [-1] [3] [0.25] 7", "2 6 [0] [1] [2] [1] [1] [0.75] 6"}; !slices.Equal(got, want) {
		t.Errorf("sequences %q, want %q", got, want)
	}
}

// Rewards of scores that an earlier version wrote are clipped, those of turns and parts too.
func TestBounded(t *testing.T) {
	t.Parallel()
	parts := func(v float64) []shard.RewardPart { return []shard.RewardPart{{Name: "p", Value: v}} }
	got := bounded(shard.Score{Reward: 1e12, RewardParts: parts(-1e12), Turns: []shard.TurnScore{{Reward: 1}, {Reward: -1e12, RewardParts: parts(1e12)}}})
	want := shard.Score{Reward: 1e9, RewardParts: parts(-1e9), Turns: []shard.TurnScore{{Reward: 1}, {Reward: -1e9, RewardParts: parts(1e9)}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Segments that waited keep their places in the trace, and traces their own rows.
func TestWaitingTraces(t *testing.T) {
	t.Parallel()
	rows := []shard.Waiting{{InstanceID: "a", Segment: 1, FirstTurn: 1, LastTurn: 2, Advantage: 3}, {InstanceID: "a", Segment: 2, Masked: "m"}, {InstanceID: "a", Sample: 1}, {InstanceID: "b", Sample: 1}}
	if n := len(firstTrace(rows)); n != 2 || len(firstTrace(rows[2:])) != 1 || gradients(rows) != 3 {
		t.Errorf("the first trace has %d rows; %d gradients", n, gradients(rows))
	}
	want := []credit.Segment{{Trace: 5, Last: -1, Dropped: "before"}, {Trace: 5, First: 1, Last: 2, Advantage: 3}, {Trace: 5, Masked: "m"}}
	if diff := cmp.Diff(want, credited(rows[:2], 5)); diff != "" {
		t.Errorf("segments (-want +got):\n%s", diff)
	}
	r := &reduction{cited: []seal.Input{{Path: "x", ContentSHA256: "1"}}}
	for input, want := range map[seal.Input]bool{{Path: "x", ContentSHA256: "1"}: true, {Path: "x", ContentSHA256: "2"}: false, {Path: "y", ContentSHA256: "1"}: false} {
		if r.citedAs(input) != want {
			t.Errorf("%+v was read before: %t", input, !want)
		}
	}
}
