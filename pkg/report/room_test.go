package report

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// cramped is a finished run whose last evaluation has these scores, and as many attempts
// and attempts without room.
func cramped(t *testing.T, after []scoredChains, attempts, noRoom float64) Summary {
	f := newFixture(t)
	f.begin()
	f.iterations()
	f.evaluate(0, 11, 14, evaluationRows(0, scoresBefore))
	f.evaluate(2, 50, 60, evaluationRows(2, after))
	a, m := f.job("a", 50, 51, graph.StageEvalRollout, 2, 0, 1, map[string]float64{shard.MetricAttempts: attempts, shard.MetricNoRoom: noRoom})
	for _, path := range f.run.Graph.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageEvalRollout, Iteration: 2}}) {
		f.check(seal.WriteBytes(path, []byte("rows"), a, m))
	}
	return f.collect()
}

// TestNoRevision: where no prompt of a step left room, what comes after it is not known.
func TestNoRevision(t *testing.T) {
	t.Parallel()
	s := cramped(t, []scoredChains{{"t1", "add", 2, "rn rn wn"}, {"t2", "sub", 10, "rn rn wn"}}, 12, 6)
	if len(s.AccuracyByStep) != 1 || s.DeltaK != nil || s.DeltaKStandardError != nil || s.Corrections != nil || s.AccuracyByVersion[1].NoRoom != 6 {
		t.Errorf("accuracy %v, Δ %v ± %v, corrections %v", s.AccuracyByStep, s.DeltaK, s.DeltaKStandardError, s.Corrections)
	}
	const reason = "no prompt of revision 1 left room for a response in the policy's context"
	if s.Missing["delta_k"] != reason || s.Missing["corrections"] != reason {
		t.Errorf("missing %v", s.Missing)
	}
	text := printed(t, s)
	for _, want := range []string{reason, "6 of 12 responses of evaluation (50.0 %) had no room"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

// TestSomeRevisions: Δ is that of the chains that have both answers. Of t1's two sampled
// chains one goes from right to wrong, of t2's one from wrong to right, and the others
// had no room.
func TestSomeRevisions(t *testing.T) {
	t.Parallel()
	s := cramped(t, []scoredChains{{"t1", "add", 2, "rr rw rn"}, {"t2", "sub", 10, "rr wr rn"}}, 12, 2)
	near(t, "first answers", s.AccuracyAfter, .75)
	near(t, "second answers", &s.AccuracyByStep[1], .5)
	near(t, "Δ", s.DeltaK, 0)
	near(t, "Δ SE", s.DeltaKStandardError, 1) // ±1 by problem: √(2/1·2)/2
	if c := s.Corrections; c == nil || c.Chains != 2 || c.Corrected != 1 || c.Broken != 1 {
		t.Errorf("corrections %+v", c)
	}
	if s := cramped(t, scoresAfter, 1200, 12); len(s.Room.Warnings()) != 0 {
		t.Errorf("1 %% is warned of: %v", s.Room.Warnings())
	}
}

// TestNoAnswer: a first answer that was never given is no wrong one.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	s := cramped(t, []scoredChains{{"t1", "add", 2, "nn nn nn"}, {"t2", "sub", 10, "nn nn nn"}}, 12, 12)
	if s.AccuracyAfter != nil || s.AccuracyByStep != nil || s.DeltaK != nil || s.AccuracyGain != nil || s.GreedyAccuracyAfter != nil {
		t.Errorf("accuracy %v, gain %v, Δ %v", s.AccuracyAfter, s.AccuracyGain, s.DeltaK)
	}
	if want := "no held-out prompt left room for a response in the policy's context"; s.Missing["accuracy_after"] != want {
		t.Errorf("missing %v", s.Missing)
	}
}
