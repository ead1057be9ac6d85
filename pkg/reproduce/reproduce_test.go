package reproduce

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/exitcode"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// Student's interval of 1, 2, 3 is 2 ± 4.303/√3 = [-0.48, 4.48]; of 4, 5, 6 it is
// 5 ± 2.48 (t of two degrees of freedom at 97.5 %: 4.303).
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		differences []float64
		direction   string
		want        string
	}{
		{[]float64{1, 2, 3}, Higher, TooSmall},
		{[]float64{4, 5, 6}, Higher, CameOut},
		{[]float64{4, 5, 6}, Lower, DidNot},
		{[]float64{-4, -5, -6}, Lower, CameOut},
		{[]float64{-4, -5, -6}, Higher, DidNot},
		{[]float64{7}, Higher, TooSmall}, // one seed has no interval
		{[]float64{0, 0, 0}, Higher, TooSmall},
		{[]float64{2, 2}, Higher, CameOut},
	} {
		if got := verdict(compare.SpreadOf(c.differences), c.direction); got != c.want {
			t.Errorf("%v, %s: %s, want %s", c.differences, c.direction, got, c.want)
		}
	}
}

// Two iterations with invalid shares of 1/4 and 3/8 of 8 and 16 responses: 8 of 24.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := &measured{
		sums: map[int]map[string]float64{1: {"buffer/invalid": 2, "buffer/responses": 8}, 2: {"buffer/invalid": 6, "buffer/responses": 16, "buffer/late": 4}, 3: {}},
		keys: map[string]any{"delta_k": 0.5, "by_step": []any{0.25, 0.5}, "corrections": map[string]any{"net": 3.0}, "none": nil},
	}
	for _, c := range []struct {
		metric, iterations string
		want               float64 // NaN: not measured
	}{
		{"buffer/invalid per buffer/responses", "1-2", 1. / 3},
		{"buffer/invalid", "1-2", 4},
		{"buffer/late", "1-2", 2},
		{"buffer/none per buffer/responses", "1-2", 0}, // what never happened
		{"buffer/none", "1-2", math.NaN()},
		{"buffer/invalid per buffer/none", "1-2", math.NaN()},
		{"buffer/invalid", "3", math.NaN()},
		{"delta_k", "", 0.5},
		{"by_step.1", "", 0.5},
		{"by_step.2", "", math.NaN()},
		{"by_step.-1", "", math.NaN()},
		{"corrections.net", "", 3},
		{"corrections", "", math.NaN()},
		{"none", "", math.NaN()},
	} {
		got, _, err := m.value(t.Context(), Claim{Metric: c.metric, Iterations: c.iterations})
		if math.IsNaN(c.want) != (err != nil) || err == nil && math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s of %s: %v, %v, want %v", c.metric, c.iterations, got, err, c.want)
		}
	}
}

