// Package grader grades submissions to the competitions of MLE-bench by their ids,
// no stricter and no laxer than MLE-bench's own graders (Chan et al., "MLE-bench",
// 2025; openai/mle-bench at commit 783b15a with the library versions that it pins).
// What looks odd is theirs: rows compared by their place, labels that count only
// where the answers have them, a NaN that is a valid score.
//
// Each competition is declared: the files of its answers and its sample, the columns
// of a submission, what is checked and in which order, and how it is scored. The
// parts are shared.
package grader

import (
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// Split is a part of MLE-bench: by the hours that an engineer needs, or dev.
type Split string

// The splits: 22, 38, 15 and 7 competitions.
const (
	Low    Split = "low"
	Medium Split = "medium"
	High   Split = "high"
	Dev    Split = "dev"
)

// Competition is how one is graded.
type Competition struct {
	ID            string
	Split         Split
	Modality      string // of the data: tabular, text, image, series
	Metric        string // in words
	AnswersFile   string // in the private folder
	SampleFile    string // in the public folder
	LowerIsBetter bool

	best    float64  // score that there can be; see [Competition.Best]
	id      string   // the column of the rows' names
	numbers []string // columns of numbers that the answers have
	others  []string // further columns that the answers have; without either, those of a submission
	columns []string // that a submission has, beside the id; nil for those of the answers
	checks  []check
	score   func(*pair) (float64, error)
	read    func(answers []byte) (*pair, error) // nil for a CSV file
}

// Best is a score that cannot be beaten, or hardly.
func (c *Competition) Best() float64 { return c.best }

// All lists the competitions by id.
func All() []*Competition { return slices.Clone(competitions) }

// Lookup finds a competition by its id.
func Lookup(id string) (*Competition, bool) {
	i, found := slices.BinarySearchFunc(competitions, id, func(c *Competition, id string) int {
		switch {
		case c.ID < id:
			return -1
		case c.ID > id:
			return 1
		}
		return 0
	})
	if !found {
		return nil, false
	}
	return competitions[i], true
}

// Answers are those of a competition, read once. They are read-only.
type Answers struct {
	*Competition
	pair *pair // without a submission
}

// Open reads the answers of a competition: a CSV file, or lines of JSON.
func (c *Competition) Open(content []byte) (*Answers, error) {
	read := c.read
	if read == nil {
		read = func(content []byte) (*pair, error) {
			answers, err := frame.Read(content, frame.Bounds{})
			return &pair{answers: answers}, err
		}
	}
	p, err := read(content)
	if err != nil {
		return nil, err
	}
	if p.answers != nil {
		if err := c.checkAnswers(p.answers); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(c.checks, func(check check) bool { return check.sorts }) {
			p.answers = p.answers.SortedBy(c.id)
		}
	}
	return &Answers{c, p}, nil
}

// checkAnswers refuses answers that lack a column, or a row, or have texts in the place
// of numbers.
func (c *Competition) checkAnswers(answers *frame.Frame) error {
	needed := slices.Concat([]string{c.id}, c.numbers, c.others)
	if len(needed) == 1 {
		needed = append(needed, c.columns...)
	}
	for _, name := range needed {
		column := answers.Column(name)
		if column == nil {
			return exitcode.Dataf("column %q is missing", name)
		}
		if slices.Contains(c.numbers, name) && !column.Numeric() {
			return exitcode.Dataf("column %q is not of numbers: %s", name, frame.Shortened(firstWord(column)))
		}
	}
	if answers.Rows() == 0 {
		return exitcode.Dataf("there is a header and no row")
	}
	return nil
}

// Rows is how many rows the answers have.
func (a *Answers) Rows() int { return a.pair.rows() }

// MostRows is how many rows of a submission are read. Some graders let rows pass that
// nobody asked for. Where they drop them, the sample has them too: about one in eighteen
// customers of h-and-m-personalized-fashion-recommendations is in its answers.
func (a *Answers) MostRows() int {
	each := 4
	if slices.ContainsFunc(a.checks, func(c check) bool { return c.drops }) {
		each = 64
	}
	return each*a.Rows() + 1000
}

// Columns are those that a submission has: the id first.
func (a *Answers) Columns() []string {
	columns := a.columns
	if columns == nil {
		columns = slices.DeleteFunc(a.pair.answers.Names(), func(name string) bool { return name == a.id })
	}
	return append([]string{a.id}, columns...)
}

// Stage is how far a submission has come.
type Stage int

// The stages, in their order.
const (
	Submitted Stage = iota // it is a file
	Table                  // it is a table
	Columns                // it has the columns
	IDs                    // it has the rows
	Valid                  // it has a score
)

// Score scores a submission, a CSV file. A score may be NaN or infinite where that
// of MLE-bench is. An error is the submission's, and a data error, with the score 0;
// the stage says how far it came.
func (a *Answers) Score(submission []byte, most frame.Bounds) (float64, Stage, error) {
	p, stage, err := a.checked(submission, most, true)
	if err != nil {
		return 0, stage, err
	}
	score, err := a.score(p)
	if err != nil {
		return score, IDs, err
	}
	return score, Valid, nil
}

// CheckRows makes the checks of columns and rows alone: values that are scored may
// be anything.
func (a *Answers) CheckRows(submission []byte) error {
	_, _, err := a.checked(submission, frame.Bounds{}, false)
	return err
}

// checked makes the checks of a submission, those of values where they are asked for.
// The stage is that of an error.
func (a *Answers) checked(submission []byte, most frame.Bounds, values bool) (*pair, Stage, error) {
	given, err := frame.Read(submission, most)
	if err != nil {
		return nil, Submitted, err
	}
	p := *a.pair
	p.given, p.id, p.wanted = given, a.id, a.Columns()
	for _, check := range a.checks {
		if check.after == IDs && !values {
			continue
		}
		if err := check.of(&p); err != nil {
			return nil, check.after, err
		}
	}
	return &p, IDs, nil
}

// pair are the answers and a submission. Where a competition brings both into the
// order of their ids, the answers are in it once they are opened, and a check sorts
// the submission.
type pair struct {
	answers, given *frame.Frame
	questions      []question // of answers that are no table
	id             string
	wanted         []string // the columns of a submission, the id first
}

func (p *pair) rows() int {
	if p.answers == nil {
		return 2 * len(p.questions)
	}
	return p.answers.Rows()
}

// classes are the columns of the answers beside the id.
func (p *pair) classes() []string { return p.wanted[1:] }

// check is one check of a submission; after is the stage that a submission is at
// which fails it.
type check struct {
	after Stage
	sorts bool // rows are compared in the order of their ids
	drops bool // rows of ids that the answers do not have
	of    func(*pair) error
}

// mean is that of values; NaN of none.
func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// meanOfRows averages what a function says of n rows.
func meanOfRows(n int, of func(row int) (float64, error)) (float64, error) {
	var sum float64
	for row := range n {
		v, err := of(row)
		if err != nil {
			return 0, fmt.Errorf("row %d of the sorted submission: %w", row+1, err)
		}
		sum += v
	}
	return sum / float64(n), nil
}

// meanOfColumns averages what a function says of columns.
func meanOfColumns(names []string, of func(name string) (float64, error)) (float64, error) {
	var sum float64
	for _, name := range names {
		v, err := of(name)
		if err != nil {
			return 0, fmt.Errorf("column %q: %w", name, err)
		}
		sum += v
	}
	return sum / float64(len(names)), nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
