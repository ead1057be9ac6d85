// Package paper makes the tables and figures of the five papers whose methods Lathe has
// from the sealed rows of runs, under the numbers that they have in the papers.
//
// Each measure is computed per run, then averaged over a recipe's seeds. What runs do not
// hold is named with the reason, and never shown as zero. The numbers are those of package
// measure.
package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
)

// Format names the layout of paper.json. Keys are added, never renamed.
const Format = "lathe-paper/1.0"

// Result is the tables and figures of a paper.
type Result struct {
	Format     string   `json:"format"`
	Paper      string   `json:"paper"`
	Title      string   `json:"title"`
	Methods    []Method `json:"methods"`
	Items      []Item   `json:"items"`
	Unfinished []string `json:"unfinished"` // folders of runs that are not done, and were left out
}

// Method is the runs of one recipe.
type Method struct {
	Label string   `json:"label"`
	Seeds []uint64 `json:"seeds"`
	Runs  []string `json:"runs"`
}

// Item is a table or a figure.
type Item struct {
	Name    string   `json:"name"`  // table-1 or figure-3, and what of it where it has several axes
	Title   string   `json:"title"` // as in the paper
	Caption string   `json:"caption"`
	Axis    string   `json:"axis"` // what X of the numbers is; empty for a table
	Numbers []Number `json:"numbers"`
	Missing []string `json:"missing"` // what the runs do not hold of it, and why
	scatter bool
	exact   bool
	errors  bool
	seeds   map[string]int // of each method
}

// Number is one number of an item over the seeds of a method.
type Number struct {
	Method  string   `json:"method"`
	When    string   `json:"when"`  // before training or after, of a figure that draws both policies; else empty
	Group   string   `json:"group"` // set of held-out problems, task, kind …; empty for all
	Measure string   `json:"measure"`
	X       *float64 `json:"x"` // null in a table
	compare.Spread
	// Error is the standard error of the mean over seeds or, of submissions by one seed, over
	// the samples of its evaluation; null of one value.
	Error *float64 `json:"standard_error"`
}

// value is one number of one run.
type value struct {
	group, measure string
	x              *float64
	y              float64
}

// absent is why a run does not hold the numbers of an item.
type absent = measure.Absent

// own is a value and the method that it is of.
type own struct {
	method string
	value
}

// query is an item before it is asked. Either view is a measure as it is, or of asks each run by itself, at asks each
// run of the policy before training and of the last one, or all asks the runs together.
type query struct {
	name, title, caption, axis string
	scatter                    bool // points alone
	exact                      bool // the numbers are settings and counts: their deviation is not shown
	errors                     bool // standard errors are shown, as MLE-bench reports repeats of an agent, not deviations
	of                         func(ctx context.Context, r *source) ([]value, error)
	at                         func(ctx context.Context, r *source, version int) ([]value, error)
	view                       view // in place of of and at: a measure as it is
	all                        func(ctx context.Context, runs []*source) ([]own, error)
	fewest                     string // a measure that is a multiple of the fewest of a method too
	against                    string // a measure of which the difference to the first method's is a number too
	relative                   string // a measure by task of which only the relative gain on the first method's is shown
}

// paper is a paper's queries.
type paper struct {
	name, title string
	covered     []Covered // its tables and figures, all of them
	queries     []query
}

var papers = []paper{exitPaper, fliptsPaper, acePaper, rlmlePaper, mlerlPaper}

// Names lists the papers.
func Names() []string {
	var names []string
	for _, p := range papers {
		names = append(names, p.name)
	}
	return names
}

// Options are those of [Make].
type Options struct {
	Baseline string        // label of the method that differences are to, in place of the first; empty for the first
	Embed    measure.Embed // by which instances are compared; nil for hashed n-grams
}

