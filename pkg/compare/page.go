package compare

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/figure"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/seal"
)

//go:embed page.html
var pageTemplate string

// drawn is a figure of a comparison.
type drawn struct {
	name, caption string
	chart         figure.LineChart
}

// figures draws what there are numbers for.
func (c Comparison) figures() []drawn {
	var all []drawn
	if c.Steps > 0 {
		all = append(all, drawn{"by_step", "Held-out score over self-improvement steps: the last policy of each method, and the policy that it began with. Bars are standard deviations over seeds.", c.byStep()})
	}
	for _, axis := range []struct {
		name, label, caption string
		x                    func(Point) float64
	}{
		{"by_iteration", "iteration", "First answers by iteration.", func(p Point) float64 { return float64(p.Iteration) }},
		{"by_token", "tokens sampled (millions)", "First answers by the tokens that were sampled in training.", func(p Point) float64 { return p.Tokens.Mean / 1e6 }},
		{"by_second", "minutes of the iterations", "First answers by the wall clock of the iterations.", func(p Point) float64 { return p.Seconds.Mean / 60 }},
	} {
		chart := figure.LineChart{X: axis.label, Y: "held-out score (%)"}
		for _, m := range c.Methods {
			line := figure.Line{Name: m.Label}
			for _, p := range m.Curve {
				line.Points = append(line.Points, pointOf(axis.x(p), p.Score))
			}
			chart.Lines = append(chart.Lines, line)
		}
		if chart.WorthDrawing() {
			all = append(all, drawn{axis.name, axis.caption, chart})
		}
	}
	return all
}

// byStep has a line for each method, and one for each policy that they began with.
func (c Comparison) byStep() figure.LineChart {
	chart := figure.LineChart{X: "self-improvement step", Y: "held-out score (%)"}
	var begun [][]float64
	add := func(name string, steps []Spread) {
		line := figure.Line{Name: name}
		for step, s := range steps {
			line.Points = append(line.Points, pointOf(float64(step), s))
		}
		chart.Lines = append(chart.Lines, line)
	}
	for _, m := range c.Methods {
		add(m.Label, m.After)
	}
	for _, m := range c.Methods {
		var means []float64
		for _, s := range m.Before {
			means = append(means, s.Mean)
		}
		if slices.ContainsFunc(begun, func(other []float64) bool { return slices.Equal(other, means) }) {
			continue // the same warm start
		}
		begun = append(begun, means)
		name := "before"
		if len(begun) > 1 {
			name += " " + m.Label
		}
		add(name, m.Before)
	}
	return chart
}

func pointOf(x float64, s Spread) figure.Point {
	p := figure.Point{X: x, Y: 100 * s.Mean}
	if s.Std != nil {
		deviation := 100 * *s.Std
		p.Err = &deviation
	}
	return p
}

// page is what page.html shows.
type page struct {
	Comparison
	Style          template.CSS
	Head           string
	DifferenceHead string
	Rows           [][]string
	Differences    [][]string
	Notes          []string
	Figures        []figureOnPage
}

type figureOnPage struct {
	SVG     template.HTML
	Caption string
}

// Write makes the page of a comparison in a folder, beside its figures and numbers:
//
//	index.html                 everything on one page that needs nothing else
//	figures/*.svg, *.png       each figure by itself
//	compare.json, compare.csv  the numbers
func Write(folder string, c Comparison) error {
	attempt := seal.AttemptFromEnv()
	p := page{Comparison: c, Style: template.CSS(report.PageStyle), Head: c.head(), DifferenceHead: c.differenceHead(), Rows: c.methodRows(), Differences: c.differenceRows(), Notes: c.notes()}
	for _, f := range c.figures() {
		svg := f.chart.SVG()
		p.Figures = append(p.Figures, figureOnPage{template.HTML(figure.Inline(svg)), f.caption})
		for ending, content := range map[string][]byte{".svg": svg, ".png": f.chart.PNG()} {
			if err := seal.Replace(filepath.Join(folder, "figures", f.name+ending), content, attempt); err != nil {
				return err
			}
		}
	}
	var html, table bytes.Buffer
	parsed, err := template.New("compare").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	if err := parsed.Execute(&html, p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	if err := CSV(&table, c); err != nil {
		return err
	}
	numbers, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the comparison: %w", err)
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{"index.html", html.Bytes()}, {"compare.csv", table.Bytes()}, {"compare.json", append(numbers, '\n')}} {
		if err := seal.Replace(filepath.Join(folder, file.name), file.content, attempt); err != nil {
			return err
		}
	}
	return nil
}
