package reproduce

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func at(x float64) *float64 { return &x }

// What the runs of an arm show is what it is called, or there is no outcome.
func TestChecks(t *testing.T) {
	t.Parallel()
	const key = "buffer/dropped_not_improved per buffer/groups"
	arm := func(dropped ...float64) []Run {
		var runs []Run
		for i, d := range dropped {
			seed := uint64(i + 1)
			runs = append(runs, done("all-valid", seed, map[string]float64{key: d, "score": 1}), done("whole", seed, map[string]float64{key: 3, "score": 2 + float64(i)/10}))
		}
		return runs
	}
	e := Experiment{
		Claims: []Claim{{Measure: Measure{Metric: "score"}, Method: "whole", Against: "all-valid", Direction: Higher}},
		Arms: []Arm{
			{"all-valid", []Check{{Sees: "nothing is dropped", Measure: Measure{Metric: key}, Equals: at(0)}}},
			{"whole", []Check{{Sees: "something is dropped", Measure: Measure{Metric: key}, Above: at(0)}}},
		},
	}
	for _, c := range []struct {
		runs    []Run
		outcome string
		why     string
	}{
		{arm(0, 0, 0), CameOut, ""},
		{arm(0, 4.98, 0), WrongArm, "all-valid: nothing is dropped (" + key + " wanted: is 0): seed 2: 4.98"},
		{[]Run{}, NotRun, ""},
		{[]Run{done("all-valid", 1, map[string]float64{"score": 1}), done("whole", 1, map[string]float64{key: 3, "score": 2})}, WrongArm, "seed 1: it was not measured"},
	} {
		result := Result{Runs: c.runs}
		e.decide(&result)
		if o := result.Claims[0]; o.Outcome != c.outcome || !strings.Contains(o.Why, c.why) {
			t.Errorf("%s (%s), want %s (%s)", o.Outcome, o.Why, c.outcome, c.why)
		}
	}
	// A measure of which nothing in the experiment has anything is a wrong name, and not 0.
	runs := arm(0, 0)
	for i := range runs {
		runs[i].Measures[key], runs[i].Never = 0, []string{key}
	}
	if got := e.Arms[0].Checks[0].against("all-valid", runs); !strings.Contains(got.Fails, "no run has "+key) {
		t.Errorf("a name that nothing has: %+v", got)
	}
	absent := Check{Sees: "no milestone", Measure: Measure{Metric: "milestones.0.before"}, Absent: true}
	without := done("whole", 1, map[string]float64{})
	if got := absent.against("whole", []Run{without}); got.Fails != "" || !cmp.Equal(got.Seeds, []uint64{1}) {
		t.Errorf("what is absent: %+v", got)
	}
	without.Measures["milestones.0.before"] = 0.5
	if got := absent.against("whole", []Run{without}); got.Fails != "seed 1 has it: 0.500" {
		t.Errorf("what should be absent: %+v", got)
	}
}

// TestArmsSwapped: if what an arm of the shipped plan is called were not what it did, its
// check would show it. The runs of each arm are taken for those of the arm that it is
// compared with, by the numbers that are kept, and a check of one of both must fail. The
// swap of the recipe itself is refused before anything starts.
func TestArmsSwapped(t *testing.T) {
	t.Setenv("LATHE_DATA", t.TempDir())
	plan, err := Load("../../analysis/reproduce-mini.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var page Reproduction
	text, err := os.ReadFile(kept + "reproduction.json")
	if err == nil {
		err = json.Unmarshal(text, &page)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.CheckArms(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	swaps := map[string]bool{}
	for i, e := range plan.Experiments {
		for _, c := range e.Claims {
			key := e.Name + ": " + c.Method + " for " + c.Against
			if c.Against == "" || swaps[key] {
				continue
			}
			swaps[key] = true
			var runs []Run
			measured := false
			for _, r := range page.Results[i].Runs {
				switch r.Method {
				case c.Against:
					measured = measured || r.Done
					r.Method = c.Method
				case c.Method:
					r.Method = c.Against
				}
				runs = append(runs, r)
			}
			if !measured {
				t.Logf("%s: not run yet", key)
				continue
			}
			result := Result{Runs: runs}
			e.decide(&result)
			for _, o := range result.Claims {
				if o.Method == c.Method && o.Against == c.Against && o.Outcome != WrongArm {
					t.Errorf("%s: %q has the outcome %s when the data of both arms are swapped", key, o.Says, o.Outcome)
				}
			}
			swapped := e
			swapped.Recipes, swapped.Seeds = nil, "1"
			var method string
			for _, file := range e.Recipes {
				switch methodOf(file) {
				case c.Method:
					continue
				case c.Against:
					method = filepath.Join(t.TempDir(), c.Method+".yaml")
					if err := os.WriteFile(method, []byte("base: "+file+"\ndescription: the other arm, called "+c.Method+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					swapped.Recipes = append(swapped.Recipes, method)
				}
				swapped.Recipes = append(swapped.Recipes, file)
			}
			own := e.Own[c.Against]
			swapped.Own = map[string][]string{}
			for name, settings := range e.Own {
				swapped.Own[name] = settings
			}
			delete(swapped.Own, c.Method)
			if len(own) > 0 {
				swapped.Own[c.Method] = own
			}
			err := (Plan{Experiments: []Experiment{swapped}}).CheckArms(t.TempDir())
			if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "are the same") {
				t.Errorf("%s: the recipe in place of the other's: %v", key, err)
			}
			t.Log(key)
		}
	}
	if len(swaps) < 20 {
		t.Errorf("%d pairs of arms, want those of the plan", len(swaps))
	}
}
