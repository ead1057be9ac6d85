package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// The iteration to look at is that of the largest fall, among those that are finished.
func TestLookAt(t *testing.T) {
	t.Parallel()
	at := func(x float64) *float64 { return &x }
	series := func(rewards ...*float64) (all []Iteration) {
		for i, reward := range rewards {
			all = append(all, Iteration{Iteration: i + 1, RewardMean: reward})
		}
		return all
	}
	for name, c := range map[string]struct {
		s    Summary
		want int
		why  string
		fell bool
	}{
		"nothing":       {Summary{}, 0, "", false},
		"one":           {Summary{IterationsDone: 1, Series: series(at(.5))}, 1, "the mean reward fell in no iteration; the newest is 1", false},
		"rises":         {Summary{IterationsDone: 3, Series: series(at(.1), at(.1), at(.3))}, 3, "the newest is 3", false},
		"falls":         {Summary{IterationsDone: 4, Series: series(at(.5), at(.4), at(.6), at(.35))}, 4, "the mean reward fell most in iteration 4, from 0.6 to 0.35", true},
		"across a gap":  {Summary{IterationsDone: 4, Series: series(at(.5), nil, at(.2), at(.1))}, 3, "in iteration 3, from 0.5 to 0.2", true},
		"not ended yet": {Summary{IterationsDone: 2, Series: series(at(.5), at(.4), at(.1))}, 2, "in iteration 2, from 0.5 to 0.4", true},
	} {
		got, why, fell := lookAt(c.s)
		if got != c.want || !strings.Contains(why, c.why) || fell != c.fell {
			t.Errorf("%s: iteration %d, %q, fell %v", name, got, why, fell)
		}
	}
}

// groupsOf checks that a report links to the page of training groups, and the page shows
// each token's probability.
func groupsOf(t *testing.T, folder string) {
	t.Helper()
	report := string(must.Get(os.ReadFile(filepath.Join(folder, "index.html")))(t))
	page := string(must.Get(os.ReadFile(filepath.Join(folder, groupsName)))(t))
	if !strings.Contains(report, `<a href="`+groupsName+`">`) || !strings.Contains(report, "lathe samples RUN --iteration ") {
		t.Error("the report does not link to the page of groups")
	}
	if n := strings.Count(page, "<section>"); n != groupsShown || !strings.Contains(page, `title="p = `) {
		t.Errorf("the page has %d groups, want %d, each token with its probability", n, groupsShown)
	}
}
