package grader

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// has refuses a submission that lacks a wanted column. Others are ignored.
var has = check{after: Table, of: func(p *pair) error { return p.lacks(p.wanted) }}

func (p *pair) lacks(names []string) error {
	for _, name := range names {
		if p.given.Column(name) == nil {
			return exitcode.Dataf("column %q is missing; asked for are %s", name, frame.Quoted(p.wanted))
		}
	}
	return nil
}

// hasOnly refuses further columns too.
var hasOnly = check{after: Table, of: func(p *pair) error {
	if err := p.lacks(p.wanted); err != nil {
		return err
	}
	for _, name := range p.given.Names() {
		if !slices.Contains(p.wanted, name) {
			return exitcode.Dataf("column %q is not asked for; asked for are %s", name, frame.Quoted(p.wanted))
		}
	}
	return nil
}}

// idFirst refuses a submission whose first column is another.
var idFirst = check{after: Table, of: func(p *pair) error {
	if len(p.given.Columns) == 0 || p.given.Columns[0].Name != p.id {
		return exitcode.Dataf("the first column must be %q", p.id)
	}
	return nil
}}

// inOrder refuses columns in another order than wanted.
var inOrder = check{after: Table, of: func(p *pair) error {
	if !slices.Equal(p.given.Names(), p.wanted) {
		return exitcode.Dataf("the columns must be, in this order, %s", frame.Quoted(p.wanted))
	}
	return nil
}}

// asMany refuses another number of rows than the answers have.
var asMany = check{after: Columns, of: func(p *pair) error {
	if given := p.given.Rows(); given != p.rows() {
		return exitcode.Dataf("there are %d rows where %d are asked for", given, p.rows())
	}
	return nil
}}

// anyRow refuses a submission without a row.
var anyRow = check{after: Columns, of: func(p *pair) error {
	if p.given.Rows() == 0 {
		return exitcode.Dataf("there is a header and no row")
	}
	return nil
}}

// sorted brings the rows of both into the order of their ids, which nobody compares.
var sorted = check{after: Columns, sorts: true, of: func(p *pair) error {
	p.given = p.given.SortedBy(p.id)
	return nil
}}

// sameIDs brings the rows of both into the order of their ids, and refuses ids that
// are not equal one by one.
var sameIDs = check{after: Columns, sorts: true, of: func(p *pair) error {
	p.given = p.given.SortedBy(p.id)
	if err := asMany.of(p); err != nil {
		return err
	}
	asked, given := p.answers.Column(p.id), p.given.Column(p.id)
	for row := range p.answers.Rows() {
		if asked.Key(row) == given.Key(row) && !asked.IsMissing(row) {
			continue
		}
		return exitcode.Dataf("column %q: in the order of ids, %s stands where %s is asked for", p.id, frame.Shortened(given.String(row)), frame.Shortened(asked.String(row)))
	}
	return nil
}}

// idSet refuses ids that the answers do not have, and ids left out; how often each
// is there does not matter.
var idSet = check{after: Columns, of: func(p *pair) error {
	asked, given := keys(p.answers.Column(p.id)), keys(p.given.Column(p.id))
	if err := subset(p, given, asked, "is not asked for"); err != nil {
		return err
	}
	return subset(p, asked, given, "is left out")
}}

// idSuperset refuses ids left out, and drops rows of others.
var idSuperset = check{after: Columns, drops: true, of: func(p *pair) error {
	column := p.given.Column(p.id)
	asked := keys(p.answers.Column(p.id))
	if err := subset(p, asked, keys(column), "is left out"); err != nil {
		return err
	}
	var rows []int
	for row := range p.given.Rows() {
		if asked[column.Key(row)] {
			rows = append(rows, row)
		}
	}
	p.given = p.given.Take(rows)
	return nil
}}

// idSubset refuses ids that the answers do not have.
var idSubset = check{after: Columns, of: func(p *pair) error {
	return subset(p, keys(p.given.Column(p.id)), keys(p.answers.Column(p.id)), "is not asked for")
}}

func keys(c *frame.Column) map[string]bool {
	all := make(map[string]bool, c.Len())
	for row := range c.Len() {
		all[c.Key(row)] = true
	}
	return all
}

func subset(p *pair, of, in map[string]bool, problem string) error {
	var wrong []string
	for key := range of {
		if !in[key] {
			wrong = append(wrong, key)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	key := slices.Min(wrong)
	_, id, _ := strings.Cut(key, " ")
	return exitcode.Dataf("column %q: id %s %s", p.id, frame.Shortened(id), problem)
}

// numeric refuses columns of texts.
func numeric(names ...string) check {
	return check{after: IDs, of: func(p *pair) error {
		for _, name := range names {
			if c := p.given.Column(name); !c.Numeric() {
				return exitcode.Dataf("column %q is not of numbers: %s", name, frame.Shortened(firstWord(c)))
			}
		}
		return nil
	}}
}

// firstWord is the first cell of a column that is no number.
func firstWord(c *frame.Column) string {
	for row := range c.Len() {
		if _, ok := pythonFloat(c.String(row)); !ok {
			return c.String(row)
		}
	}
	return ""
}

// within refuses values outside a range, and missing ones. Without names it is of
// all columns beside the id.
func within(low, high float64, names ...string) check {
	return check{after: IDs, of: func(p *pair) error {
		columns := names
		if columns == nil {
			columns = p.classes()
		}
		for _, name := range columns {
			c := p.given.Column(name)
			values, err := numbersOf(c)
			if err != nil {
				return err
			}
			for row, v := range values {
				if !(v >= low && v <= high) {
					return p.cell(row, name, "%v is outside %v to %v", v, low, high)
				}
			}
		}
		return nil
	}}
}

// sumsToOne refuses rows whose classes do not sum to 1, by the given measure.
func sumsToOne(is func(sum float64) bool, names ...string) check {
	return check{after: IDs, of: func(p *pair) error {
		columns := names
		if columns == nil {
			columns = p.classes()
		}
		sums, err := rowSums(p.given, columns)
		if err != nil {
			return err
		}
		for row, sum := range sums {
			if !is(sum) {
				return p.cell(row, columns[0], "the row sums to %v, not to 1", sum)
			}
		}
		return nil
	}}
}

// rowSums adds columns up, row by row; missing values are left out.
func rowSums(f *frame.Frame, names []string) ([]float64, error) {
	sums := make([]float64, f.Rows())
	for _, name := range names {
		c := f.Column(name)
		if !c.Numeric() {
			return nil, exitcode.Dataf("column %q is not of numbers: %s", name, frame.Shortened(firstWord(c)))
		}
		for row, v := range c.Numbers {
			if !math.IsNaN(v) {
				sums[row] += v
			}
		}
	}
	return sums, nil
}

// isClose is numpy's isclose to 1 with its default relative tolerance.
func isClose(absolute float64) func(float64) bool {
	return func(sum float64) bool { return math.Abs(sum-1) <= absolute+1e-5 }
}

// roundsToOne says that a sum is 1 at so many decimals.
func roundsToOne(decimals int) func(float64) bool {
	return func(sum float64) bool {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(sum, 'f', decimals, 64), 64)
		return rounded == 1
	}
}

// cell is an error about one cell of the submission.
func (p *pair) cell(row int, column, format string, args ...any) error {
	return exitcode.Dataf("column %q of id %s: "+format, append([]any{column, frame.Shortened(p.given.Column(p.id).String(row))}, args...)...)
}
