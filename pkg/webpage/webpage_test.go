package webpage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/figure"
	"github.com/lathe-rl/lathe/pkg/webpage"
	"github.com/lathe-rl/lathe/pkg/webpage/webpagetest"
)

const parts = `{{define "title"}}a page{{end}}{{define "body"}}<h1>{{.Name}}</h1><p>{{.Name}}</p>
{{template "table" .Wide}}{{template "table" .Narrow}}{{template "facing" .Facts}}{{template "figures" .Figures}}{{end}}`

type data struct {
	Name         string
	Wide, Narrow *webpage.Table
	Facts        [][2]string
	Figures      []webpage.Figure
}

// Names, numbers and labels of any length find their place on screens and paper.
func TestExtremesInBrowser(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("abcdefghi/", 20)
	var lines []figure.Line
	for range 7 {
		lines = append(lines, figure.Line{Name: "quickstart (optimizer.learning_rate=0.0003, rollout.group=16) " + long, Points: []figure.Point{{X: 0, Y: 1e-7}, {X: 12345678, Y: 98765}}})
	}
	page, err := webpage.Render(parts, data{
		Name: long,
		Wide: webpage.NewTable([][]string{
			{"", "valid", "above median", "any medal", "rank 1−p/N", "MLE-Dojo's", "quality", "problems"},
			{"oracle: best of 4 samples by test grade", "100.0 ± 43.3 (25.0)", "100.0 ± 43.3 (25.0)", "100.0 ± 43.3 (25.0)", "100.0 ± 43.3 (25.0)", "100.0 ± 43.3 (25.0)", "100.0 ± 43.3 (25.0)", "1 234"},
			{long, "100.0 ± 43.3 (25.0)", "", "", "", "", "-0.4 [-25.1, +15.2]", "1 234"},
		}),
		Narrow: webpage.NewTable([][]string{
			{"kind", "problems", "before", "v000015, so far", "change"},
			{"GorillaFileSystem", "1 234", "+70.8 ± 10.6", "+37.5 ± 12.5", "−33.3"},
			{long, "1", "100.0 ± 43.3 [25.0, 99.5]", "-", "-"},
		}),
		Facts:   [][2]string{{"no task running, per iteration", long}, {long, "1"}},
		Figures: []webpage.Figure{webpage.NewFigure(figure.LineChart{X: "tokens sampled in training (millions)", Y: "max |importance ratio − 1|", Lines: lines}.SVG(), long)},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, page, 0o666); err != nil {
		t.Fatal(err)
	}
	webpagetest.Check(t, file)
}
