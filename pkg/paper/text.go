package paper

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

// Text prints the tables and figures for a terminal or a log.
func Text(w io.Writer, r Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nMean ± sample standard deviation over seeds (standard error where a caption says so); of submissions by one seed, over the samples of its evaluation.\n", r.Title)
	rows := [][]string{{""}}
	for _, m := range r.Methods {
		rows = append(rows, []string{m.Label, m.seeds()})
	}
	webpage.Columns(&b, "", 3, rows)
	for _, item := range r.Items {
		fmt.Fprintf(&b, "\n%s. %s\n", item.Title, item.Caption)
		switch {
		case item.scatter && len(item.Numbers) > 0:
			fmt.Fprintf(&b, "\n%s, in its figure and its file of numbers.\n", plural.Count(len(item.Numbers), "point"))
		case len(item.Numbers) > 0:
			fmt.Fprintln(&b)
			rows, _ := item.rows()
			webpage.Columns(&b, "", 3, rows)
		}
		for _, why := range item.Missing {
			fmt.Fprintf(&b, "Not in the runs: %s.\n", why)
		}
	}
	for _, run := range r.Unfinished {
		fmt.Fprintf(&b, "\nLeft out, not done: %s\n", run)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m Method) seeds() string {
	if len(m.Seeds) == 1 {
		return "seed " + compare.SeedsText(m.Seeds)
	}
	return "seeds " + compare.SeedsText(m.Seeds)
}

// rows is an item as a table with its head: of a table a row for each method and
// group and a column for each measure, of a figure a row for each of its lines and a
// column for a few values of its axis. The first columns say in words what numbers are of.
func (i Item) rows() (rows [][]string, words int) {
	columns, cells := []string{}, map[string]map[string]string{}
	var lines []string
	heads := map[string][]string{}
	grouped := slices.ContainsFunc(i.Numbers, func(n Number) bool { return n.Group != "" })
	timed := slices.ContainsFunc(i.Numbers, func(n Number) bool { return n.When != "" })
	shown := i.shown()
	for _, n := range i.Numbers {
		head, column := []string{n.Method}, n.Measure
		if timed {
			head = append(head, n.When)
		}
		if grouped {
			head = append(head, n.Group)
		}
		if i.Axis != "" {
			if !slices.Contains(shown, *n.X) {
				continue
			}
			head, column = append(head, n.Measure), i.Axis+" "+short(*n.X)
		}
		line := strings.Join(head, "\x00")
		if cells[line] == nil {
			cells[line] = map[string]string{}
			heads[line] = head
			lines = append(lines, line)
		}
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
		cells[line][column] = i.text(n)
	}
	first := []string{"method"}
	if timed {
		first = append(first, "when")
	}
	if grouped {
		first = append(first, "of")
	}
	if i.Axis != "" {
		first = append(first, "measure")
		columns = columns[:0]
		for _, x := range shown {
			columns = append(columns, i.Axis+" "+short(x))
		}
	}
	rows = [][]string{append(slices.Clone(first), columns...)}
	for _, line := range lines {
		row := heads[line]
		for _, column := range columns {
			text, there := cells[line][column]
			if !there {
				text = "–"
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return rows, len(first)
}

// mostColumns is how many values of an axis a text shows.
const mostColumns = 6

// shown are a few values of the axis, the first and the last among them.
func (i Item) shown() []float64 {
	var xs []float64
	for _, n := range i.Numbers {
		if n.X != nil {
			xs = append(xs, *n.X)
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	if len(xs) <= mostColumns {
		return xs
	}
	few := make([]float64, mostColumns)
	for j := range few {
		few[j] = xs[j*(len(xs)-1)/(mostColumns-1)]
	}
	return few
}

// text is a number over its seeds; those that have none are told.
func (i Item) text(n Number) string {
	text := short(n.Mean)
	switch {
	case i.exact:
		text = strconv.FormatFloat(n.Mean, 'g', -1, 64)
	case i.errors && n.Error != nil:
		text += " ± " + short(*n.Error)
	case !i.errors && n.Std != nil:
		text += " ± " + short(*n.Std)
	}
	if of := i.seeds[n.Method]; n.Seeds < of {
		text += " (" + plural.Of(n.Seeds, of, "seed") + ")"
	}
	return text
}

// short prints a number with three digits or so.
func short(x float64) string {
	switch a := math.Abs(x); {
	case x == math.Trunc(x) && a < 1e15:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

// CSV writes a row for each number of an item.
func (i Item) CSV(w io.Writer) error {
	table := csv.NewWriter(w)
	_ = table.Write([]string{"method", "when", "of", "measure", "x", "seeds", "mean", "std", "low", "high", "standard_error"}) // the first error stays, and is asked for below
	number := compare.Exact
	for _, n := range i.Numbers {
		_ = table.Write([]string{n.Method, n.When, n.Group, n.Measure, number(n.X), strconv.Itoa(n.Seeds), number(&n.Mean), number(n.Std), number(n.Low), number(n.High), number(n.Error)})
	}
	table.Flush()
	return table.Error()
}
