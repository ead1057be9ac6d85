package reproduce

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One run is enough to see that a plan names what its runs do not have, or that an arm is not
// what it is called: no one has to wait for the other runs.
func TestEarly(t *testing.T) {
	t.Parallel()
	const dropped = "buffer/dropped per buffer/groups"
	e := Experiment{
		Claims: []Claim{
			{Says: "it scores better", Measure: Measure{Metric: "score", Iterations: "9-12"}, Method: "whole", Against: "part", Direction: Higher},
			{Says: "another does", Measure: Measure{Metric: "other"}, Method: "third", Direction: Higher},
		},
		Arms: []Arm{
			{"whole", []Check{{Sees: "something is dropped", Measure: Measure{Metric: dropped}, Above: at(0)}}},
			{"part", []Check{{Sees: "nothing is dropped", Measure: Measure{Metric: dropped}, Equals: at(0)}}},
		},
	}
	const score = "score, iterations 9-12"
	has := func(method string, score, droppedNumber float64, never ...string) Run {
		r := done(method, 3, map[string]float64{"score, iterations 9-12": score, dropped: droppedNumber})
		r.Never = never
		return r
	}
	lacking := has("part", 0, 0)
	delete(lacking.Measures, score)
	lacking.Lacking = map[string]string{score: "there is no iteration 9"}
	for _, c := range []struct {
		says string
		run  Run
		want []string
	}{
		{"all is there", has("whole", 1, 2), nil},
		{"a count of what only another method has may be 0", has("part", 1, 0, dropped), nil},
		{"no claim is about it", has("none", 1, 2, score), nil},
		{"the metric of a claim", has("whole", 0, 2, score), []string{`the claim "it scores better" counts 0 for this run, which has nothing called ` + score}},
		{"of the method that it is compared with", lacking, []string{`the claim "it scores better" cannot be measured: there is no iteration 9`}},
		{"an arm", has("part", 1, 2), []string{"part is not what it is called, and no claim about it will have an outcome: nothing is dropped (" + dropped + " wanted: is 0): seed 3: 2.00"}},
		{"a count that must not be 0", has("whole", 1, 0, dropped), []string{"whole is not what it is called, and no claim about it will have an outcome: something is dropped (" + dropped + " wanted: above 0): seed 3: 0"}},
	} {
		if diff := cmp.Diff(c.want, e.early(c.run)); diff != "" {
			t.Errorf("%s:\n%s", c.says, diff)
		}
	}
}
