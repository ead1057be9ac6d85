package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
)

// resultsTable is a table in a page that is made of committed results.
var resultsTable = regexp.MustCompile(`(?s)<!-- table: analysis/results/quickstart/compare\.json -->\n.*?\n\n`)

// TestQuickstartResults: the picture and the tables of the project's README and of
// analysis/README.md, and the table of numbers beside the results, say what the
// committed results of the quickstart say. With -update they are made of them.
func TestQuickstartResults(t *testing.T) {
	t.Parallel()
	const results = "../../analysis/results/quickstart/"
	content, err := os.ReadFile(results + "compare.json")
	if err != nil {
		t.Fatal(err)
	}
	var c Comparison
	if err := json.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := CSV(&table, c); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, results+"compare.csv", table.String())
	golden.Check(t, "../../analysis/quickstart.svg", string(c.byStep().SVG()))
	for path, rows := range map[string]string{"../../README.md": short(c), "../../analysis/README.md": markdown(c)} {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !resultsTable.Match(page) {
			t.Fatalf("%s has no table of %scompare.json", path, results)
		}
		golden.Check(t, path, resultsTable.ReplaceAllLiteralString(string(page), "<!-- table: analysis/results/quickstart/compare.json -->\n"+rows+"\n"))
	}
}

// short is the table with a row for each method and nothing else.
func short(c Comparison) string {
	var b strings.Builder
	for row := range strings.Lines(markdown(c)) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |"); !strings.HasPrefix(name, "seed ") && name != "before training" && !strings.Contains(name, " less ") {
			b.WriteString(row)
		}
	}
	return b.String()
}

// markdown is the table: the policy that all began with, each method with its seeds, and
// what was found against the baseline.
func markdown(c Comparison) string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	deviating := func(s Spread) string {
		if s.Std == nil {
			return share(s.Mean)
		}
		return share(s.Mean) + " ± " + share(*s.Std)
	}
	row("", "first answers", fmt.Sprintf("after %d revisions", c.Steps), "Δ")
	row("---", "---", "---", "---")
	begun := c.Methods[0]
	row("before training", deviating(begun.Before[0]), deviating(begun.Before[c.Steps]), deviating(*begun.DeltaBefore))
	for _, m := range c.Methods {
		row("`"+m.Label+"`", deviating(m.After[0]), deviating(m.After[c.Steps]), deviating(*m.Delta))
		for _, s := range m.BySeed {
			row(fmt.Sprintf("seed %d", s.Seed), share(s.After[0]), share(s.After[c.Steps]), s.delta())
		}
	}
	for _, m := range c.Methods {
		if m.FirstAnswers == nil {
			continue
		}
		cells := []string{fmt.Sprintf("`%s` less `%s`", m.Label, c.Baseline)}
		for _, d := range []*Difference{m.FirstAnswers, m.LastAnswers, m.DeltaK} {
			cells = append(cells, fmt.Sprintf("%+.1f ", 100*d.Mean)+points(d.OverSeeds))
		}
		row(cells...)
	}
	return b.String()
}
