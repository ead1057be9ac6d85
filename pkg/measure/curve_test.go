package measure

import (
	"errors"
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// By hand. Of three iterations with 10 s and 2 s in a later wave, 4 s, and 6 s, 12, 16 and 22 s
// are spent. Invalid shares over two iterations: unknown after the first, (2 + 6)/(8 + 16) after the
// second, 6/16 after the third, which has no response.
func TestCurve(t *testing.T) {
	t.Parallel()
	r := &Rows{Run: &rundir.Run{}, sums: map[int]map[string]float64{
		1: {"score/execute_seconds": 10, "score/w01/execute_seconds": 2, "score/execute_seconds_more": 50, "buffer/invalid": 2, "buffer/responses": 8},
		2: {"score/execute_seconds": 4, "buffer/invalid": 6, "buffer/responses": 16},
		3: {"score/execute_seconds": 6},
	}}
	r.Recipe.Schedule.Iterations = 3
	for _, c := range []struct {
		path     string
		last     int
		want     []float64 // NaN: not measured
		happened bool
	}{
		{"buffer/invalid per buffer/responses", 2, []float64{math.NaN(), 1. / 3, .375}, true},
		{"buffer/invalid per buffer/responses", 1, []float64{.25, .375, math.NaN()}, true},
		{"buffer/invalid", 3, []float64{math.NaN(), math.NaN(), 8. / 3}, true},
		{"buffer/none per buffer/responses", 1, []float64{0, 0, math.NaN()}, false},
	} {
		points, happened, err := r.Curve(t.Context(), c.path, "score/execute_seconds", c.last)
		if err != nil || happened != c.happened || len(points) != 3 {
			t.Errorf("%s: %v, %v, %v", c.path, points, happened, err)
			continue
		}
		for i, p := range points {
			value := math.NaN()
			if p.Value != nil {
				value = *p.Value
			}
			if p.Iteration != i+1 || p.Spent != []float64{12, 16, 22}[i] || math.IsNaN(value) != math.IsNaN(c.want[i]) || math.Abs(value-c.want[i]) > 1e-12 {
				t.Errorf("%s over %d, iteration %d: %v after %v s, want %v", c.path, c.last, i+1, value, p.Spent, c.want[i])
			}
		}
	}
	r.sums[2]["learn/step-000/tokens"], r.sums[2]["learn/step-001/tokens"], r.sums[3]["learn/tokens"] = 5, 7, 1
	if points, _, err := r.Curve(t.Context(), "buffer/invalid", "learn/tokens", 1); err != nil || points[0].Spent != 0 || points[1].Spent != 12 || points[2].Spent != 13 {
		t.Errorf("tokens of optimizer steps: %v, %v", points, err)
	}
	if _, _, err := r.Curve(t.Context(), "buffer/invalid", "learn/execute_seconds", 1); !errors.Is(err, ErrUnmeasured) {
		t.Errorf("a cost that nothing has: %v", err)
	}
	if _, _, err := r.Curve(t.Context(), "delta_k", "score/execute_seconds", 1); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a number of the whole run: %v", err)
	}
}

// A curve is of a number that each iteration has, at a cost that is a metric of tasks.
func TestCheckCurve(t *testing.T) {
	t.Parallel()
	for of, usage := range map[[2]string]bool{
		{"buffer/invalid", "score/execute_seconds"}: false, {"buffer/invalid per buffer/responses", "learn/tokens"}: false, {"transitions.f2s", "learn/tokens"}: false,
		{"submissions.humanrank", "learn/tokens"}: false, {"transitions", "learn/tokens"}: true, {"submissions", "learn/tokens"}: true, {"accuracy_by_step.1", "learn/tokens"}: true,
		{"selected_version.validation", "learn/tokens"}: true, {"delta_k", "learn/tokens"}: true, {"nothing", "learn/tokens"}: true, {"buffer/invalid", "tokens"}: true, {"buffer/invalid", "learn/tokens per learn/steps"}: true,
	} {
		if err := CheckCurve(of[0], of[1]); (err != nil) != usage || err != nil && exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q: %v, refused: %v", of, err, usage)
		}
	}
}

// A number of held-out problems is that of the last version that was evaluated by then.
func TestEvaluatedBy(t *testing.T) {
	t.Parallel()
	r := &Rows{Run: &rundir.Run{}}
	r.Recipe.Schedule.Iterations, r.Recipe.Evaluation.Problems, r.Recipe.Evaluation.Every = 10, 1, 4
	r.Graph.Recipe = r.Recipe
	for version, want := range map[int]int{0: 0, 3: 0, 4: 4, 7: 4, 9: 8, 10: 10} {
		if got := r.evaluatedBy(version); got != want {
			t.Errorf("up to %d: version %d, want %d", version, got, want)
		}
	}
}
