package floors

import (
	"regexp"
	"testing"
)

// TestFailureTable: slurm/README.md has its rows. That the tests which it names are
// there is held by TestNamedTests.
func TestFailureTable(t *testing.T) {
	t.Parallel()
	page := markdown(t)["slurm/README.md"]
	if rows := regexp.MustCompile(`(?m)^\| \d+ \|`).FindAllString(page, -1); len(rows) != 31 {
		t.Errorf("slurm/README.md has %d rows, want 31", len(rows))
	}
	if named := regexp.MustCompile("`Test[A-Za-z]+`").FindAllString(page, -1); len(named) < 20 {
		t.Errorf("slurm/README.md names %d tests", len(named))
	}
}