// Make makes the tables and figures of a paper from the runs that folders are or
// hold. The first method of the list is the one that others are set against where a
// paper has a difference.
func Make(ctx context.Context, name string, folders []string, o Options) (Result, error) {
	at := slices.IndexFunc(papers, func(p paper) bool { return p.name == name })
	if at < 0 {
		return Result{}, exitcode.Usagef("there is no paper %q: there are %s", name, strings.Join(Names(), ", "))
	}
	p := papers[at]
	result := Result{Format: Format, Paper: p.name, Title: p.title}
	opened, unfinished, err := compare.Open(ctx, folders)
	if err != nil {
		return result, err
	}
	result.Unfinished = unfinished
	groups, err := compare.Group(opened)
	if err != nil {
		return result, err
	}
	labels := compare.Labels(groups)
	first := 0
	if o.Baseline != "" {
		if first = slices.Index(labels, o.Baseline); first < 0 {
			return result, exitcode.Usagef("--baseline %q is none of the methods: %s", o.Baseline, strings.Join(labels, ", "))
		}
	}
	for _, q := range p.queries {
		result.Items = append(result.Items, Item{Name: q.name, Title: p.short() + " " + q.title, Caption: q.caption, Axis: q.axis, Numbers: []Number{}, Missing: []string{}, scatter: q.scatter, exact: q.exact, errors: q.errors})
	}
	seeds := map[string]int{}
	tallies := make([]tally, len(p.queries))
	var all []*source
	for i, group := range groups {
		m := Method{Label: labels[i]}
		for _, run := range group {
			m.Seeds, m.Runs = append(m.Seeds, run.Recipe.Seed), append(m.Runs, run.Folder)
			r := &source{Rows: measure.Of(run.Run), label: labels[i]}
			r.Embed = o.Embed
			for j, q := range p.queries {
				if err := tallies[j].ask(ctx, q, r); err != nil {
					return result, fmt.Errorf("%s of run %q: %w", q.title, run.Folder, err)
				}
			}
			r.Forget()
			all = append(all, r)
		}
		result.Methods = append(result.Methods, m)
		seeds[m.Label] = len(m.Seeds)
	}
	for j, q := range p.queries {
		if q.all != nil {
			values, err := q.all(ctx, all)
			if err := tallies[j].lack("", err); err != nil {
				return result, fmt.Errorf("%s: %w", q.title, err)
			}
			for _, v := range values {
				tallies[j].put(v.method, "", v.value)
			}
		}
		item := &result.Items[j]
		item.seeds = seeds
		item.Numbers, item.Missing = tallies[j].numbers(), tallies[j].missing(len(groups))
		if q.fewest != "" {
			item.Numbers = withMultiples(item.Numbers, q.fewest)
		}
		if q.against != "" {
			item.Numbers = withDifferences(item.Numbers, q.against, labels[first])
		}
		if q.relative != "" {
			if item.Numbers = relativeGains(item.Numbers, q.relative, labels[first]); len(item.Numbers) == 0 && len(item.Missing) == 0 {
				item.Missing = append(item.Missing, "there is no task that two methods have a score of")
			}
		}
	}
	return result, nil
}

// short is the paper's name in titles.
func (p paper) short() string {
	short, _, _ := strings.Cut(p.title, ":")
	return short
}

// tally gathers the values of an item over runs, in the order in which they come.
type tally struct {
	keys   []Number
	values [][]float64
	why    map[string][]string // methods by the reason for which they have no value
	order  []string            // of reasons
}

// ask asks a run by itself.
func (t *tally) ask(ctx context.Context, q query, r *source) error {
	if q.view.measure != "" {
		q.of, q.at = q.view.asked()
	}
	switch {
	case q.of != nil:
		values, err := q.of(ctx, r)
		t.take(r.label, "", values)
		return t.lack(r.label, err)
	case q.at != nil:
		moments := r.moments(beforeTraining)
		whys := make([]absent, len(moments)) // empty of a moment that lacks nothing
		for i, when := range moments {
			values, err := q.at(ctx, r, when.version)
			t.take(r.label, when.name, values)
			if err != nil && !errors.As(err, &whys[i]) {
				return err
			}
		}
		if same := slices.Compact(slices.Clone(whys)); len(same) == 1 && same[0] != "" {
			return t.lack(r.label, same[0])
		}
		for i, why := range whys {
			if why != "" {
				_ = t.lack(r.label, absent(moments[i].name+": "+string(why))) // an absence is no error
			}
		}
	}
	return nil
}

// take takes the values of a run.
func (t *tally) take(method, when string, values []value) {
	for _, v := range values {
		t.put(method, when, v)
	}
}

// lack notes why a method has no value. Only what is no absence is an error.
func (t *tally) lack(method string, err error) error {
	var reason absent
	if !errors.As(err, &reason) {
		return err
	}
	if t.why == nil {
		t.why = map[string][]string{}
	}
	if t.why[string(reason)] == nil {
		t.order = append(t.order, string(reason))
	}
	if !slices.Contains(t.why[string(reason)], method) {
		t.why[string(reason)] = append(t.why[string(reason)], method)
	}
	return nil
}

func (t *tally) put(method, when string, v value) {
	key := Number{Method: method, When: when, Group: v.group, Measure: v.measure, X: v.x}
	for i := len(t.keys) - 1; i >= 0; i-- {
		if sameKey(t.keys[i], key) {
			t.values[i] = append(t.values[i], v.y)
			return
		}
	}
	t.keys, t.values = append(t.keys, key), append(t.values, []float64{v.y})
}

func sameKey(a, b Number) bool {
	return a.Method == b.Method && a.When == b.When && a.Group == b.Group && a.Measure == b.Measure && sameX(a.X, b.X)
}

