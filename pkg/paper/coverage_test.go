package paper

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
)

// numbered is how many tables and figures each paper has.
var numbered = map[string]map[string]int{
	"exit": {"Tab": 7, "Fig": 10}, "flipts": {"Tab": 6, "Fig": 9}, "ace": {"Tab": 5, "Fig": 5}, "mlerl": {"Tab": 7, "Fig": 4}, "rlmle": {"Tab": 7, "Fig": 14},
}

// TestCoverage: jobs/COVERAGE.md has every table and figure of the papers once, and every item
// of lathe paper; its recipes are there, and what is not made says why.
func TestCoverage(t *testing.T) {
	t.Parallel()
	jobs := sourcetree.Path("jobs")
	place := regexp.MustCompile(` (Tab|Fig)\. ([0-9]+)$`)
	for _, p := range papers {
		found, covered := map[string][]int{}, map[string]bool{}
		for _, c := range p.covered {
			m := place.FindStringSubmatch(c.Item)
			if m == nil || !strings.HasPrefix(c.Item, p.short()+" ") {
				t.Fatalf("%s: %q is no table or figure of it", p.name, c.Item)
			}
			n, _ := strconv.Atoi(m[2])
			found[m[1]] = append(found[m[1]], n)
			for item := range strings.FieldsSeq(strings.ReplaceAll(c.Items, ",", " ")) {
				covered[item] = true
				if !slices.ContainsFunc(p.queries, func(q query) bool { return q.name == item }) {
					t.Errorf("%s: lathe paper %s has no item %s", c.Item, p.name, item)
				}
			}
			if c.Items == "" && c.Note == "" || c.Items != "" && c.Full == "" {
				t.Errorf("%s: has no recipe, or no reason", c.Item)
			}
			if _, err := Recipes(jobs, c.Full+" "+c.Mini); err != nil {
				t.Errorf("%s: %v", c.Item, err)
			}
		}
		for kind, n := range numbered[p.name] {
			var all []int
			for i := range n {
				all = append(all, i+1)
			}
			if !slices.Equal(found[kind], all) {
				t.Errorf("%s: %s. %v, want 1 to %d in order", p.name, kind, found[kind], n)
			}
		}
		for _, q := range p.queries {
			if !covered[q.name] {
				t.Errorf("%s: the item %s belongs to no table or figure of the page", p.name, q.name)
			}
		}
	}
	golden.Check(t, sourcetree.Path("jobs", "COVERAGE.md"), CoveragePage())
}

// TestRecipes: patterns give each recipe once, and one that matches nothing is an error.
func TestRecipes(t *testing.T) {
	t.Parallel()
	jobs := sourcetree.Path("jobs")
	all, err := Recipes(jobs, "ace/mini/ace ace/mini/*")
	if err != nil || len(all) != 3 || !strings.HasSuffix(all[0], "ace.yaml") {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := Recipes(jobs, "ace/none"); err == nil || !strings.Contains(fmt.Sprint(err), "no recipe ace/none.yaml") {
		t.Errorf("a pattern without a match: %v", err)
	}
}
