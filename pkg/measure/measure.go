package measure

import (
	"context"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// Value is one number of a run.
type Value struct {
	By     string   // what its group is: set, task, kind …; empty for all
	Group  string   // empty for all
	Column string   // which number, as the file of analysis/ calls it
	X      *float64 // of a measure over iterations, steps, attempts …
	Y      float64
}

// Absent is why a run does not hold the numbers of a measure.
type Absent string

func (a Absent) Error() string { return string(a) }

// Measure is a named family of numbers of a run.
type Measure struct {
	Name   string // that of its file in analysis/, where there is one, and of the key of summary.json
	Unit   string
	Source string // the papers' tables and figures that have it; empty for none
	Reads  string // files of the run
	SQL    bool   // whether analysis/NAME.sql asks the same
	// GroupColumns and XColumn are what the SQL file calls the group of a value, by what it
	// is a group of, and its X.
	GroupColumns map[string]string
	XColumn      string

	training func(ctx context.Context, r *Rows) ([]Value, error)
	heldOut  func(ctx context.Context, r *Rows, version int) ([]Value, error)
}

// HeldOut reports whether a measure is one of a policy version's answers to held-out
// problems.
func (m Measure) HeldOut() bool { return m.heldOut != nil }

// Of takes a measure: of a policy version, or of training, whatever the version. What a run
// does not hold is an [Absent]; values may come with one, of what is there.
func (m Measure) Of(ctx context.Context, r *Rows, version int) ([]Value, error) {
	if m.HeldOut() {
		return m.heldOut(ctx, r, version)
	}
	return m.training(ctx, r)
}

// Named is the measure of a name, or of a path that begins with one.
func Named(path string) (Measure, bool) {
	name, _, _ := strings.Cut(path, ".")
	i := slices.IndexFunc(All, func(m Measure) bool { return m.Name == name })
	if i < 0 {
		return Measure{}, false
	}
	return All[i], true
}

// On makes the X of a value.
func On[N int | int32 | float64](x N) *float64 {
	f := float64(x)
	return &f
}

// meanOf is the mean of some values; known is false of none.
func meanOf(values []float64) (m float64, known bool) {
	if len(values) == 0 {
		return m, false
	}
	return stat.Mean(values, nil), true
}

// series is means over a whole number, such as the iteration.
type series map[int][]float64

func (s series) add(x int, y float64) { s[x] = append(s[x], y) }

// values are the means in the order of the number.
func (s series) values(by, group, column string) []Value {
	var values []Value
	for _, x := range slices.Sorted(maps.Keys(s)) {
		m, _ := meanOf(s[x])
		values = append(values, Value{by, group, column, On(x), m})
	}
	return values
}

// grouped is a series for each group.
type grouped map[string]series

func (g grouped) add(group string, x int, y float64) {
	if g[group] == nil {
		g[group] = series{}
	}
	g[group].add(x, y)
}

// values are those of all groups, sorted by group.
func (g grouped) values(by, column string) []Value {
	var values []Value
	for _, group := range slices.Sorted(maps.Keys(g)) {
		values = append(values, g[group].values(by, group, column)...)
	}
	return values
}