// A claim is judged with the seeds with which both methods are done.
func TestJudge(t *testing.T) {
	t.Parallel()
	of := func(value float64) *measured { return &measured{keys: map[string]any{"delta_k": value}} }
	runs := []Run{{Method: "a", Seed: 1}, {Method: "a", Seed: 2}, {Method: "a", Seed: 3}, {Method: "b", Seed: 1}, {Method: "b", Seed: 2}, {Method: "b", Seed: 4}}
	done := map[string]map[uint64]*measured{"a": {1: of(3), 2: of(5), 3: of(100)}, "b": {1: of(1), 2: of(3), 4: of(7)}}
	claim := Claim{Metric: "delta_k", Method: "a", Against: "b", Direction: Higher}
	o, err := claim.judge(t.Context(), runs, done)
	if err != nil || !cmp.Equal(o.Seeds, []uint64{1, 2}) || !cmp.Equal(o.Values, []float64{3, 5}) || !cmp.Equal(o.Others, []float64{1, 3}) || o.Spread.Mean != 2 || o.Verdict != CameOut {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = (Claim{Metric: "buffer/none per buffer/all", Iterations: "1", Method: "a"}).judge(t.Context(), runs[:1], map[string]map[uint64]*measured{
		"a": {1: {sums: map[int]map[string]float64{1: {"buffer/all": 1}}}},
	}); err != nil || o.Verdict != Unmeasured || o.Why != "no run has buffer/none per buffer/all" {
		t.Errorf("a name that nothing has: %+v, %v", o, err)
	}
	// No seed is left out: where one has no number nothing is judged, and the others' are said.
	done["a"][2] = &measured{}
	done["b"][1].keys["delta_k"] = 1.25
	const why = "seed 2 of a: delta_k: not measured; measured: seed 1 a 3.00 and b 1.25"
	if o, err = claim.judge(t.Context(), runs, done); err != nil || o.Verdict != Unmeasured || o.Spread != nil || o.Why != why || !cmp.Equal(o.Seeds, []uint64{1}) {
		t.Errorf("with a seed that lacks it: %+v, %v", o, err)
	}
	delete(done["b"], 1)
	if o, err = claim.judge(t.Context(), runs, done); err != nil || o.Why != "seed 2 of a: delta_k: not measured" {
		t.Errorf("with no seed that has it: %+v, %v", o, err)
	}
	claim.Method = "c"
	if o, err = claim.judge(t.Context(), runs, done); err != nil || o.Verdict != NotRun || o.Spread != nil {
		t.Errorf("a method without runs: %+v, %v", o, err)
	}
}

// What another machine measured is taken with what the plan here cites; another claim's
// numbers are not.
func TestWith(t *testing.T) {
	t.Parallel()
	result := func(done bool, says, source, paper string) Reproduction {
		return Reproduction{Results: []Result{{Name: "a", Runs: []Run{{Done: done}}, Claims: []Outcome{{Says: says, Source: source, Paper: paper, Metric: "delta_k", Verdict: CameOut}}}}}
	}
	for _, c := range []struct {
		here, there Reproduction
		want        []string
	}{
		{result(false, "more", "Table 1", "2 against 1"), result(true, "more", "Table 2", ""), []string{"a"}},
		{result(true, "more", "Table 1", "2 against 1"), result(true, "more", "Table 1", ""), nil},
		{result(false, "more", "Table 1", "2 against 1"), result(false, "more", "Table 1", ""), nil},
		{result(false, "more", "Table 1", "2 against 1"), result(true, "less", "Table 1", ""), nil},
	} {
		taken := c.here.With(c.there)
		claim := c.here.Results[0].Claims[0]
		if !cmp.Equal(taken, c.want) || claim.Says != "more" || claim.Source != "Table 1" || claim.Paper != "2 against 1" {
			t.Errorf("took %v, want %v: %+v", taken, c.want, claim)
		}
	}
}

// By hand: of four runs one is the same, one has other weights, one has met a time limit
// at either time, and one is not done here.
func TestSame(t *testing.T) {
	t.Parallel()
	of := func(digest string, timeouts int) Run {
		return Run{Name: digest[:1], PolicySHA256: &digest, Timeouts: timeouts}
	}
	reproduction := func(runs ...Run) Reproduction { return Reproduction{Results: []Result{{Name: "e", Runs: runs}}} }
	before := reproduction(of("a1", 5), of("b1", 0), of("c1", 3), of("d1", 0))
	now := reproduction(of("a1", 0), of("b2", 0), of("c2", 1), Run{Name: "d"}, of("e1", 0))
	same, others := now.Same(before)
	if want := []string{"e/b", "e/c (programs of 3 responses ran out of time, which depends on the machine)"}; same != 1 || !cmp.Equal(others, want) {
		t.Errorf("%d are the same, others %q, want 1 and %q", same, others, want)
	}
}

// The plans that are shipped can be read, and their recipes too, which say what they are
// measured by; each claim says what the paper has for it.
func TestShippedPlans(t *testing.T) {
	t.Setenv("LATHE_DATA", t.TempDir()) // which recipes name
	for _, path := range []string{"../../analysis/reproduce-mini.yaml"} {
		p, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Experiments {
			index, err := e.Runs(t.TempDir())
			if err != nil || len(index.Runs) == 0 || len(e.Claims) == 0 {
				t.Errorf("%s: %d runs, %d claims: %v", e.Name, len(index.Runs), len(e.Claims), err)
			}
			comments := map[string]string{} // of recipes, by method
			for _, file := range e.Recipes {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				comments[methodOf(file)] = strings.ReplaceAll(string(text), "\n# ", " ")
				if want := "in analysis/reproduce-mini.yaml: seeds " + e.Seeds; !strings.Contains(comments[methodOf(file)], want) {
					t.Errorf("%s does not say %q", file, want)
				}
			}
			for _, c := range e.Claims {
				if c.Paper == "" {
					t.Errorf("%s: %q has no numbers of its paper, nor says that there are none", e.Name, c.Says)
				}
				metric := c.Metric
				if c.Iterations != "" {
					metric += " of iterations " + c.Iterations
				}
				for _, method := range []string{c.Method, c.Against} {
					if method != "" && !strings.Contains(comments[method], metric) {
						t.Errorf("the recipe of %s does not say %q", method, metric)
					}
				}
			}
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("experiments: [{name: a, seeds: 1-2, recipes: [a.yaml], claims: [{says: a, source: b, metric: a/b per c/d, method: a, direction: lower}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err != nil && exitcode.Code(err) == exitcode.Bug {
			t.Errorf("%q: %v", text, err)
		}
	})
}
