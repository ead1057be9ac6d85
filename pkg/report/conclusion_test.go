package report

import "testing"

// What a run came to, in one sentence.
func TestConclusion(t *testing.T) {
	t.Parallel()
	at := func(x float64) *float64 { return &x }
	version := func(v int, accuracy float64, delta *float64) Version {
		return Version{Version: v, Accuracy: at(accuracy), DeltaK: delta}
	}
	for name, c := range map[string]struct {
		s    Summary
		want string
	}{
		"nothing measured": {Summary{Iterations: 4}, ""},
		"one evaluation": {
			Summary{Iterations: 0, AccuracyByVersion: []Version{version(0, .5, nil)}},
			"Held-out accuracy: 50.0 % of first answers in v000000, the only version measured.",
		},
		"begun, not measured yet": {Summary{Iterations: 4, AccuracyByVersion: []Version{version(0, .5, nil)}}, ""},
		"rewards alone": {
			Summary{Iterations: 3, IterationsDone: 3, Series: []Iteration{{Iteration: 1, RewardMean: at(.125)}, {Iteration: 2}, {Iteration: 3, RewardMean: at(.5)}}},
			"The mean training reward went from 0.125 in iteration 1 to 0.5 in iteration 3; no two policies were measured on held-out problems.",
		},
		"rewards so far": {
			Summary{Iterations: 9, IterationsDone: 2, Series: []Iteration{{Iteration: 1, RewardMean: at(.1)}, {Iteration: 2, RewardMean: at(.2)}}},
			"So far, the mean training reward went from 0.1 in iteration 1 to 0.2 in iteration 2; no two policies were measured on held-out problems.",
		},
		"one reward": {Summary{Iterations: 9, IterationsDone: 1, Series: []Iteration{{Iteration: 1, RewardMean: at(.1)}}}, ""},
		"the same": {
			Summary{Iterations: 4, AccuracyByVersion: []Version{version(0, 0, nil), version(4, 0, nil)}},
			"Held-out accuracy of first answers did not change: 0.0 % in v000004 against 0.0 % in v000000, a change of 0.0 points (its error is not known).",
		},
		"rose": {
			Summary{Iterations: 4, Steps: 4, AccuracyByVersion: []Version{version(0, .042, at(.003)), version(4, .185, at(.512))}, AccuracyGainStandardError: at(.012)},
			"Held-out accuracy of first answers rose: 18.5 % in v000004 against 4.2 % in v000000, a change of +14.3 ± 1.2 points; 4 revisions changed that by +51.2 points (by +0.3 before).",
		},
		"fell, so far": {
			Summary{Iterations: 9, AccuracyByVersion: []Version{version(0, .5, nil), version(4, .4, nil)}, AccuracyGainStandardError: at(.01)},
			"So far, held-out accuracy of first answers fell: 40.0 % in v000004 against 50.0 % in v000000, a change of −10.0 ± 1.0 points.",
		},
		"within its error": {
			Summary{Iterations: 4, Graded: true, AccuracyByVersion: []Version{version(0, .5, nil), version(4, .51, nil)}, AccuracyGainStandardError: at(.006)},
			"Held-out mean score of first answers did not change by more than two standard errors: 51.0 % in v000004 against 50.0 % in v000000, a change of +1.0 ± 0.6 points.",
		},
		"without an error": {
			Summary{Iterations: 4, AccuracyByVersion: []Version{version(0, .5, nil), version(4, .6, nil)}},
			"Held-out accuracy of first answers rose: 60.0 % in v000004 against 50.0 % in v000000, a change of +10.0 points (its error is not known).",
		},
	} {
		if got := conclusion(c.s); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}
