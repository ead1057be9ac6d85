package metric

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Direction says which scores are better.
type Direction string

// The directions.
const (
	Minimize Direction = "minimize"
	Maximize Direction = "maximize"
)

// Kind is what the cells of a column are.
type Kind string

// The kinds of cells.
const (
	Number Kind = "number" // a finite number
	Label  Kind = "label"  // a class
	Text   Kind = "text"   // anything, or nothing
)

// Shape says how many columns there are.
type Shape string

// The shapes.
const (
	One      Shape = "one"       // one column in the answers, one in the predictions
	Same     Shape = "same"      // the same columns in both, one or more
	PerClass Shape = "per-class" // a column of labels in the answers; for each class a column of its name in the predictions
)

// Column is a named column of numbers, of a metric that takes those, or of
// labels or texts.
type Column struct {
	Name    string
	Numbers []float64
	Texts   []string
}

// Metric is a way to score predictions.
type Metric struct {
	Name        string
	Direction   Direction
	Shape       Shape
	Answers     Kind // what the cells of the answers are
	Predictions Kind
	score       func(answers, predictions []Column) (float64, error)
}

// Score scores predictions, row by row those of the answers. The columns are as
// many as the metric's shape says, of its kinds, those of the shape [Same] in
// the same order. The score is finite; errors are data errors.
func (m Metric) Score(answers, predictions []Column) (float64, error) {
	if len(answers) == 0 || len(predictions) == 0 || m.Shape != Same && len(answers) > 1 || m.Shape == One && len(predictions) > 1 {
		return 0, exitcode.Dataf("scoring by %s: %d columns of answers and %d of predictions; it takes the shape %q",
			m.Name, len(answers), len(predictions), m.Shape)
	}
	score, err := m.score(answers, predictions)
	var cell *CellError
	if errors.As(err, &cell) {
		columns := predictions
		if cell.Answers {
			columns = answers
		}
		cell.Name = columns[cell.Column].Name
	}
	if err != nil {
		err = fmt.Errorf("scoring by %s: %w", m.Name, err)
	}
	return score, err
}

func numeric(name string, d Direction, score func(answers, predictions []float64) (float64, error)) Metric {
	return Metric{name, d, One, Number, Number, func(a, p []Column) (float64, error) {
		return score(a[0].Numbers, p[0].Numbers)
	}}
}

func columnwise(name string, d Direction, score func(answers, predictions []float64) (float64, error)) Metric {
	return Metric{name, d, Same, Number, Number, func(a, p []Column) (float64, error) {
		return ColumnMean(score, numbersOf(a), numbersOf(p))
	}}
}

func written(name string, kind Kind, d Direction, score func(answers, predictions []string) (float64, error)) Metric {
	return Metric{name, d, One, kind, kind, func(a, p []Column) (float64, error) {
		return score(a[0].Texts, p[0].Texts)
	}}
}

func classes(name string, d Direction, score func(answers, classes []string, predictions [][]float64) (float64, error)) Metric {
	return Metric{name, d, PerClass, Label, Number, func(a, p []Column) (float64, error) {
		names := make([]string, len(p))
		for i, column := range p {
			names[i] = column.Name
		}
		return score(a[0].Texts, names, numbersOf(p))
	}}
}

func numbersOf(columns []Column) [][]float64 {
	all := make([][]float64, len(columns))
	for i, column := range columns {
		all[i] = column.Numbers
	}
	return all
}

// registered are all metrics, by name.
var registered = func() []Metric {
	all := []Metric{
		numeric("auc-roc", Maximize, AUC),
		numeric("log-loss", Minimize, LogLoss),
		numeric("rmse", Minimize, RMSE),
		numeric("rmsle", Minimize, RMSLE),
		numeric("mae", Minimize, MAE),
		numeric("median-absolute-error", Minimize, MedianAE),
		numeric("r2", Maximize, R2),
		numeric("poisson-deviance", Minimize, PoissonDeviance),
		numeric("spearman", Maximize, Spearman),
		numeric("quadratic-weighted-kappa", Maximize, QuadraticKappa),
		numeric("f1", Maximize, F1),
		columnwise("mean-column-wise-auc", Maximize, AUC),
		columnwise("mean-column-wise-log-loss", Minimize, LogLoss),
		columnwise("mcrmse", Minimize, RMSE),
		columnwise("mean-column-wise-rmsle", Minimize, RMSLE),
		written("accuracy", Label, Maximize, Accuracy),
		written("balanced-accuracy", Label, Maximize, BalancedAccuracy),
		written("f1-macro", Label, Maximize, F1Macro),
		written("f1-micro", Label, Maximize, F1Micro),
		written("f1-weighted", Label, Maximize, F1Weighted),
		written("exact-match", Text, Maximize, ExactMatch),
		written("levenshtein", Text, Minimize, Levenshtein),
		written("jaccard-words", Text, Maximize, JaccardWords),
		written("jaccard-sets", Text, Maximize, JaccardSets),
		classes("multi-class-log-loss", Minimize, ClassLogLoss),
		classes("multi-class-auc-ovr", Maximize, func(a, c []string, p [][]float64) (float64, error) { return ClassAUC(a, c, p, false) }),
		classes("multi-class-auc-ovo", Maximize, func(a, c []string, p [][]float64) (float64, error) { return ClassAUC(a, c, p, true) }),
	}
	for _, k := range []int{1, 3, 5, 7, 10, 12, 20, 100} { // the cuts that competitions have
		all = append(all, written(fmt.Sprintf("map@%d", k), Text, Maximize, func(a, p []string) (float64, error) { return MAPAt(k, a, p) }))
	}
	slices.SortFunc(all, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return all
}()

// All lists the metrics by name.
func All() []Metric { return slices.Clone(registered) }

// Lookup finds a metric by its name. An unknown one is a usage error that lists
// all.
func Lookup(name string) (Metric, error) {
	names := make([]string, len(registered))
	for i, m := range registered {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	return Metric{}, exitcode.Usagef("unknown metric %q; there are %s", name, strings.Join(names, ", "))
}
