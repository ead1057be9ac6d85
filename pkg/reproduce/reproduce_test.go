package reproduce

import (
	"fmt"
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
func TestOutcomeOf(t *testing.T) {
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
		if got := outcomeOf(compare.SpreadOf(c.differences), c.direction, nil); got != c.want {
			t.Errorf("%v, %s: %s, want %s", c.differences, c.direction, got, c.want)
		}
	}
}

// done is a run with what was measured of it.
func done(method string, seed uint64, measures map[string]float64) Run {
	return Run{Name: fmt.Sprintf("%s-s%d", method, seed), Method: method, Seed: seed, Done: true, Measures: measures, Lacking: map[string]string{}}
}

// A claim is decided with the seeds of both methods, once all their runs are done.
func TestDecide(t *testing.T) {
	t.Parallel()
	of := func(method string, seed uint64, value float64) Run {
		return done(method, seed, map[string]float64{"delta_k": value})
	}
	runs := []Run{of("a", 1, 3), of("a", 2, 5), of("a", 3, 100), of("b", 1, 1), of("b", 2, 3), of("b", 4, 7)}
	claim := Claim{Measure: Measure{Metric: "delta_k"}, Method: "a", Against: "b", Direction: Higher}
	o := claim.decide(runs)
	if !cmp.Equal(o.Seeds, []uint64{1, 2}) || !cmp.Equal(o.Values, []float64{3, 5}) || !cmp.Equal(o.Others, []float64{1, 3}) || o.Spread.Mean != 2 || o.Outcome != CameOut {
		t.Errorf("%+v", o)
	}
	never := done("a", 1, map[string]float64{"buffer/none per buffer/all": 0})
	never.Never = []string{"buffer/none per buffer/all"}
	if o = (Claim{Measure: Measure{Metric: "buffer/none per buffer/all"}, Method: "a"}).decide([]Run{never}); o.Outcome != Unmeasured || o.Why != "no run has buffer/none per buffer/all" {
		t.Errorf("a name that nothing has: %+v", o)
	}
	// No seed is left out: where one has no number nothing is decided, and the others' are printed.
	runs[1] = done("a", 2, map[string]float64{})
	runs[1].Lacking["delta_k"] = "delta_k: not measured"
	runs[3].Measures["delta_k"] = 1.25
	const why = "seed 2 of a: delta_k: not measured; measured: seed 1 a 3.00 and b 1.25"
	if o = claim.decide(runs); o.Outcome != Unmeasured || o.Spread != nil || o.Why != why || !cmp.Equal(o.Seeds, []uint64{1}) {
		t.Errorf("with a seed that lacks it: %+v", o)
	}
	runs[3].Done = false
	if o = claim.decide(runs); o.Outcome != NotRun || o.Why != "1 run still to be done" || len(o.Values) > 0 {
		t.Errorf("a look before the end: %+v", o)
	}
	claim.Method = "c"
	if o = claim.decide(runs); o.Outcome != NotRun || o.Spread != nil {
		t.Errorf("a method without runs: %+v", o)
	}
}

// The differences 0.9, 1.0 and 1.1 against a base of 10 have the interval 1 ± 0.248: 0 is
// outside, and so it came out, whatever the paper's size. Those of 0, 0.1 and -0.1 have
// 0 ± 0.248: a paper's effect of 10 % of the base is excluded, one of 2 % is not.
func TestSmallerThanThePaper(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		differences []float64
		numbers     []float64
		direction   string
		want        string
	}{
		{[]float64{.9, 1, 1.1}, []float64{110, 100}, Higher, CameOut},
		{[]float64{0, .1, -.1}, []float64{110, 100}, Higher, Smaller},
		{[]float64{0, .1, -.1}, []float64{102, 100}, Higher, TooSmall},
		{[]float64{0, .1, -.1}, []float64{90, 100}, Lower, Smaller},
		{[]float64{0, .1, -.1}, []float64{90, 100}, Higher, TooSmall}, // the paper's numbers go the other way
		{[]float64{0, .1, -.1}, nil, Higher, TooSmall},
	} {
		var runs []Run
		for i, d := range c.differences {
			runs = append(runs, done("a", uint64(i), map[string]float64{"x": 10 + d}), done("b", uint64(i), map[string]float64{"x": 10}))
		}
		o := Claim{Measure: Measure{Metric: "x"}, Method: "a", Against: "b", Direction: c.direction, Numbers: c.numbers}.decide(runs)
		if o.Outcome != c.want {
			t.Errorf("%v, paper %v, %s: %s, want %s", c.differences, c.numbers, c.direction, o.Outcome, c.want)
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
	const mini = "../../analysis/reproduce-mini.yaml"
	for _, path := range []string{mini, "../../analysis/reproduce-papers.yaml"} {
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
				if want := "in analysis/reproduce-mini.yaml: seeds " + e.Seeds; path == mini && !strings.Contains(comments[methodOf(file)], want) {
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
					if path == mini && method != "" && !strings.Contains(comments[method], metric) {
						t.Errorf("the recipe of %s does not say %q", method, metric)
					}
				}
			}
		}
	}
}

// Every plan can be read, its recipes too, and no two of its methods are the same; of
// reproduce-mini TestArmsSwapped shows it.
func TestPlans(t *testing.T) {
	t.Setenv("LATHE_DATA", t.TempDir())
	plans, err := filepath.Glob("../../analysis/reproduce-*.yaml")
	if err != nil || len(plans) < 4 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	for _, path := range plans {
		if filepath.Base(path) == "reproduce-mini.yaml" {
			continue
		}
		plan, err := Load(path)
		if err == nil {
			err = plan.CheckArms(t.TempDir())
		}
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
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
