package compare

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

// Text prints a comparison for a terminal or a log.
func Text(w io.Writer, c Comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", c.head())
	webpage.Columns(&b, "", 3, c.methodRows())
	if rows := c.differenceRows(); len(rows) > 1 {
		fmt.Fprintf(&b, "\n%s\n\n", c.differenceHead())
		webpage.Columns(&b, "", 3, rows)
	}
	if rows := c.settingRows(config.Shorten); len(rows) > 1 {
		fmt.Fprintf(&b, "\nSettings in which the recipes differ\n\n")
		webpage.Columns(&b, "", 3, rows)
	}
	if rows := c.measureRows(); len(rows) > 1 {
		fmt.Fprintf(&b, "\nMeasures: mean over seeds ± sample standard deviation [95 %% interval], and their difference to %s on the same seeds\n\n", c.Baseline)
		webpage.Columns(&b, "", 3, rows)
	}
	fmt.Fprintln(&b)
	webpage.Columns(&b, "", 3, c.costRows())
	for _, note := range c.notes() {
		fmt.Fprintf(&b, "%s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// head says what was measured.
func (c Comparison) head() string {
	what := "first answers"
	if c.Steps > 0 {
		what = fmt.Sprintf("K = %d: of first answers and of those after K revisions, and their difference Δ", c.Steps)
	}
	return fmt.Sprintf("Held-out score in %%, %s of %s, avg@%d at temperature %g, %s, before and after training: mean over seeds ± sample standard deviation [95 %% interval by Student's t]",
		plural.Count(c.Problems, "problem"), c.Environment, c.Samples, c.Temperature, what)
}

// differenceHead says how methods were compared.
func (c Comparison) differenceHead() string {
	return fmt.Sprintf("Less %s, in points, on the same problems with the same seeds: mean, 95 %% interval and p over seeds by Student's t; then over seeds and problems by %d resamples (bootstrap seed %d), whose intervals are too narrow for few seeds; and effect sizes",
		c.Baseline, c.Resamples, c.Seed)
}

// methodRows is the table of methods, with its head.
func (c Comparison) methodRows() [][]string {
	rows := [][]string{{"method", "of", "before", "after"}}
	for _, m := range c.Methods {
		rows = append(rows, []string{m.Label, "first", percent(&m.Before[0]), percent(&m.After[0])})
		if c.Steps > 0 {
			rows = append(rows,
				[]string{m.Label, fmt.Sprintf("revision %d", c.Steps), percent(at(m.Before, c.Steps)), percent(at(m.After, c.Steps))},
				[]string{m.Label, "Δ", percent(m.DeltaBefore), percent(m.Delta)})
		}
	}
	return rows
}

// compositionRows is the table of what each method chooses on every axis, with its head.
func (c Comparison) compositionRows() [][]string {
	rows := [][]string{append([]string{"axis"}, c.labels()...)}
	for i, choice := range c.Methods[0].Composition {
		row := []string{choice.Axis}
		for _, m := range c.Methods {
			row = append(row, m.Composition[i].Text)
		}
		rows = append(rows, row)
	}
	return rows
}

// measureRows is the table of the measures that were asked for, with its head.
func (c Comparison) measureRows() [][]string {
	rows := [][]string{{"method", "measure", "value", "difference"}}
	number := func(s *Spread, sign string) string {
		if s == nil {
			return unknown
		}
		text := fmt.Sprintf("%"+sign+".4g", s.Mean)
		if s.Std != nil {
			text += fmt.Sprintf(" ± %.3g [%.4g, %.4g]", *s.Std, *s.Low, *s.High)
		}
		return text
	}
	for _, m := range c.Methods {
		for _, of := range m.Measures {
			difference := "–"
			if of.Difference != nil {
				difference = number(of.Difference, "+")
			}
			rows = append(rows, []string{m.Label, of.Name, number(of.Spread, ""), difference})
		}
	}
	return rows
}

// settingRows is the table of the settings in which methods differ, with its head.
func (c Comparison) settingRows(shown func(string) string) [][]string {
	rows := [][]string{append([]string{"setting"}, c.labels()...)}
	for _, s := range c.Settings {
		row := []string{s.Path}
		for _, value := range s.Values {
			row = append(row, cmp.Or(shown(value), "–"))
		}
		rows = append(rows, row)
	}
	return rows
}

func (c Comparison) labels() []string {
	var labels []string
	for _, m := range c.Methods {
		labels = append(labels, m.Label)
	}
	return labels
}

// seedRows is the table of single runs, with its head.
func (c Comparison) seedRows() [][]string {
	head := []string{"method", "seed", "first, before", "first, after"}
	if c.Steps > 0 {
		head = append(head, fmt.Sprintf("revision %d, after", c.Steps), "Δ, after")
	}
	rows := [][]string{head}
	for _, m := range c.Methods {
		for _, s := range m.BySeed {
			row := []string{m.Label, strconv.FormatUint(s.Seed, 10), share(s.Before[0]), share(s.After[0])}
			if c.Steps > 0 {
				last := unknown
				if score := at(s.After, c.Steps); score != nil {
					last = share(*score)
				}
				row = append(row, last, s.delta())
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// unknown stands for a number that is not known.
const unknown = "not known"

// undefined is a number that too few seeds, or equal ones, do not define.
const undefined = "not defined"

// at is the number of a step; nil where it is not known.
func at[T any](steps []T, step int) *T {
	if step >= len(steps) {
		return nil
	}
	return &steps[step]
}

// delta prints Δ with its standard error.
func (s SeedScores) delta() string {
	if s.DeltaK == nil {
		return unknown
	}
	if s.DeltaKStandardError == nil {
		return share(*s.DeltaK)
	}
	return share(*s.DeltaK) + " ± " + share(*s.DeltaKStandardError)
}

// share prints a score in percent.
func share(x float64) string { return fmt.Sprintf("%.1f", 100*x) }

// costRows is the table of what methods took, with its head: the energy where it is
// known of any.
func (c Comparison) costRows() [][]string {
	energy := slices.ContainsFunc(c.Methods, func(m Method) bool { return m.trained().Joules != nil })
	rows := [][]string{{"method", "seeds", "sampled in training", "time of tasks"}}
	if energy {
		rows[0] = append(rows[0], "energy of GPUs")
	}
	number := func(format string, s *Spread, unit float64) string {
		if s == nil {
			return unknown
		}
		return fmt.Sprintf(format, s.Mean/unit)
	}
	for _, m := range c.Methods {
		row := []string{m.Label, SeedsText(m.Seeds), number("%.4g thousand tokens", m.trained().Tokens, 1e3), number("%.1f min", m.Seconds, 60)}
		if energy {
			row = append(row, number("%.4g kJ", m.trained().Joules, 1e3))
		}
		rows = append(rows, row)
	}
	return rows
}

// trained is the last point of a method's curve.
func (m Method) trained() Point { return m.Curve[len(m.Curve)-1] }

// SeedsText lists seeds.
func SeedsText(seeds []uint64) string {
	var words []string
	for _, s := range seeds {
		words = append(words, strconv.FormatUint(s, 10))
	}
	return strings.Join(words, " ")
}

// percent prints a spread in percent.
func percent(s *Spread) string {
	if s == nil {
		return unknown
	}
	text := share(s.Mean)
	if s.Std != nil {
		text += fmt.Sprintf(" ± %.1f [%.1f, %.1f]", 100**s.Std, 100**s.Low, 100**s.High)
	}
	return text
}

// differenceRows is the table of differences, with its head.
func (c Comparison) differenceRows() [][]string {
	rows := [][]string{{"method", "of", "difference", "over seeds", "p", "over seeds and problems", "p", "d", "Cliff's delta", "seeds", "problems"}}
	for _, m := range c.Methods {
		for _, metric := range m.differences(c.Steps) {
			d := metric.difference
			size := undefined
			if d.EffectSize != nil {
				size = fmt.Sprintf("%.2f", *d.EffectSize)
			}
			rows = append(rows, []string{
				m.Label, metric.name, fmt.Sprintf("%+.1f", 100*d.Mean), points(d.OverSeeds), probability(d.POverSeeds), points(&Spread{Low: &d.Low, High: &d.High}), probability(&d.P), size,
				fmt.Sprintf("%+.2f", d.Dominance), strconv.Itoa(d.Seeds), strconv.Itoa(d.Problems),
			})
		}
	}
	return rows
}

// points prints the interval of a difference.
func points(s *Spread) string {
	if s == nil || s.Low == nil {
		return undefined
	}
	return fmt.Sprintf("[%+.1f, %+.1f]", 100**s.Low, 100**s.High)
}

func probability(p *float64) string {
	if p == nil {
		return undefined
	}
	return fmt.Sprintf("%.4f", *p)
}

type named struct {
	name       string
	difference *Difference
}

// differences are those of a method that there are.
func (m Method) differences(steps int) []named {
	all := []named{{"first", m.FirstAnswers}}
	if steps > 0 {
		all = append(all, named{fmt.Sprintf("revision %d", steps), m.LastAnswers}, named{"Δ", m.DeltaK})
	}
	var known []named
	for _, n := range all {
		if n.difference != nil {
			known = append(known, n)
		}
	}
	return known
}

// notes are what is missing, and why.
func (c Comparison) notes() []string {
	var notes []string
	for _, m := range c.Methods {
		if m.Label != c.Baseline && m.FirstAnswers == nil {
			notes = append(notes, fmt.Sprintf("%s has no seed in common with %s: no paired differences.", m.Label, c.Baseline))
		}
		if c.Steps > 0 && (m.Delta == nil || m.DeltaBefore == nil) {
			notes = append(notes, fmt.Sprintf("%s has a run without an answer after revision %d (no prompt left room in the policy's context): later scores are not known.", m.Label, c.Steps))
		}
	}
	for _, m := range c.Methods {
		for _, of := range m.Measures {
			if of.Missing != "" {
				notes = append(notes, fmt.Sprintf("%s has a run without %s: %s.", m.Label, of.Name, of.Missing))
			}
		}
	}
	for _, run := range c.Unfinished {
		notes = append(notes, fmt.Sprintf("Left out, not done: %s", run))
	}
	return notes
}

// Exact is a number in machine-readable files, with all digits; empty for none.
func Exact(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

// CSV writes a row for each method, metric and step.
func CSV(w io.Writer, c Comparison) error {
	table := csv.NewWriter(w)
	_ = table.Write([]string{
		"method", "metric", "step", "seeds", "mean", "std", "low", "high",
		"difference", "difference_low", "difference_high", "p", "effect_size", "dominance",
		"over_seeds_low", "over_seeds_high", "p_over_seeds",
	})
	number := Exact
	write := func(m Method, metric, step string, s *Spread, d *Difference) {
		if s == nil {
			return
		}
		row := []string{m.Label, metric, step, strconv.Itoa(s.Seeds), number(&s.Mean), number(s.Std), number(s.Low), number(s.High), "", "", "", "", "", "", "", "", ""}
		if d != nil {
			over := cmp.Or(d.OverSeeds, &Spread{})
			copy(row[8:], []string{number(&d.Mean), number(&d.Low), number(&d.High), number(&d.P), number(d.EffectSize), number(&d.Dominance), number(over.Low), number(over.High), number(d.POverSeeds)})
		}
		_ = table.Write(row) // the first error stays, and is asked for below
	}
	for _, m := range c.Methods {
		for step := range m.Before {
			write(m, "before", strconv.Itoa(step), &m.Before[step], nil)
		}
		for step := range m.After {
			var d *Difference
			switch step {
			case 0:
				d = m.FirstAnswers
			case c.Steps:
				d = m.LastAnswers
			}
			write(m, "after", strconv.Itoa(step), &m.After[step], d)
		}
		write(m, "gain", "", &m.Gain, nil)
		write(m, "delta_k_before", "", m.DeltaBefore, nil)
		write(m, "delta_k", "", m.Delta, m.DeltaK)
		write(m, "wall_seconds", "", m.Seconds, nil)
		for _, of := range m.Measures {
			write(m, of.Name, "", of.Spread, nil)
		}
	}
	table.Flush()
	return table.Error()
}
