package reproduce

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
)

// curve has a point for each iteration: what the run has spent, and its value; a negative one
// is not measured.
func curve(of ...[2]float64) (points []measure.Point) {
	for i, p := range of {
		point := measure.Point{Iteration: i + 1, Spent: p[0]}
		if p[1] >= 0 {
			point.Value = &p[1]
		}
		points = append(points, point)
	}
	return points
}

var perSecond = Claim{
	Measure: Measure{Metric: "buffer/score", AtEqual: "score/execute_seconds", OverLast: 2}, Method: "a", Against: "b", Direction: Higher,
}

// By hand. Seed 1: a has spent 30 s after three iterations, b 20, 40 and 60 s: of b the first
// counts. Seed 2: b spends less in all, 25 s, and a has spent 12 and 25 s by its first two: as
// much counts. Differences 0.5 − 0.1 and 0.4 − 0.3.
func TestAtEqual(t *testing.T) {
	t.Parallel()
	key := perSecond.key()
	if want := "buffer/score, last 2 iterations at equal score/execute_seconds"; key != want {
		t.Fatalf("key %q, want %q", key, want)
	}
	of := func(method string, seed uint64, points []measure.Point) Run {
		r := done(method, seed, nil)
		r.Curves = map[string][]measure.Point{key: points}
		return r
	}
	runs := []Run{
		of("a", 1, curve([2]float64{10, -1}, [2]float64{20, .2}, [2]float64{30, .5})),
		of("b", 1, curve([2]float64{20, .1}, [2]float64{40, .6}, [2]float64{60, .9})),
		of("a", 2, curve([2]float64{12, -1}, [2]float64{25, .4}, [2]float64{40, .8})),
		of("b", 2, curve([2]float64{12, -1}, [2]float64{25, .3})),
	}
	o := perSecond.decide(runs)
	want := []SpentAt{{1, 30, [2]int{3, 1}}, {2, 25, [2]int{2, 2}}}
	if !cmp.Equal(o.Values, []float64{.5, .4}) || !cmp.Equal(o.Others, []float64{.1, .3}) || o.Outcome != TooSmall {
		t.Errorf("%+v", o)
	}
	if diff := cmp.Diff(want, o.Equal); diff != "" {
		t.Error(diff)
	}
	if means := o.Means(); !strings.HasSuffix(means, " (seed 1 after iterations 3 and 1, 30.0 spent; seed 2 after iterations 2 and 2, 25.0 spent)") {
		t.Error(means)
	}
	// What another machine measured is the same after it was written and read.
	text, err := json.Marshal(runs)
	var again []Run
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if diff := cmp.Diff(o, perSecond.decide(again)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	plan := Experiment{Claims: []Claim{perSecond}}
	if why := plan.unusable(again[0], nil); why != "" {
		t.Errorf("a run of elsewhere with its curve: %s", why)
	}
	if why := plan.unusable(done("a", 1, nil), nil); why != "it was not asked for "+key {
		t.Errorf("a run of elsewhere without a curve: %q", why)
	}
}

// What cannot be compared says why, and which run it is.
func TestAtEqualLacks(t *testing.T) {
	t.Parallel()
	key := perSecond.key()
	for want, points := range map[string][2][]measure.Point{
		"seed 1 of b: its first iteration spends more than 10.0, all that the other run has spent": {curve([2]float64{10, .2}), curve([2]float64{11, .1})},
		"seed 1 of a: it is not measured after iteration 1, up to which the run has spent 10.0":    {curve([2]float64{10, -1}, [2]float64{20, .2}), curve([2]float64{15, .1})},
		"seed 1 of a: it was not asked for " + key:                                                 {nil, curve([2]float64{15, .1})},
		"seed 1 of b: the run has spent none of it":                                                {curve([2]float64{10, .2}), nil},
		"no run has " + key: {curve([2]float64{10, 0}), curve([2]float64{10, 0})},
	} {
		runs := []Run{done("a", 1, nil), done("b", 1, nil)}
		for i := range runs {
			runs[i].Curves = map[string][]measure.Point{key: points[i]}
			if points[i] == nil {
				runs[i].Curves = nil
			}
			if strings.HasPrefix(want, "no run") {
				runs[i].Never = []string{key}
			}
		}
		if strings.Contains(want, "none of it") {
			runs[1].Lacking[key] = "the run has spent none of it"
		}
		if o := perSecond.decide(runs); o.Outcome != Unmeasured || o.Why != want {
			t.Errorf("%s (%s), want %q", o.Outcome, o.Why, want)
		}
	}
}

func TestAtEqualIsChecked(t *testing.T) {
	t.Parallel()
	const plan = `experiments:
  - name: a
    seeds: 1-2
    recipes: [x.yaml, y.yaml]
    arms: [{method: x, checks: [{sees: s, metric: buffer/a, above: 0 ARM}]}, {method: y, checks: [{sees: s, metric: buffer/a, above: 0}]}]
    claims: [{says: a, source: b, method: x, direction: lower, CLAIM}]
`
	const whole = "metric: buffer/a per buffer/b, at_equal: score/execute_seconds, over_last: 5, against: y"
	for _, c := range []struct{ claim, arm, want string }{
		{whole, "", ""},
		{strings.Replace(whole, "buffer/a per buffer/b", "submissions.humanrank.test", 1), "", ""},
		{strings.Replace(whole, "buffer/a per buffer/b", "delta_k", 1), "", `"delta_k" is a number of the whole run`},
		{strings.Replace(whole, "buffer/a per buffer/b", "accuracy_by_step.4", 1), "", "is a number of the whole run"},
		{strings.Replace(whole, "score/execute_seconds", "seconds", 1), "", "a cost is STAGE/NAME"},
		{strings.Replace(whole, "over_last: 5", "over_last: 0", 1), "", "over_last: must be 1 or more"},
		{whole + ", iterations: 1-5", "", "iterations: must be empty with at_equal"},
		{strings.Replace(whole, ", against: y", "", 1), "", "compares two methods"},
		{"metric: buffer/a, over_last: 5, against: y", "", "counts iterations of at_equal, which is empty"},
		{whole, ", at_equal: score/execute_seconds, over_last: 1", "a check is of one method"},
	} {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		text := strings.NewReplacer("CLAIM", c.claim, " ARM", c.arm).Replace(plan)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || exitcode.Code(err) != exitcode.Usage) {
			t.Errorf("%s%s: %v, want %q", c.claim, c.arm, err, c.want)
		}
	}
}
