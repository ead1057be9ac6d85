package mlebench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// Spec says how a competition is graded.
type Spec struct {
	ID       string   // the competition's name
	Metric   string   // a name of package metric
	IDColumn string   // the column of row ids, in answers and submissions
	Columns  []string // the columns of answers, and of submissions unless the metric takes one for each class
	// Classes are the known labels, of metrics that take labels. Another label is
	// refused. Nil is every label, and for metrics that take a column for each
	// class the labels of the answers, sorted.
	Classes []string
}

// Competition grades submissions. It is safe for concurrent use.
type Competition struct {
	spec    Spec
	metric  metric.Metric
	board   Board
	row     map[string]int // by id, in the answers
	ids     []string
	answers []metric.Column
	columns []string        // of a submission, without the id
	numeric bool            // all labels of the answers are numbers, and compare as numbers
	known   map[string]bool // labels; nil is every one
	classes []string        // the known labels in their order, as they compare
	most    bounds          // of a submission
	mle     *grader.Answers // of a competition of MLE-bench, which has nothing of the above but its id, its board and its bounds
	program Program         // of a competition with a grader of its own, likewise
}

// OpenMLEBench reads the answers of a competition of MLE-bench, which is graded as
// MLE-bench grades it. Of a board without a score there are no medals and ranks.
func OpenMLEBench(competition *grader.Competition, answers []byte, board Board) (*Competition, error) {
	read, err := competition.Open(answers)
	if err != nil {
		return nil, fmt.Errorf("reading the answers of %q: %w", competition.ID, err)
	}
	if !board.Empty() && board.LowerIsBetter() != competition.LowerIsBetter {
		return nil, exitcode.Dataf("the leaderboard of %q runs from %v to %v, the wrong way", competition.ID, board.scores[0], board.scores[len(board.scores)-1])
	}
	c := &Competition{spec: Spec{ID: competition.ID}, board: board, mle: read}
	columns := len(read.Columns())
	// Its graders let columns pass that nobody asked for.
	c.most = bounds{bytesForHeader + 4*bytesForOne*int64(len(answers)) + bytesOfText*int64(read.Rows())*int64(columns), 2*columns + 1000, read.MostRows()}
	return c, nil
}

// Open checks the answers of a competition, a CSV file, and its leaderboard.
// What the metric cannot score by, such as answers of one class, is a data
// error, as is a board whose direction is not the metric's.
func Open(spec Spec, answers []byte, board Board) (*Competition, error) {
	c, err := open(spec, answers, board)
	if err != nil {
		return nil, fmt.Errorf("reading the answers of %q: %w", spec.ID, err)
	}
	return c, nil
}

func open(spec Spec, answers []byte, board Board) (*Competition, error) {
	m, err := metric.Lookup(spec.Metric)
	if err != nil {
		return nil, err
	}
	if board.LowerIsBetter() != (m.Direction == metric.Minimize) {
		return nil, exitcode.Dataf("the metric %s is to %s, and the leaderboard runs from %v to %v",
			m.Name, m.Direction, board.scores[0], board.scores[len(board.scores)-1])
	}
	if len(spec.Columns) == 0 || len(spec.Columns) > 1 && m.Shape != metric.Same {
		return nil, exitcode.Usagef("there are %d columns of answers; the metric %s takes the shape %q", len(spec.Columns), m.Name, m.Shape)
	}
	table, err := ReadTable(answers)
	if err != nil {
		return nil, err
	}
	c := &Competition{spec: spec, metric: m, board: board, columns: spec.Columns}
	places, err := table.columns(append([]string{spec.IDColumn}, spec.Columns...))
	if err != nil {
		return nil, err
	}
	c.row = make(map[string]int, len(table.Rows))
	for i, row := range table.Rows {
		id := row[places[0]]
		if first, twice := c.row[id]; twice {
			return nil, exitcode.Dataf("row %d: id %q is there twice, first in row %d", i+1, id, first+1)
		}
		c.row[id] = i
		c.ids = append(c.ids, id)
	}
	if m.Answers == metric.Label {
		c.readClasses(table, places[1])
	}
	order := make([]int, len(table.Rows))
	for i := range order {
		order[i] = i
	}
	if c.answers, err = c.read(table, order, places[1:], spec.Columns, m.Answers); err != nil {
		return nil, err
	}
	c.most = c.bound(int64(len(answers)))
	return c, c.checkAnswers()
}

