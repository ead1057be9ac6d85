package metric

import (
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// mean averages loss over rows that [numbers] has let pass.
func mean(answers, predictions []float64, loss func(answer, prediction float64) float64) float64 {
	var sum float64
	for i := range answers {
		sum += loss(answers[i], predictions[i])
	}
	return sum / float64(len(answers))
}

func squared(a, p float64) float64 { return (a - p) * (a - p) }

// RMSE is the root of the mean squared error, in the unit of the answers.
func RMSE(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	return finite(math.Sqrt(mean(answers, predictions, squared)))
}

// RMSLE is the root of the mean squared difference of log(1+x). Every value is
// above -1.
func RMSLE(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	for i := range answers {
		if answers[i] <= -1 {
			return 0, refuseAnswer(i, "%v has no log(1+x): it must be above -1", answers[i])
		}
		if predictions[i] <= -1 {
			return 0, refuse(0, i, "%v has no log(1+x): it must be above -1", predictions[i])
		}
	}
	return finite(math.Sqrt(mean(answers, predictions, func(a, p float64) float64 {
		return squared(math.Log1p(a), math.Log1p(p))
	})))
}

// MAE is the mean absolute error, in the unit of the answers.
func MAE(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	return finite(mean(answers, predictions, func(a, p float64) float64 { return math.Abs(a - p) }))
}

// MedianAE is the median absolute error, in the unit of the answers.
func MedianAE(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	errors := make([]float64, len(answers))
	for i := range answers {
		errors[i] = math.Abs(answers[i] - predictions[i])
	}
	return finite(Median(errors))
}

// R2 is the coefficient of determination, at most 1. The answers are not all
// equal: scikit-learn's 0 or 1 for those says nothing.
func R2(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	if constant(answers) {
		return 0, exitcode.Dataf("the answers are all %v: the score is not defined", answers[0])
	}
	center := stat.Mean(answers, nil)
	around := mean(answers, answers, func(a, _ float64) float64 { return squared(a, center) })
	return finite(1 - mean(answers, predictions, squared)/around)
}

// PoissonDeviance is the mean of 2·(a·log(a/p) − a + p). Answers are at least
// 0, predictions above 0.
func PoissonDeviance(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	for i := range answers {
		if answers[i] < 0 {
			return 0, refuseAnswer(i, "%v is negative: a count is at least 0", answers[i])
		}
		if predictions[i] <= 0 {
			return 0, refuse(0, i, "%v is not above 0: a predicted rate is", predictions[i])
		}
	}
	return finite(mean(answers, predictions, func(a, p float64) float64 {
		if a == 0 {
			return 2 * p
		}
		return 2 * (a*math.Log(a/p) - a + p)
	}))
}

// Spearman is the rank correlation, -1 to 1, ties at their mean ranks. Neither
// column is constant.
func Spearman(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	for _, column := range []struct {
		of     string
		values []float64
	}{{"answers", answers}, {"predictions", predictions}} {
		if constant(column.values) {
			return 0, exitcode.Dataf("the %s are all %v: a rank correlation is not defined", column.of, column.values[0])
		}
	}
	return finite(stat.Correlation(MidRanks(answers), MidRanks(predictions), nil))
}

func constant(values []float64) bool {
	for _, v := range values {
		if v != values[0] {
			return false
		}
	}
	return true
}

// ColumnMean is the mean of a metric over columns, each with a name of its own:
// with [AUC], [LogLoss], [RMSE] and [RMSLE] the mean column-wise AUC, log loss,
// RMSE (MCRMSE) and RMSLE. Columns are of equal number.
func ColumnMean(of func(answers, predictions []float64) (float64, error), answers, predictions [][]float64) (float64, error) {
	if len(answers) == 0 || len(answers) != len(predictions) {
		return 0, exitcode.Dataf("%d columns of answers and %d of predictions", len(answers), len(predictions))
	}
	var sum float64
	for c := range answers {
		score, err := of(answers[c], predictions[c])
		if err != nil {
			return 0, inColumn(err, c)
		}
		sum += score
	}
	return finite(sum / float64(len(answers)))
}
