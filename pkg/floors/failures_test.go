package floors

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFailureTable: the tests that slurm/README.md names are there, and it has its
// rows.
func TestFailureTable(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../slurm/README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	var tests strings.Builder
	for path, content := range sources(t) {
		if strings.HasSuffix(path, "_test.go") {
			tests.Write(content)
		}
	}
	if rows := regexp.MustCompile(`(?m)^\| \d+ \|`).FindAllString(page, -1); len(rows) != 31 {
		t.Errorf("slurm/README.md has %d rows, want 31", len(rows))
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(page, -1)
	if len(named) < 20 {
		t.Errorf("slurm/README.md names %d tests", len(named))
	}
	for _, name := range named {
		if !strings.Contains(tests.String(), "func "+name[1]+"(") {
			t.Errorf("slurm/README.md names %s, which is no test", name[1])
		}
	}
}