// The bytes that a submission may have for each that the answers have, for each
// number or label, for each text, and beside all of them.
const (
	bytesForOne    = 4
	bytesOfCell    = 64
	bytesOfText    = 4 << 10
	bytesForHeader = 1 << 20
)

// bound works out what is read of a submission. With a row more than the answers
// have, one is of an id that is not asked for or was there before: nobody needs the
// rest to say so. A row with many more columns than are asked for is not worth
// naming them all.
func (c *Competition) bound(answers int64) bounds {
	cells, each := int64(len(c.ids)*len(c.columns)), int64(bytesOfCell)
	if c.metric.Predictions == metric.Text {
		each = bytesOfText
	}
	return bounds{bytesForHeader + bytesForOne*answers + each*cells, 2*len(c.columns) + 1000, len(c.ids) + 1}
}

func (b bounds) frame() frame.Bounds { return frame.Bounds{Columns: b.columns, Rows: b.rows} }

// MaxBytes is how large a submission may be: as large as one of so many rows and
// columns has a reason to be.
func (c *Competition) MaxBytes() int64 { return c.most.bytes }

// readClasses finds out which labels there are, and how they compare: "1" and
// "1.0" are the same label where all labels are numbers, since that is what a
// data frame with a missing value writes.
func (c *Competition) readClasses(answers Table, place int) {
	c.numeric = true
	var labels []string
	for _, row := range answers.Rows {
		labels = append(labels, row[place])
		if _, problem := number(row[place]); problem != "" {
			c.numeric = false
		}
	}
	if c.spec.Classes != nil {
		labels = c.spec.Classes
	} else {
		slices.Sort(labels)
		labels = slices.Compact(labels)
	}
	if c.metric.Shape == metric.PerClass {
		c.columns = labels
	}
	if c.metric.Shape != metric.PerClass && c.spec.Classes == nil {
		return
	}
	c.known = map[string]bool{}
	for _, label := range labels {
		c.classes = append(c.classes, c.label(label))
		c.known[c.label(label)] = true
	}
}

