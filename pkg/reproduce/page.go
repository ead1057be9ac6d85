package reproduce

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/seal"
)

//go:embed page.html
var pageTemplate string

// page is what page.html shows.
type page struct {
	Reproduction
	Style       template.CSS
	Experiments []experimentOnPage
	Notes       []string
}

type experimentOnPage struct {
	Title, Progress string
	Compared        bool // a page of its methods lies in its folder
	Name            string
	Claims          []claimOnPage
	Runs            [][]string
}

type claimOnPage struct {
	Verdict, Says, Source, Numbers, Seeds string
	Right, Wrong                          bool
}

// Write makes the page of a reproduction in its folder, index.html, which needs
// nothing else, and reproduction.json, its numbers.
func Write(folder string, r Reproduction, compared map[string]bool, notes []string) error {
	p := page{Reproduction: r, Style: template.CSS(report.PageStyle), Notes: notes}
	for _, e := range r.Results {
		p.Experiments = append(p.Experiments, e.onPage(compared[e.Name]))
	}
	parsed, err := template.New("reproduction").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	var html bytes.Buffer
	if err := parsed.Execute(&html, p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	numbers, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding what came out: %w", err)
	}
	attempt := seal.AttemptFromEnv()
	if err := seal.Replace(filepath.Join(folder, "index.html"), html.Bytes(), attempt); err != nil {
		return err
	}
	return seal.Replace(filepath.Join(folder, "reproduction.json"), append(numbers, '\n'), attempt)
}

func (e Result) onPage(compared bool) experimentOnPage {
	p := experimentOnPage{Title: e.Title, Progress: e.progress(), Name: e.Name, Compared: compared}
	for _, o := range e.Claims {
		p.Claims = append(p.Claims, claimOnPage{
			Verdict: o.Verdict, Says: o.Says, Source: o.Source, Numbers: o.comparison(), Seeds: fmt.Sprint(o.Seeds),
			Right: o.Verdict == CameOut, Wrong: o.Verdict == DidNot,
		})
	}
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
				row[3] = (*r.PolicySHA256)[:12]
			}
			p.Runs = append(p.Runs, row)
		}
	}
	return p
}