func sameX(a, b *float64) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// numbers are the spreads of all values. A measure that ends with the suffix of a deviation
// or an error over samples gives the number before it that, where it is of one seed, and is
// none itself.
func (t *tally) numbers() []Number {
	numbers := []Number{}
	for i, key := range t.keys {
		deviation, deviates := strings.CutSuffix(key.Measure, measure.SampleDeviation)
		of, errs := strings.CutSuffix(deviation, measure.SampleError)
		if deviates || errs {
			last := &numbers[len(numbers)-1]
			key.Measure = of
			switch {
			case last.Seeds > 1 || !sameKey(*last, key):
			case deviates:
				last.Std = &t.values[i][0]
			default:
				last.Error = &t.values[i][0]
			}
			continue
		}
		key.Spread = compare.SpreadOf(t.values[i])
		if key.Std != nil {
			e := *key.Std / math.Sqrt(float64(key.Seeds))
			key.Error = &e
		}
		numbers = append(numbers, key)
	}
	return numbers
}

// missing words the reasons.
func (t *tally) missing(methods int) []string {
	words := []string{}
	for _, reason := range t.order {
		who := t.why[reason]
		if len(who) == 1 && who[0] == "" || len(who) == methods {
			words = append(words, reason)
			continue
		}
		words = append(words, strings.Join(who, ", ")+": "+reason)
	}
	return words
}

// withDifferences adds, to each number of a measure, its mean less that of the same
// number of a method.
func withDifferences(numbers []Number, measure, method string) []Number {
	var all []Number
	for _, n := range numbers {
		all = append(all, n)
		if n.Measure != measure || n.Method == method {
			continue
		}
		i := slices.IndexFunc(numbers, func(o Number) bool {
			return o.Method == method && o.Measure == measure && o.Group == n.Group && sameX(o.X, n.X)
		})
		if i >= 0 {
			d := n
			d.Measure = "Δ to " + method + " of " + measure
			d.Error = nil
			d.Spread = compare.Spread{Seeds: min(n.Seeds, numbers[i].Seeds), Mean: n.Mean - numbers[i].Mean}
			all = append(all, d)
		}
	}
	return all
}

// withMultiples adds, to each number of a measure, its mean as a multiple of the least.
func withMultiples(numbers []Number, measure string) []Number {
	least := math.Inf(1)
	for _, n := range numbers {
		if n.Measure == measure && n.Mean > 0 {
			least = math.Min(least, n.Mean)
		}
	}
	var all []Number
	for _, n := range numbers {
		all = append(all, n)
		if n.Measure == measure && !math.IsInf(least, 1) {
			n.Error = nil
			n.Measure, n.Spread = measure+", × the fewest", compare.Spread{Seeds: n.Seeds, Mean: n.Mean / least}
			all = append(all, n)
		}
	}
	return all
}

// lowerIsBetter is the measure that is 1 of a task whose scores are better the lower they are.
const lowerIsBetter = "lower is better"

// relativeGains are, of each method but one, its mean of a measure less that one's over the
// absolute value of that one's, more is better, in percent: by task, and the mean over tasks
// (reading rlmle-relative).
func relativeGains(numbers []Number, measure, method string) (all []Number) {
	find := func(method, group, measure string) (Number, bool) {
		i := slices.IndexFunc(numbers, func(n Number) bool { return n.Method == method && n.Group == group && n.Measure == measure })
		if i < 0 {
			return Number{}, false
		}
		return numbers[i], true
	}
	const label = "relative gain (%)"
	gains := map[string][]float64{}
	var order []string
	for _, n := range numbers {
		base, there := find(method, n.Group, measure)
		if n.Measure != measure || n.Method == method || !there || base.Mean == 0 {
			continue
		}
		gain := 100 * (n.Mean - base.Mean) / math.Abs(base.Mean)
		if lower, _ := find(n.Method, n.Group, lowerIsBetter); lower.Mean > 0 {
			gain = -gain
		}
		if gains[n.Method] == nil {
			order = append(order, n.Method)
		}
		gains[n.Method] = append(gains[n.Method], gain)
		n.Error = nil
		n.Measure, n.Spread = label, compare.Spread{Seeds: min(n.Seeds, base.Seeds), Mean: gain}
		all = append(all, n)
	}
	for _, method := range order {
		all = append(all, Number{Method: method, Group: "mean over tasks", Measure: label, Spread: compare.Spread{Seeds: 1, Mean: stat.Mean(gains[method], nil)}})
	}
	return all
}

// sortedBy sorts values by group, then measure, then X, each in its natural order.
func sortedBy(values []value) []value {
	slices.SortStableFunc(values, func(a, b value) int {
		order := cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.measure, b.measure))
		if order == 0 && a.x != nil && b.x != nil {
			order = cmp.Compare(*a.x, *b.x)
		}
		return order
	})
	return values
}
