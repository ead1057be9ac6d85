package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func answered(task string, sample, step int32, outcome string, score float64) Answer {
	return Answer{TaskID: task, Sample: sample, Step: step, Outcome: outcome, Score: score}
}

// Of a's chains the first and the third have all three steps: 0, 1/2, 1 and 1, 1/2, 1/2. The
// second lacks one; that of b does too, since we failed; the greedy one is no sample.
func TestByProblem(t *testing.T) {
	t.Parallel()
	answers := []Answer{
		answered("a", 0, 0, "wrong", 0), answered("a", 0, 1, "wrong", .5), answered("a", 0, 2, "ok", 1),
		answered("a", 1, 0, "ok", 1), answered("a", 1, 2, "ok", 1),
		answered("a", 2, 0, "ok", 1), answered("a", 2, 1, "wrong", .5), answered("a", 2, 2, "wrong", .5),
		answered("b", 0, 0, "ok", 1), answered("b", 0, 1, "infra", 0), answered("b", 0, 2, "ok", 1),
		answered("a", -1, 0, "ok", 1), answered("a", -1, 1, "ok", 1), answered("a", -1, 2, "ok", 1),
	}
	for last, want := range []map[string][]float64{{"a": {2. / 3}, "b": {1}}, {"a": {.5, .5}}, {"a": {.5, .5, .75}}} {
		if diff := cmp.Diff(want, ByProblem(answers, last)); diff != "" {
			t.Errorf("steps 0 to %d (-want +got):\n%s", last, diff)
		}
	}
}

// The mean of a rose and that of d fell; those of b, by 0.1, 0.2 and -0.3, and of c did not
// change, however their sums are rounded.
func TestCorrections(t *testing.T) {
	t.Parallel()
	moved := func(task string, from, to float64) pair {
		return pair{answered(task, 0, 0, "wrong", from), answered(task, 0, 1, "ok", to)}
	}
	pairs := []pair{moved("a", 0, .25), moved("b", 0, .1), moved("b", 0, .2), moved("b", .3, 0), moved("c", .5, .5), moved("d", .5, .25)}
	pairs = append(pairs, moved("e", 0, 1e-12), moved("f", 1e-12, 0)) // on the bound of rounding
	pairs[5].first.Outcome, pairs[5].later.Outcome = "ok", "wrong"
	pairs[4].first.Outcome = "ok"
	want := Corrections{Chains: 8, Corrected: 6, Broken: 1, KeptRight: 1, Net: 5, ProblemsImproved: 1, ProblemsWorsened: 1}
	if diff := cmp.Diff(want, corrections(pairs)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
