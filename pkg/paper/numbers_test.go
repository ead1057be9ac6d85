package paper

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/measure"
)

// TestRelativeGains by hand: of a score that is better the higher, 0.9 on 0.6 is 50 %; of a
// loss, 0.4 on 0.5 is 20 %, and 0.6 on 0.5 is −20 %; their means. A task that the first method
// has no score of, or one of 0, has none.
func TestRelativeGains(t *testing.T) {
	t.Parallel()
	number := func(method, task, measure string, y float64) Number {
		return Number{Method: method, Group: task, Measure: measure, Spread: compare.Spread{Seeds: 1, Mean: y}}
	}
	numbers := []Number{
		number("base", "auc", "last", .6), number("base", "auc", lowerIsBetter, 0), number("base", "loss", "last", .5), number("base", "zero", "last", 0),
		number("a", "auc", "last", .9), number("a", "auc", lowerIsBetter, 0), number("a", "loss", "last", .4), number("a", "loss", lowerIsBetter, 1), number("a", "zero", "last", 1), number("a", "other", "last", 1),
		number("b", "loss", "last", .6), number("b", "loss", lowerIsBetter, 1),
	}
	got := map[string]float64{}
	for _, n := range relativeGains(numbers, "last", "base") {
		got[n.Method+" "+n.Group+" "+n.Measure] = n.Mean
	}
	want := map[string]float64{
		"a auc relative gain (%)": 50, "a loss relative gain (%)": 20, "b loss relative gain (%)": -20, "a mean over tasks relative gain (%)": 35, "b mean over tasks relative gain (%)": -20,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-2 && b-a < 1e-2 })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEnds: first and last of each group by step, and their difference.
func TestEnds(t *testing.T) {
	t.Parallel()
	at := func(group string, step int, y float64) value { return value{group: group, x: measure.On(step), y: y} }
	got := map[string]float64{}
	for _, v := range ends([]value{at("a", 0, 10), at("a", 1, 20), at("a", 2, 40), at("b", 0, 5)}, "after", ", best so far") {
		got[v.group+" "+v.measure] = v.y
	}
	want := map[string]float64{
		"a after: first answer, best so far (%)": 10, "a after: revision 2, best so far (%)": 40, "a after: Δ_2, best so far": 30, "b after: first answer, best so far (%)": 5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDeviationOverSamples: a method of one seed shows that of its evaluation's samples; of
// two seeds, 2 and 4, the deviation is theirs, √2, and so is the standard error, √2/√2 = 1.
func TestDeviationOverSamples(t *testing.T) {
	t.Parallel()
	var y tally
	for method, seeds := range map[string][]float64{"one": {2}, "two": {2, 4}} {
		for _, mean := range seeds {
			y.take(method, "", []value{{measure: "m", y: mean}, {measure: "m" + measure.SampleDeviation, y: 7}, {measure: "m" + measure.SampleError, y: 3.5}})
		}
	}
	numbers := y.numbers()
	if len(numbers) != 2 {
		t.Fatalf("%d numbers, want 2", len(numbers))
	}
	for _, n := range numbers {
		if want := map[string]float64{"one": 7, "two": 1.4142135623730951}[n.Method]; n.Std == nil || *n.Std != want {
			t.Errorf("%s: deviation %v, want %g", n.Method, n.Std, want)
		}
		if want := map[string]float64{"one": 3.5, "two": 1}[n.Method]; n.Error == nil || math.Abs(*n.Error-want) > 1e-15 {
			t.Errorf("%s: standard error %v, want %g", n.Method, n.Error, want)
		}
		if got, want := (Item{errors: true}).text(n), map[string]string{"one": "2 ± 3.50", "two": "3 ± 1"}[n.Method]; got != want {
			t.Errorf("%s: %q, want %q", n.Method, got, want)
		}
	}
}