// label is a label as it compares.
func (c *Competition) label(cell string) string {
	if v, problem := number(cell); c.numeric && problem == "" {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return cell
}

// read takes the columns at the places out of a table, as cells of a kind, in
// the order of the answers: order holds the table's row for each of them.
func (c *Competition) read(t Table, order, places []int, names []string, kind metric.Kind) ([]metric.Column, error) {
	columns := make([]metric.Column, len(places))
	for j, place := range places {
		columns[j].Name = names[j]
		for _, i := range order {
			cell := t.Rows[i][place]
			problem := ""
			switch kind {
			case metric.Number:
				var v float64
				v, problem = number(cell)
				columns[j].Numbers = append(columns[j].Numbers, v)
			case metric.Label:
				label := c.label(cell)
				if cell == "" {
					problem = "it is empty"
				} else if c.known != nil && !c.known[label] {
					problem = "unknown label " + frame.Shortened(cell)
				}
				columns[j].Texts = append(columns[j].Texts, label)
			case metric.Text:
				columns[j].Texts = append(columns[j].Texts, cell)
			}
			if problem != "" {
				return nil, exitcode.Dataf("%s: %s", c.cell(t, i, names[j]), problem)
			}
		}
	}
	return columns, nil
}

// cell says where a cell is.
func (c *Competition) cell(t Table, row int, column string) string {
	id := t.Rows[row][slices.Index(t.Header, c.spec.IDColumn)]
	return fmt.Sprintf("row %d (id %s), column %q", row+1, frame.Shortened(id), column)
}

// checkAnswers scores the answers as if they were predictions: whatever the
// metric refuses of the answers, it refuses now.
func (c *Competition) checkAnswers() error {
	predictions := c.answers
	if c.metric.Shape == metric.PerClass {
		predictions = make([]metric.Column, len(c.classes))
		for j, class := range c.classes {
			predictions[j] = metric.Column{Name: class, Numbers: make([]float64, len(c.ids))}
			for i, label := range c.answers[0].Texts {
				if label == class {
					predictions[j].Numbers[i] = 1
				}
			}
		}
	}
	_, err := c.metric.Score(c.answers, predictions)
	var cell *metric.CellError
	if errors.As(err, &cell) && !cell.Answers {
		return nil // an answer that no prediction may be, as a count of 0
	}
	return err
}

// Columns are those of a submission: the id first.
func (c *Competition) Columns() []string {
	if c.mle != nil {
		return c.mle.Columns()
	}
	return append([]string{c.spec.IDColumn}, c.columns...)
}

// Validate checks a submission, a CSV file. The error says all that a policy is
// told: what is wrong, in which row and column, and never a score.
func (c *Competition) Validate(submission []byte) error {
	_, err := c.Score(submission)
	return err
}

// Score scores a submission, a CSV file, rounded to 5 decimals. Every error is
// the submission's, and a data error, but for a [GraderError].
func (c *Competition) Score(submission []byte) (float64, error) {
	score, _, err := c.ScoreReached(submission)
	return score, err
}

// ScoreReached is [Competition.Score] with the steps towards a valid submission that this one
// has come to, in their order: it is there, it is a table, it has the columns, it has the
// ids, it is valid. Nothing that a program prints is among them.
func (c *Competition) ScoreReached(submission []byte) (score float64, reached []string, err error) {
	if score, reached, err = c.grade(submission); err != nil {
		return 0, reached, fmt.Errorf("checking a submission to %q: %w", c.spec.ID, err)
	}
	return Round(score), append(reached, "valid submission"), nil
}

// CheckRows checks the columns and the ids of a submission, a CSV file, and no
// value: the sample that a competition hands out may have empty ones.
func (c *Competition) CheckRows(submission []byte) error {
	if c.program != nil {
		return nil // which the program alone knows
	}
	defer hold(submission)()
	if c.mle != nil {
		return c.mle.CheckRows(submission)
	}
	_, _, _, _, err := c.align(submission)
	return err
}

// align reads a submission and finds its columns and, for each row of the
// answers, its row. reached is how far that went.
func (c *Competition) align(submission []byte) (table Table, places, order []int, reached []string, err error) {
	reached = append(reached, "submission")
	if table, err = readTable(submission, c.most); err != nil {
		return table, nil, nil, reached, err
	}
	reached = append(reached, "table")
	if places, err = table.columnsAlone(c.Columns()); err != nil {
		return table, nil, nil, reached, err
	}
	reached = append(reached, "columns")
	if order, err = c.order(table, places[0]); err != nil {
		return table, places, nil, reached, err
	}
	return table, places, order, append(reached, "ids"), nil
}

// grade is ScoreReached without the last step.
func (c *Competition) grade(submission []byte) (score float64, reached []string, err error) {
	if int64(len(submission)) > c.most.bytes {
		return 0, []string{"submission"}, exitcode.Dataf("the file has %d bytes, and at most %d are read", len(submission), c.most.bytes)
	}
	if c.program != nil { // in a process of its own, whose memory is bounded there
		score, err := c.program(submission)
		return score, []string{"submission"}, err
	}
	defer hold(submission)()
	if c.mle != nil {
		score, stage, err := c.mle.Score(submission, c.most.frame())
		return score, []string{"submission", "table", "columns", "ids"}[:min(stage, grader.IDs)+1], err
	}
	table, places, order, reached, err := c.align(submission)
	if err != nil {
		return 0, reached, err
	}
	predictions, err := c.read(table, order, places[1:], c.columns, c.metric.Predictions)
	if err != nil {
		return 0, reached, err
	}
	if c.metric.Shape == metric.PerClass {
		for j := range predictions {
			predictions[j].Name = c.classes[j]
		}
	}
	score, err = c.metric.Score(c.answers, predictions)
	var cell *metric.CellError
	if errors.As(err, &cell) {
		return 0, reached, exitcode.Dataf("%s: %s", c.cell(table, order[cell.Row], c.columns[cell.Column]), cell.Problem)
	}
	return score, reached, err
}

// order finds the row of the submission for each row of the answers.
func (c *Competition) order(t Table, place int) ([]int, error) {
	order := make([]int, len(c.ids))
	for i := range order {
		order[i] = -1
	}
	for i, row := range t.Rows {
		answer, known := c.row[row[place]]
		switch {
		case !known:
			return nil, exitcode.Dataf("row %d, column %q: id %s is not asked for", i+1, c.spec.IDColumn, frame.Shortened(row[place]))
		case order[answer] >= 0:
			return nil, exitcode.Dataf("row %d, column %q: id %s is there twice, first in row %d", i+1, c.spec.IDColumn, frame.Shortened(row[place]), order[answer]+1)
		}
		order[answer] = i
	}
	if missing := slices.Index(order, -1); missing >= 0 {
		return nil, exitcode.Dataf("there are %d rows where %d are asked for: column %q lacks id %s", len(t.Rows), len(c.ids), c.spec.IDColumn, frame.Shortened(c.ids[missing]))
	}
	return order, nil
}
