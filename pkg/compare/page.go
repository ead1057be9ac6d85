package compare

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/figure"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

//go:embed page.html
var pageTemplate string

// Drawing is a figure of a page, which lies beside it too.
type Drawing struct {
	Name, Caption string
	Chart         interface {
		SVG() []byte
		PNG() []byte
	}
}

// Write puts the drawing into the folder figures of a page, and returns it for the page.
func (d Drawing) Write(folder string, attempt seal.Attempt) (webpage.Figure, error) {
	svg := d.Chart.SVG()
	err := seal.Replace(filepath.Join(folder, "figures", d.Name+".svg"), svg, attempt)
	if err == nil {
		err = seal.Replace(filepath.Join(folder, "figures", d.Name+".png"), d.Chart.PNG(), attempt)
	}
	return webpage.NewFigure(svg, d.Caption), err
}

// figures draws what there are numbers for.
func (c Comparison) figures() []Drawing {
	var all []Drawing
	if c.Steps > 0 {
		all = append(all, Drawing{"by_step", "Held-out score over revisions: the last policy of each method, and the policy that it began with. Bars are standard deviations over seeds.", c.byStep()})
	}
	for _, axis := range []struct {
		name, of, caption string
		x                 func(Point) *Spread // nil where it is not known
		units             []unit
	}{
		{"by_iteration", "iteration", "First answers by iteration.", func(p Point) *Spread { return &Spread{Mean: float64(p.Iteration)} }, []unit{{"", 1}}},
		{"by_token", "tokens sampled in training", "First answers by the tokens that were sampled in training.", func(p Point) *Spread { return p.Tokens }, []unit{{" (thousands)", 1e3}, {" (millions)", 1e6}, {" (billions)", 1e9}}},
		{"by_second", "training time", "First answers by the time in which tasks of the iterations ran: no warm start, evaluation, pause or wait in a queue.", func(p Point) *Spread { return p.Seconds }, []unit{{" (seconds)", 1}, {" (minutes)", 60}, {" (hours)", 3600}}},
		{"by_joule", "energy of the GPUs", "First answers by what the GPUs took in training, as their monitors saw it.", func(p Point) *Spread { return p.Joules }, []unit{{" (joules)", 1}, {" (kilojoules)", 1e3}, {" (kilowatt hours)", 3.6e6}}},
	} {
		most := 0.
		for _, m := range c.Methods {
			for _, p := range m.Curve {
				if x := axis.x(p); x != nil {
					most = max(most, x.Mean)
				}
			}
		}
		in := unitFor(most, axis.units)
		chart := figure.LineChart{X: axis.of + in.name, Y: "first-answer score (%)"}
		for _, m := range c.Methods {
			line := figure.Line{Name: m.Label}
			for _, p := range m.Curve {
				if x := axis.x(p); x != nil {
					line.Points = append(line.Points, pointOf(x.Mean/in.size, p.Score))
				}
			}
			chart.Lines = append(chart.Lines, line)
		}
		if chart.IsCurve() {
			all = append(all, Drawing{axis.name, axis.caption, chart})
		}
	}
	return all
}

// unit is what an axis counts in.
type unit struct {
	name string
	size float64
}

// unitFor is the largest unit of which there are two, or the first.
func unitFor(most float64, units []unit) unit {
	best := units[0]
	for _, u := range units {
		if most >= 2*u.size {
			best = u
		}
	}
	return best
}

// byStep has a line for each method, and one for each policy that they began with.
func (c Comparison) byStep() figure.LineChart {
	chart := figure.LineChart{X: "revision", Y: "held-out score (%)"}
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
	Head           string
	DifferenceHead string
	Rows           *webpage.Table
	Differences    *webpage.Table
	Seeds          *webpage.Table
	Costs          *webpage.Table
	Measured       *webpage.Table // nil without
	Composition    *webpage.Table
	Differing      *webpage.Table
	RunsOf         [][2]string // method and folder
	Notes          []string
	Figures        []webpage.Figure
}

// Write makes the page of a comparison in a folder, beside its figures and numbers:
//
//	index.html                 everything on one page that needs nothing else
//	figures/*.svg, *.png       each figure by itself
//	compare.json, compare.csv  the numbers
func Write(folder string, c Comparison) error {
	attempt := seal.AttemptFromEnv()
	p := page{
		Comparison: c, Head: c.head(), DifferenceHead: c.differenceHead(), Notes: c.notes(),
		Rows: webpage.NewTable(c.methodRows()), Differences: webpage.NewTable(c.differenceRows()), Seeds: webpage.NewTable(c.seedRows()), Costs: webpage.NewTable(c.costRows()),
		Composition: webpage.NewTable(c.compositionRows()), Differing: webpage.NewTable(c.settingRows(config.Shorten)),
	}
	if rows := c.measureRows(); len(rows) > 1 {
		p.Measured = webpage.NewTable(rows)
	}
	for _, m := range c.Methods {
		for _, run := range m.Runs {
			p.RunsOf = append(p.RunsOf, [2]string{m.Label, run})
		}
	}
	for _, d := range c.figures() {
		figure, err := d.Write(folder, attempt)
		if err != nil {
			return err
		}
		p.Figures = append(p.Figures, figure)
	}
	html, err := webpage.Render(pageTemplate, p)
	if err != nil {
		return err
	}
	var table bytes.Buffer
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
	}{{"index.html", html}, {"compare.csv", table.Bytes()}, {"compare.json", append(numbers, '\n')}} {
		if err := seal.Replace(filepath.Join(folder, file.name), file.content, attempt); err != nil {
			return err
		}
	}
	return nil
}
