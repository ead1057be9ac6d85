package paper

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Covered is a table or figure of a paper, and how its numbers are made.
type Covered struct {
	Item  string // as it is cited: ExIt Tab. 1
	What  string // it shows
	Items string // of [Make] that have its numbers, with commas between; empty where none has
	Full  string // recipes with the paper's settings: patterns below jobs, with spaces between
	Mini  string // those that train small policies on two cores
	Note  string // what differs, or why it is not made
}

// Made says whether its numbers can be made here, on two cores and without weights.
func (c Covered) Made() string {
	switch {
	case c.Note == settingsPage:
		return "in SETTINGS.md"
	case c.Items == "":
		return "not made"
	case c.Mini != "":
		return "here, in miniature"
	}
	return "needs GPUs and weights"
}

// Covering is the tables and figures of a paper by its name in commands, in the paper's
// order: tables first.
func Covering(name string) ([]Covered, error) {
	for _, p := range papers {
		if p.name == name {
			return p.covered, nil
		}
	}
	return nil, exitcode.Usagef("there is no paper %q: there are %s", name, strings.Join(Names(), ", "))
}

// Recipes are the recipes that patterns below a folder match, each once, in the order of the
// patterns. A pattern that matches none is an error.
func Recipes(jobs, patterns string) ([]string, error) {
	var all []string
	for pattern := range strings.FieldsSeq(patterns) {
		found, err := filepath.Glob(filepath.Join(jobs, filepath.FromSlash(pattern)+".yaml"))
		if err != nil || len(found) == 0 {
			return nil, exitcode.Usagef("no recipe %s.yaml is in the folder %q: --jobs names the folder of Lathe's recipes", pattern, jobs)
		}
		for _, path := range found {
			if !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	return all, nil
}

// diagram is why an item has no numbers.
const diagram = "a diagram or an example: it has no numbers"

const settingsPage = "settings, each beside the recipes'"

// CoveragePage is jobs/COVERAGE.md.
func CoveragePage() string {
	var b strings.Builder
	b.WriteString("# Tables and figures of the five papers\n\nEvery table and figure, the recipes whose runs hold its numbers, and the command that makes it. `TestCoverage` writes this page with\n`go test ./pkg/paper -run TestCoverage -update` and holds recipes and items to what is there.\n\n" +
		"```\n$ lathe sweep RECIPE... --seeds 1-3 --out runs/SWEEP     # the recipes of a row, below jobs\n$ lathe paper PAPER runs/SWEEP --out runs/PAPER          # all items that the runs hold\n$ lathe paper PAPER --plan                               # the runs of each item, and what they would cost\n```\n\n" +
		"*Here, in miniature*: the miniature recipes train small policies on two cores; the numbers have the paper's definition, not its size. *Needs\nGPUs and weights*: the full-size recipes alone make it; they have the paper's settings ([SETTINGS.md](SETTINGS.md)). What a paper leaves\nopen is in [READINGS.md](READINGS.md).\n")
	for _, p := range papers {
		fmt.Fprintf(&b, "\n## %s\n\n`lathe paper %s`\n\n| item | shows | items of the command | recipes, full size | recipes, miniature | made | note |\n|---|---|---|---|---|---|---|\n", p.short(), p.name)
		for _, c := range p.covered {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", c.Item, c.What, quotedWords(strings.ReplaceAll(c.Items, ",", " ")), quotedWords(c.Full), quotedWords(c.Mini), c.Made(), cmp.Or(c.Note, " "))
		}
	}
	return b.String()
}

func quotedWords(words string) string {
	var all []string
	for word := range strings.FieldsSeq(words) {
		all = append(all, "`"+word+"`")
	}
	return cmp.Or(strings.Join(all, ", "), " ")
}
