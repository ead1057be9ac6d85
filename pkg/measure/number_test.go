package measure

import (
	"math"
	"reflect"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// Two iterations with invalid shares of 1/4 and 3/8 of 8 and 16 responses: 8 of 24.
func TestNumber(t *testing.T) {
	t.Parallel()
	r := &Rows{
		Run: &rundir.Run{}, summary: &Summary{Missing: map[string]string{"delta_k_before": "the recipe has no revisions"}},
		sums: map[int]map[string]float64{1: {"buffer/invalid": 2, "buffer/responses": 8}, 2: {"buffer/invalid": 6, "buffer/responses": 16, "buffer/late": 4}, 3: {}},
		keys: map[string]any{"delta_k": 0.5, "accuracy_by_step": []any{0.25, 0.5}, "corrections": map[string]any{"net": 3.0}, "wall_seconds": nil},
	}
	for _, c := range []struct {
		metric      string
		first, last int
		want        float64 // NaN: not measured
	}{
		{"buffer/invalid per buffer/responses", 1, 2, 1. / 3},
		{"buffer/invalid", 1, 2, 4},
		{"buffer/late", 1, 2, 2},
		{"buffer/none per buffer/responses", 1, 2, 0}, // what never happened
		{"buffer/none", 1, 2, math.NaN()},
		{"buffer/invalid per buffer/none", 1, 2, math.NaN()},
		{"buffer/invalid", 3, 3, math.NaN()},
		{"delta_k", 1, 0, 0.5},
		{"accuracy_by_step.1", 1, 0, 0.5},
		{"accuracy_by_step.2", 1, 0, math.NaN()},
		{"accuracy_by_step.-1", 1, 0, math.NaN()},
		{"corrections.net", 1, 0, 3},
		{"corrections", 1, 0, math.NaN()},
		{"wall_seconds", 1, 0, math.NaN()},
	} {
		got, _, err := r.Number(t.Context(), c.metric, Span{c.first, c.last})
		if math.IsNaN(c.want) != (err != nil) || err == nil && math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s of %d to %d: %v, %v, want %v", c.metric, c.first, c.last, got, err, c.want)
		}
	}
}

// Every number of summary.json has a name, and no name is there twice.
func TestRegistry(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range All {
		if names[m.Name] || m.Name == "" || m.Reads == "" {
			t.Errorf("%+v is there twice, or has no name or files", m)
		}
		names[m.Name] = true
	}
	identity := map[reflect.Kind]bool{reflect.String: true, reflect.Bool: true, reflect.Uint64: true}
	for field := range reflect.TypeFor[Summary]().Fields() {
		key, kind := field.Tag.Get("json"), field.Type.Kind()
		if key == "-" || key == "missing" || key == "created" || key == "composition" || key == "policy_sha256" || identity[kind] {
			continue
		}
		if !names[key] {
			t.Errorf("summary.json's %s is no measure", key)
		}
	}
	for path, known := range map[string]bool{"delta_k": true, "accuracy_before": true, "corrections.net": true, "buffer/a per buffer/b": true, "transitions.f2s": true, "corections.net": false, "buffer": false, "Buffer/a": false} {
		if err := CheckPath(path); (err == nil) != known || err != nil && exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %v", path, err)
		}
	}
}
