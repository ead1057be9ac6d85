package command_test

import (
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// What a run measures of itself is the same in every run of a recipe, however long
// its tasks took: the tables of metrics have one digest, and so have those of usage,
// whose numbers are in none.
func TestMetricsOfTwoRuns(t *testing.T) {
	digests := map[string]string{}
	for _, name := range []string{"one", "two"} {
		dir := filepath.Join(t.TempDir(), name)
		lathe(t, exitcode.OK, runArgs(dir, smoke, thorough...)...)
		r := open(t, dir)
		for k := range r.Recipe.Schedule.Iterations + 1 {
			for _, path := range []string{r.Dir.Metrics(k), r.Dir.Usage(k)} {
				m, err := seal.Verify(t.Context(), path, seal.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if m.Rows == 0 || digests[r.Dir.Rel(path)] != "" && digests[r.Dir.Rel(path)] != m.ContentSHA256 {
					t.Errorf("%s: %d rows, content sha256 %s, in the other run %s", r.Dir.Rel(path), m.Rows, m.ContentSHA256, digests[r.Dir.Rel(path)])
				}
				digests[r.Dir.Rel(path)] = m.ContentSHA256
			}
		}
	}
}
