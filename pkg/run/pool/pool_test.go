package pool

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func says(role, content string) shard.Message { return shard.Message{Role: role, Content: content} }

// worked is a trace of five turns in two contexts, cut by valid submissions
// (turns 1 and 3) into the segments [0, 1], [2, 3] and [4, 4].
//
//	context 0   user  turn 0  tool  turn 1  tool  turn 2
//	tokens      1     2 3     4     5       6     7
//	context 1   user  turn 3  tool  turn 4
//	tokens      8     9 10    11    12
func worked() judged {
	rows := []shard.Rollout{{
		InstanceID: "i", Sample: 1, Kind: "initial", PolicyVersion: 2, Turns: 3, PromptMessages: 1,
		Messages: []shard.Message{says("user", "q"), says("assistant", "t0"), says("tool", "f0"), says("assistant", "t1"), says("tool", "f1"), says("assistant", "t2")},
		TokenIDs: []int32{1, 2, 3, 4, 5, 6, 7}, LossMask: []bool{false, true, true, false, true, false, true},
	}, {
		InstanceID: "i", Sample: 1, Part: 1, Kind: "initial", PolicyVersion: 2, Turns: 2, PromptMessages: 2,
		// What the assistant says in the prompt is no turn.
		Messages: []shard.Message{says("assistant", "given"), says("user", "q"), says("assistant", "t3"), says("tool", "f3"), says("assistant", "t4")},
		TokenIDs: []int32{8, 9, 10, 11, 12}, LossMask: []bool{false, true, true, false, true},
	}}
	outcome := func(o shard.Outcome, score float64) shard.TurnScore {
		return shard.TurnScore{Outcome: string(o), RawScore: score, NormalizedScore: score / 10}
	}
	return judged{rows: rows, planned: planRow{TaskID: "task"}, trace: credit.Trace{
		Contexts: []credit.Context{{Tokens: 7, TurnTokens: []int{2, 1, 1}}, {Tokens: 5, TurnTokens: []int{2, 1}}},
		Score: shard.Score{InstanceID: "i", Sample: 1, Outcome: string(shard.OutcomeInvalid), Turns: []shard.TurnScore{
			outcome(shard.OutcomeInvalid, 0), outcome(shard.OutcomeOK, 4), outcome(shard.OutcomeTimeout, 0), outcome(shard.OutcomeOK, 5), outcome(shard.OutcomeInvalid, 0),
		}},
	}}
}

// dispositions: the first segment was dropped, the second trained on, the third masked.
func dispositions() map[int]shard.LedgerRow {
	row := func(segment int32, fate shard.Fate, reason string) shard.LedgerRow {
		return shard.LedgerRow{InstanceID: "i", Sample: 1, Segment: segment, IterationSampled: 3, Iteration: 4, Fate: string(fate), Reason: reason}
	}
	return map[int]shard.LedgerRow{0: row(0, shard.FateDropped, "not_improved"), 1: row(1, shard.FateTrained, ""), 2: row(2, shard.FateMasked, "invalid")}
}

