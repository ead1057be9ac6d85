package reproduce

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

//go:embed page.html
var pageTemplate string

// page is what page.html shows.
type page struct {
	Reproduction
	Experiments []experimentOnPage
	Notes       []string
}

type experimentOnPage struct {
	Title, Progress string
	Compared        bool // a page of its methods lies in its folder
	Name            string
	Claims          []claimOnPage
	Checks          []string
	Runs            webpage.Table
}

type claimOnPage struct {
	Verdict, Says, Source, Numbers, Seeds string
	Paper, Ours, Difference, Needed       string
	Why                                   string // where an arm is not what it is called
	Right, Wrong                          bool
}

// Write makes the page of a reproduction in its folder, index.html, which needs
// nothing else, and reproduction.json, its numbers.
func Write(folder string, r Reproduction, compared map[string]bool, notes []string) error {
	p := page{Reproduction: r, Notes: notes}
	for _, e := range r.Results {
		p.Experiments = append(p.Experiments, e.onPage(compared[e.Name]))
	}
	html, err := webpage.Render(pageTemplate, p)
	if err != nil {
		return err
	}
	numbers, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding what came out: %w", err)
	}
	attempt := seal.AttemptFromEnv()
	if err := seal.Replace(filepath.Join(folder, "index.html"), html, attempt); err != nil {
		return err
	}
	return seal.Replace(filepath.Join(folder, "reproduction.json"), append(numbers, '\n'), attempt)
}

func (e Result) onPage(compared bool) experimentOnPage {
	p := experimentOnPage{Title: e.Title, Progress: e.progress(), Name: e.Name, Compared: compared, Runs: webpage.Table{Head: []string{"method", "seed", "wall", "policy", "made by"}}}
	for _, o := range e.Claims {
		why := ""
		if o.Verdict == WrongArm {
			why = o.Why
		}
		p.Claims = append(p.Claims, claimOnPage{
			Why:     why,
			Verdict: o.Verdict, Says: o.Says, Source: o.Source, Numbers: o.means(), Seeds: strings.Trim(fmt.Sprint(o.Seeds), "[]"),
			Paper: o.papers(), Ours: o.ours(), Difference: o.difference(), Needed: o.seedsNeeded(), Right: o.Verdict == CameOut, Wrong: o.Verdict == DidNot || o.Verdict == WrongArm,
		})
	}
	p.Checks = e.checkLines()
	for _, method := range e.methods() {
		for _, r := range e.Runs {
			if r.Method != method {
				continue
			}
			row := []string{method, fmt.Sprint(r.Seed), "not done", "", ""}
			if r.Done {
				row[2] = fmt.Sprintf("%.1f min", r.WallSeconds/60)
				row[4] = r.BinaryVersion
			}
			if r.PolicySHA256 != nil {
				row[3] = fmt.Sprintf("%.12s", *r.PolicySHA256)
			}
			p.Runs.Rows = append(p.Runs.Rows, row)
		}
	}
	return p
}
