package reproduce

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/webpage/webpagetest"
)

// Nothing of the page is cut off, whatever claims say.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	spread, digest, long := compare.SpreadOf([]float64{.25, .5, .125}), strings.Repeat("0123456789abcdef", 4), strings.Repeat("unbroken", 30)
	r := Reproduction{Description: long, Results: []Result{{
		Name: "exit", Title: "ExIt and its ablations", Runs: []Run{{Method: long, Seed: 12345, Done: true, PolicySHA256: &digest, BinaryVersion: "v0.1.0-12-g1234567", WallSeconds: 90}, {Method: "grpo"}},
		Claims: []Outcome{
			{Says: long, Source: "a paper, Table 1", Metric: "delta_k", Method: long, Against: "grpo", Seeds: []uint64{1, 2, 3}, Values: []float64{1, 2, 3}, Others: []float64{2, 3, 4}, Spread: &spread, Verdict: CameOut},
			{Says: "another", Verdict: DidNot, Spread: &spread, Values: []float64{1}},
			{Says: "a third", Verdict: NotRun, Why: long},
		},
	}}}
	folder := t.TempDir()
	if err := Write(folder, r, map[string]bool{"exit": true}, []string{long}); err != nil {
		t.Fatal(err)
	}
	webpagetest.Check(t, filepath.Join(folder, "index.html"))
}
