package paper

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/figure"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

//go:embed page.html
var pageTemplate string

// panels draws an item: of a figure with an axis a panel for each group and measure,
// with a line for each method, and for its policy before training where the figure draws
// that too; of one without a panel of bars for each measure. A table has none.
func (i Item) panels() []compare.Drawing {
	if !strings.HasPrefix(i.Name, "figure") {
		return nil
	}
	type panel struct{ group, measure string }
	var order []panel
	numbers := map[panel][]Number{}
	for _, n := range i.Numbers {
		key := panel{n.Group, n.Measure}
		if i.Axis == "" {
			key.group = ""
		}
		if numbers[key] == nil {
			order = append(order, key)
		}
		numbers[key] = append(numbers[key], n)
	}
	var all []compare.Drawing
	for _, key := range order {
		d := compare.Drawing{Name: i.Name, Caption: i.Title}
		if len(order) > 1 {
			for _, word := range []string{key.group, key.measure} {
				if word != "" {
					d.Name += "-" + fileName(word)
					d.Caption += ", " + word
				}
			}
		}
		if i.Axis == "" {
			if slices.ContainsFunc(numbers[key], func(n Number) bool { return n.Mean != 0 }) {
				d.Chart = i.bars(key.measure, numbers[key])
				all = append(all, d)
			}
			continue
		}
		c := lines(numbers[key])
		c.X, c.Y, c.Scatter = i.Axis, key.measure, i.scatter
		if i.scatter || slices.ContainsFunc(c.Lines, func(l figure.Line) bool { return len(l.Points) > 1 }) {
			d.Chart = c
			all = append(all, d)
		}
	}
	return all
}

// lines has a line for each method, and behind these one for each method's policy before
// training: one alone where that is the same of all, as of methods that begin with it.
func lines(numbers []Number) figure.LineChart {
	var trained, initial []figure.Line
	for _, n := range numbers {
		all, name := &trained, n.Method
		if n.When == beforeTraining {
			all, name = &initial, n.Method+", "+beforeTraining
		}
		at := slices.IndexFunc(*all, func(l figure.Line) bool { return l.Name == name })
		if at < 0 {
			at = len(*all)
			*all = append(*all, figure.Line{Name: name})
		}
		(*all)[at].Points = append((*all)[at].Points, figure.Point{X: *n.X, Y: n.Mean, Err: n.Std})
	}
	if same := slices.CompactFunc(slices.Clone(initial), sameLine); len(same) == 1 && len(trained) > 0 {
		initial = []figure.Line{{Name: beforeTraining, Points: same[0].Points}}
	}
	c := figure.LineChart{Lines: append(trained, initial...)}
	const mostBars = 20 // error bars of a line
	for _, l := range c.Lines {
		slices.SortFunc(l.Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
		every := (len(l.Points) + mostBars - 1) / mostBars
		for j := range l.Points {
			if j%every != 0 {
				l.Points[j].Err = nil
			}
		}
	}
	return c
}

func sameLine(a, b figure.Line) bool {
	return slices.EqualFunc(a.Points, b.Points, func(p, q figure.Point) bool { return p.X == q.X && p.Y == q.Y && sameX(p.Err, q.Err) })
}

func (i Item) bars(measure string, numbers []Number) figure.BarChart {
	c := figure.BarChart{X: measure}
	for _, n := range numbers {
		name := n.Method
		if n.Group != "" {
			name += ", " + n.Group
		}
		c.Names, c.Values, c.Labels = append(c.Names, inTwoLines(name)), append(c.Values, n.Mean), append(c.Labels, i.text(n))
	}
	return c
}

// inTwoLines breaks a long name of a bar after the blank or hyphen that is nearest to its
// middle, and leaves out the inside of a line that would still take the bars' place. The
// table has the name as it is.
func inTwoLines(name string) string {
	const long, most = 28, 40 // characters of a line
	text := []rune(name)
	if len(text) <= long {
		return name
	}
	middle, at := len(text)/2, len(text)
	for i, r := range text {
		if (r == ' ' || r == '-') && max(i-middle, middle-i) < max(at-middle, middle-at) {
			at = i
		}
	}
	var lines []string
	for _, line := range [][]rune{text[:min(at+1, len(text))], text[min(at+1, len(text)):]} {
		if len(line) > most {
			line = slices.Concat(line[:most/2], []rune("…"), line[len(line)-most/2+1:])
		}
		lines = append(lines, strings.TrimSpace(string(line)))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

var unfit = lazyregexp.New(`[^A-Za-z0-9]+`)

// fileName is what a file is called for a word.
func fileName(word string) string { return strings.Trim(unfit().ReplaceAllString(word, "-"), "-") }

// page is what page.html shows.
type page struct {
	Result
	Shown  []shownItem
	RunsOf [][2]string // method and folder
}

type shownItem struct {
	Item
	Table   *webpage.Table // nil for none
	Words   int            // how many of its columns say what numbers are of
	Figures []webpage.Figure
}

// Write puts the tables and figures of a paper into a folder:
//
//	index.html             everything on one page that needs nothing else
//	tables.txt             everything as text
//	paper.json             the numbers
//	tables/NAME.csv        those of a table or figure
//	figures/*.svg, *.png   each panel by itself
func Write(folder string, r Result) error {
	attempt := seal.AttemptFromEnv()
	put := func(content []byte, path ...string) error {
		return seal.Replace(filepath.Join(append([]string{folder}, path...)...), content, attempt)
	}
	p := page{Result: r}
	for _, item := range r.Items {
		shown := shownItem{Item: item}
		if len(item.Numbers) > 0 && !item.scatter {
			rows, words := item.rows()
			shown.Table, shown.Words = webpage.NewTable(rows), words
		}
		if len(item.Numbers) > 0 {
			var table bytes.Buffer
			if err := item.CSV(&table); err != nil {
				return err
			}
			if err := put(table.Bytes(), "tables", item.Name+".csv"); err != nil {
				return err
			}
		}
		for _, d := range item.panels() {
			figure, err := d.Write(folder, attempt)
			if err != nil {
				return err
			}
			shown.Figures = append(shown.Figures, figure)
		}
		p.Shown = append(p.Shown, shown)
	}
	for _, m := range r.Methods {
		for _, run := range m.Runs {
			p.RunsOf = append(p.RunsOf, [2]string{m.Label, run})
		}
	}
	html, err := webpage.Render(pageTemplate, p)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := Text(&text, r); err != nil {
		return err
	}
	numbers, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the numbers of a paper: %w", err)
	}
	if err := put(html, "index.html"); err != nil {
		return err
	}
	if err := put(text.Bytes(), "tables.txt"); err != nil {
		return err
	}
	return put(append(numbers, '\n'), "paper.json")
}
