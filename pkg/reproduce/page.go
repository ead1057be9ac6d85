package reproduce

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"

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
	Result
	Compared bool // a page of its methods lies in its folder
	Table    webpage.Table
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
	p := experimentOnPage{Result: e, Compared: compared, Table: webpage.Table{Head: []string{"method", "seed", "wall", "policy", "made by"}}}
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
			p.Table.Rows = append(p.Table.Rows, row)
		}
	}
	return p
}
