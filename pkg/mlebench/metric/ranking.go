package metric

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// MidRanks ranks values from 1; equal ones take the mean of their ranks.
func MidRanks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = float64(from+to+1) / 2
		}
		from = to
	}
	return ranks
}

// AUC is the area under the ROC curve, 0 to 1: the chance that a row of class 1
// has a higher prediction than one of class 0, ties counting half. Answers are
// 0 or 1 and both occur; predictions are any finite scores.
func AUC(answers, scores []float64) (float64, error) {
	if err := binary(answers, scores); err != nil {
		return 0, err
	}
	return area(answers, scores), nil
}

// area is the AUC by the sum of the ranks of class 1 (Mann and Whitney's U).
func area(answers, scores []float64) float64 {
	var sum, ones float64
	for i, rank := range MidRanks(scores) {
		if answers[i] == 1 {
			sum += rank
			ones++
		}
	}
	return (sum - ones*(ones+1)/2) / (ones * (float64(len(answers)) - ones))
}

// epsilon is how near to 0 and 1 a probability counts: that of float64, as
// scikit-learn clips.
const epsilon = 0x1p-52

func clip(p float64) float64 { return min(max(p, epsilon), 1-epsilon) }

func probability(column, row int, p float64) error {
	if p < 0 || p > 1 {
		return refuse(column, row, "probability %v is outside [0, 1]", p)
	}
	return nil
}

// LogLoss is the mean negative log-likelihood, in nats. Answers are 0 or 1 and
// both occur; predictions are probabilities of 1, clipped by the epsilon of
// float64.
func LogLoss(answers, predictions []float64) (float64, error) {
	if err := binary(answers, predictions); err != nil {
		return 0, err
	}
	for i, p := range predictions {
		if err := probability(0, i, p); err != nil {
			return 0, err
		}
	}
	return mean(answers, predictions, func(a, p float64) float64 {
		if a == 0 {
			return -math.Log(clip(1 - p))
		}
		return -math.Log(clip(p))
	}), nil
}

// perClass checks a column of probabilities for each class, and gives the class
// of each row.
func perClass(answers, classes []string, predictions [][]float64) ([]int, error) {
	if len(classes) < 2 || len(classes) != len(predictions) {
		return nil, exitcode.Dataf("%d classes and %d columns of probabilities; there is one for each of at least 2 classes",
			len(classes), len(predictions))
	}
	at := make(map[string]int, len(classes))
	for c, class := range classes {
		if _, twice := at[class]; twice {
			return nil, exitcode.Dataf("class %q has two columns of probabilities", class)
		}
		at[class] = c
		if err := sameRows(len(answers), len(predictions[c])); err != nil {
			return nil, err
		}
		for i, p := range predictions[c] {
			if problem := notFinite(p); problem != "" {
				return nil, refuse(c, i, "%s", problem)
			}
			if err := probability(c, i, p); err != nil {
				return nil, err
			}
		}
	}
	of := make([]int, len(answers))
	for i, label := range answers {
		c, known := at[label]
		if !known {
			return nil, refuseAnswer(i, "unknown label %q: no column of probabilities has its name", label)
		}
		of[i] = c
	}
	if slices.Min(of) == slices.Max(of) {
		return nil, oneClass(answers[0])
	}
	return of, nil
}

// ClassLogLoss is the mean negative log-likelihood over classes, in nats.
// Predictions hold a column of probabilities for each class, each clipped by
// the epsilon of float64; then every row is divided by its sum.
func ClassLogLoss(answers, classes []string, predictions [][]float64) (float64, error) {
	of, err := perClass(answers, classes, predictions)
	if err != nil {
		return 0, err
	}
	var loss float64
	for i, c := range of {
		var row float64
		for _, column := range predictions {
			row += clip(column[i])
		}
		loss -= math.Log(clip(predictions[c][i]) / row)
	}
	return loss / float64(len(of)), nil
}

// ClassAUC is the multi-class AUC, the mean over classes of each against the
// rest or, with oneVsOne, over pairs of classes both ways (Hand and Till, "A
// Simple Generalisation of the Area Under the ROC Curve for Multiple Class
// Classification Problems", 2001). Every class occurs; every row of
// probabilities sums to 1 (within 1.001e-5, as scikit-learn asks). scikit-learn
// has it for three classes and more; of two, it is the mean of their AUCs.
func ClassAUC(answers, classes []string, predictions [][]float64, oneVsOne bool) (float64, error) {
	of, err := perClass(answers, classes, predictions)
	if err != nil {
		return 0, err
	}
	for i := range of {
		var sum float64
		for _, column := range predictions {
			sum += column[i]
		}
		if math.Abs(1-sum) > 1e-8+1e-5*sum {
			return 0, refuse(0, i, "the probabilities of the row sum to %v, not to 1", sum)
		}
	}
	for c, class := range classes {
		if !slices.Contains(of, c) {
			return 0, exitcode.Dataf("no answer is of class %q: the score is not defined", class)
		}
	}
	var total, count float64
	for a := range classes {
		for b := range classes {
			if oneVsOne == (a == b) {
				continue // a against b, or a against all the rest
			}
			isA, score := pick(of, predictions[a], a, b)
			total += area(isA, score)
			count++
		}
	}
	return total / count, nil
}

// pick takes the rows of class a and of class b, or all rows where the two are
// the same: whether each is of class a, and its score.
func pick(of []int, column []float64, a, b int) (isA, scores []float64) {
	for i, c := range of {
		if a != b && c != a && c != b {
			continue
		}
		is := 0.0
		if c == a {
			is = 1
		}
		isA, scores = append(isA, is), append(scores, column[i])
	}
	return isA, scores
}

// inColumn says in which column the cell of an error stands, or which column
// the error is about.
func inColumn(err error, column int) error {
	var cell *CellError
	if errors.As(err, &cell) {
		cell.Column = column
		return err
	}
	return fmt.Errorf("column %d: %w", column+1, err)
}
