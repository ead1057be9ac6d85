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
		Name: "exit", Title: "ExIt and its ablations", Runs: []Run{{Method: long, Seed: 12345, Done: true, Timeouts: 3, PolicySHA256: &digest, BinaryVersion: "v0.1.0-12-g1234567", WallSeconds: 90}, {Method: "grpo"}},
		Claims: []ClaimResult{
			{Says: long, Source: "a paper, Table 1", Paper: "29.0 ± 1.5 against 24.6 ± 2.0", Direction: Higher, Metric: "delta_k", Method: long, Against: "grpo", Seeds: []uint64{1, 2, 3}, Values: []float64{1, 2, 3}, Others: []float64{2, 3, 4}, Spread: &spread, Outcome: CameOut},
			{Says: "another", Direction: Lower, Outcome: DidNot, Spread: &spread, Values: []float64{1}},
			{Says: "a third", Outcome: NotRun, Why: long},
		},
	}}}
	folder := t.TempDir()
	if err := Write(folder, r, map[string]bool{"exit": true}, []string{long}); err != nil {
		t.Fatal(err)
	}
	webpagetest.Check(t, filepath.Join(folder, "index.html"))
}

// The paper's direction, with its numbers where a plan has them, stands beside ours.
func TestDirections(t *testing.T) {
	t.Parallel()
	up, down, none := compare.SpreadOf([]float64{1, 2}), compare.SpreadOf([]float64{-2, 1}), compare.SpreadOf([]float64{-1, 1})
	for _, c := range []struct {
		outcome      ClaimResult
		papers, ours string
	}{
		{ClaimResult{Direction: Higher, Spread: &up}, "higher", "higher"},
		{ClaimResult{Direction: Higher, Paper: "29.0 against 24.6", Spread: &down}, "higher: 29.0 against 24.6", "lower"},
		{ClaimResult{Direction: Lower, Spread: &none}, "lower", "the same"},
		{ClaimResult{Direction: Lower}, "lower", "–"},
	} {
		if papers, ours := c.outcome.Papers(), c.outcome.Ours(); papers != c.papers || ours != c.ours {
			t.Errorf("%+v: %q and %q, want %q and %q", c.outcome, papers, ours, c.papers, c.ours)
		}
	}
	var text strings.Builder
	five, twoHundred := 5, 200
	r := Reproduction{Results: []Result{{Title: "t", Runs: []Run{{Done: true, Timeouts: 2}, {Done: true, Timeouts: 1}, {}}, Claims: []ClaimResult{{Says: "a", Direction: Higher, Paper: "2 against 1", Metric: "m", Method: "x", Against: "y", Values: []float64{1, 2}, Others: []float64{0, 0}, Spread: &up, Power: &Power{PaperSeeds: &five, SeenSeeds: &twoHundred}, Outcome: TooSmall}}}}}
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	const want = `1 claim: 1 too small to say

t: 2 of 3 runs done; programs of 3 responses ran out of time, which depends on the machine
  outcome            paper                 ours     numbers                                                     seeds needed: paper / seen   claim
  too small to say   higher: 2 against 1   higher   m: x 1.50 ± 0.707, y 0 ± 0, difference 1.50 [-4.85, 7.85]   5 / 200                      a
`
	if got := text.String(); got != want {
		t.Errorf("text\n%s\nwant\n%s", got, want)
	}
}
