package paper

import (
	"path/filepath"
	"testing"
)

func TestRLMLE(t *testing.T) {
	t.Parallel()
	r := papersOf(t, "rlmle", programsRun(t))
	a := item(t, r, "table-1").Numbers[0].Group
	// Six programs: invalid, 5, 3; then 4, 2, invalid.
	expect(t, item(t, r, "table-1"), map[string][2]float64{"smoke|" + a + "|first programs": {3, 0}, "smoke|" + a + "|last programs": {2, 0}, "smoke|" + a + "|programs each": {3, 0}})
	expect(t, item(t, r, "table-4"), map[string][2]float64{"smoke|" + a + "|from scratch": {4, 0}, "smoke|" + a + "|improve previous": {2, 0}})
	expect(t, item(t, r, "table-1-held-out"), map[string][2]float64{"smoke|h|after": {9, 0}})
	if missing := item(t, r, "table-7").Missing; len(missing) != 1 || missing[0] != "no valid program for h before training" {
		t.Errorf("Table 7 misses %q", missing)
	}
	if i := item(t, r, "table-6"); len(i.Numbers) != 0 || i.Missing[0] != "the task with the fewest programs has 6" {
		t.Errorf("Table 6: %+v", i)
	}
	expect(t, item(t, r, "figure-7"), map[string][2]float64{"smoke|" + a + "|best score|1": {3, 0}, "smoke|" + a + "|best score|2": {2, 0}})
	// Each iteration works for 60 seconds.
	over := item(t, r, "figure-7-seconds")
	expect(t, over, map[string][2]float64{"smoke|" + a + "|best score|60": {3, 0}, "smoke|" + a + "|best score|120": {2, 0}, "smoke|" + a + "|best score|115": {3, 0}})
	if len(over.Numbers) != 13 {
		t.Errorf("Figure 7 has %d moments of 24, the first 11 of which are before any program", len(over.Numbers))
	}
	expect(t, item(t, r, "figure-8"), map[string][2]float64{"smoke||seconds|1": {3, 0}, "smoke||seconds of valid programs|1": {11. / 3, 0}, "smoke||seconds|2": {3, 0}})
	expect(t, item(t, r, "figure-9"), map[string][2]float64{"smoke||score, −10 if not valid|1": {-22. / 4, 0}, "smoke||score, −10 if not valid|2": {-6, 0}})
}

// A run that took its scores ran no program: it is in every figure but that over time.
func TestTakenScoresHaveNoTime(t *testing.T) {
	t.Parallel()
	folder, other := programsRun(t), t.TempDir()
	madeTaking(t, filepath.Join(folder, "one"), filepath.Join(other, "two"), programs, "evaluation.steps=3", "evaluation.seconds=40", "seed=2")
	r := papersOf(t, "rlmle", other)
	if i := item(t, r, "figure-7"); len(i.Numbers) != 2 || len(i.Missing) != 0 {
		t.Errorf("Figure 7: %+v", i)
	}
	why := "runs of smoke took the scores of others, so that no program ran in their time"
	if i := item(t, r, "figure-7-seconds"); len(i.Numbers) != 0 || len(i.Missing) != 1 || i.Missing[0] != why {
		t.Errorf("Figure 7, over time: %+v", i)
	}
	// Beside others they are left out.
	if i := item(t, papersOf(t, "rlmle", folder, other), "figure-7-seconds"); len(i.Numbers) != 13 || i.Numbers[0].Seeds != 1 || len(i.Missing) != 1 || i.Missing[0] != why {
		t.Errorf("Figure 7, over time, of both: %+v", i)
	}
}