// gathererOf cuts by valid submissions. With masks, its run takes the gradient of
// invalid turns.
func gathererOf(t *testing.T, which Selection, masks bool) *gatherer {
	t.Helper()
	cutter, err := credit.SegmentsAxis.Make("valid_submission", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := credit.Composition{Segments: cutter}
	if masks {
		c.Select = []credit.Select{credit.InvalidTurns{}}
	}
	return &gatherer{run: &rundir.Run{Dir: graph.Dir("run")}, which: which, composition: c}
}

// gathered is what a test compares of a row.
type gathered struct {
	Segment, Part int32
	Tokens        []int32 // that are learned from
	Context       int     // tokens up to the last of them
	Last          string  // message
}

func TestSelections(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		which    Selection
		masks    bool
		want     []gathered
		kept     int
		segments int
	}{
		// Segment [2, 3] lies in both contexts: turn 2 in the first, turn 3 in the second.
		{"all", All, true, []gathered{
			{0, 0, []int32{2, 3, 5}, 5, "t1"}, {1, 0, []int32{7}, 7, "t2"}, {1, 1, []int32{9, 10}, 3, "t3"}, {2, 1, []int32{12}, 5, "t4"},
		}, 3, 3},
		// Turn 0 is invalid and turn 2 ran out of time: both stay in the context alone.
		// The first context of segment 1 has nothing else, and no row.
		{"valid", Valid, false, []gathered{{0, 0, []int32{5}, 5, "t1"}, {1, 1, []int32{9, 10}, 3, "t3"}}, 2, 3},
		{"selected, as trained without a mask", Selected, false, []gathered{{1, 0, []int32{7}, 7, "t2"}, {1, 1, []int32{9, 10}, 3, "t3"}}, 1, 3},
		{"selected, as trained with masked turns", Selected, true, []gathered{{1, 1, []int32{9, 10}, 3, "t3"}}, 1, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := gathererOf(t, test.which, test.masks)
			if err := g.trace(worked(), dispositions()); err != nil {
				t.Fatal(err)
			}
			var got []gathered
			tokens := 0
			for _, row := range g.rows {
				x := gathered{Segment: row.Segment, Part: row.Part, Context: len(row.TokenIDs), Last: row.Messages[len(row.Messages)-1].Content}
				for i, learned := range row.LossMask {
					if learned {
						x.Tokens = append(x.Tokens, row.TokenIDs[i])
					}
				}
				tokens += len(x.Tokens)
				got = append(got, x)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if g.count != (RunCount{Segments: test.segments, Kept: test.kept, Tokens: tokens}) {
				t.Errorf("counts %+v", g.count)
			}
		})
	}
}

// A row names the run, the trace and the score of the segment's last turn.
func TestProvenance(t *testing.T) {
	t.Parallel()
	g := gathererOf(t, Selected, true)
	g.run.Identity.RunID = "r"
	if err := g.trace(worked(), dispositions()); err != nil {
		t.Fatal(err)
	}
	want := []shard.PoolRow{{
		RunID: "r", Iteration: 4, IterationSampled: 3, InstanceID: "i", Sample: 1, Segment: 1, Part: 1, TaskID: "task", Kind: "initial", PolicyVersion: 2,
		Fate: "trained", Outcome: "ok", RawScore: 5, NormalizedScore: 0.5,
		Messages: []shard.Message{says("assistant", "given"), says("user", "q"), says("assistant", "t3")},
		TokenIDs: []int32{8, 9, 10}, LossMask: []bool{false, true, true},
	}}
	if diff := cmp.Diff(want, g.rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// What we or the scheduler failed is never gathered, nor what nobody said.
func TestNothingToGather(t *testing.T) {
	t.Parallel()
	failed := worked()
	failed.trace.Score.Outcome = string(shard.OutcomeInfra)
	silent := judged{rows: []shard.Rollout{{InstanceID: "i"}}, trace: credit.Trace{Score: shard.Score{Outcome: string(shard.OutcomeInvalid)}}}
	g := gathererOf(t, All, false)
	for _, trace := range []judged{failed, silent} {
		if err := g.trace(trace, map[int]shard.LedgerRow{0: dispositions()[0]}); err != nil || len(g.rows) > 0 || g.count.Segments > 0 {
			t.Errorf("%d rows, counts %+v, %v", len(g.rows), g.count, err)
		}
	}
}

// TestWaitingIsNotGathered: a segment that waits for a batch has no disposition yet.
func TestWaitingIsNotGathered(t *testing.T) {
	t.Parallel()
	g, decided := gathererOf(t, All, false), dispositions()
	delete(decided, 1)
	if err := g.trace(worked(), decided); err != nil || g.count.Segments != 2 || g.count.Kept != 2 {
		t.Errorf("counts %+v, want two segments (%v)", g.count, err)
	}
}

func TestLedgerOfOtherBinaries(t *testing.T) {
	t.Parallel()
	decided := dispositions()
	decided[3] = decided[2]
	err := gathererOf(t, All, false).trace(worked(), decided)
	if exitcode.Code(err) != exitcode.Data {
		t.Errorf("a ledger of four segments for a trace of three: %v", err)
	}
}
