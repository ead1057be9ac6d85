package metric

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Accuracy is the share of rows whose labels are equal.
func Accuracy(answers, predictions []string) (float64, error) {
	if err := sameRows(len(answers), len(predictions)); err != nil {
		return 0, err
	}
	hits := 0
	for i := range answers {
		if answers[i] == predictions[i] {
			hits++
		}
	}
	return float64(hits) / float64(len(answers)), nil
}

// counts are of one label: rows that have it in both columns, in the answers,
// in the predictions.
type counts struct{ both, answered, predicted float64 }

// f1 is the harmonic mean of precision and recall of a label that one of the
// columns has.
func (c counts) f1() float64 { return 2 * c.both / (c.answered + c.predicted) }

// tally counts every label of both columns, in the order of the labels: sums of
// floats are the same in every run.
func tally(answers, predictions []string) []counts {
	labels := slices.Sorted(slices.Values(slices.Concat(answers, predictions)))
	labels = slices.Compact(labels)
	of := make(map[string]int, len(labels))
	for i, label := range labels {
		of[label] = i
	}
	tallied := make([]counts, len(labels))
	for i := range answers {
		tallied[of[answers[i]]].answered++
		tallied[of[predictions[i]]].predicted++
		if answers[i] == predictions[i] {
			tallied[of[answers[i]]].both++
		}
	}
	return tallied
}

// BalancedAccuracy is the mean recall of the labels that the answers hold.
func BalancedAccuracy(answers, predictions []string) (float64, error) {
	if err := sameRows(len(answers), len(predictions)); err != nil {
		return 0, err
	}
	var sum, labels float64
	for _, c := range tally(answers, predictions) {
		if c.answered > 0 {
			sum += c.both / c.answered
			labels++
		}
	}
	return sum / labels, nil
}

// F1 is the harmonic mean of precision and recall of class 1. Both columns hold
// 0 or 1, the answers both of them.
func F1(answers, predictions []float64) (float64, error) {
	if err := binary(answers, predictions); err != nil {
		return 0, err
	}
	var ones counts
	for i, p := range predictions {
		if p != 0 && p != 1 {
			return 0, refuse(0, i, "unknown label %v: a binary prediction is 0 or 1", p)
		}
		ones.both += p * answers[i]
		ones.answered += answers[i]
		ones.predicted += p
	}
	return ones.f1(), nil
}

// F1Macro is the mean F1 of all labels of either column.
func F1Macro(answers, predictions []string) (float64, error) {
	if err := sameRows(len(answers), len(predictions)); err != nil {
		return 0, err
	}
	var sum, labels float64
	for _, c := range tally(answers, predictions) {
		sum += c.f1()
		labels++
	}
	return sum / labels, nil
}

// F1Weighted is the mean F1 of all labels, each weighted by its answers.
func F1Weighted(answers, predictions []string) (float64, error) {
	if err := sameRows(len(answers), len(predictions)); err != nil {
		return 0, err
	}
	var sum float64
	for _, c := range tally(answers, predictions) {
		sum += c.f1() * c.answered
	}
	return sum / float64(len(answers)), nil
}

// F1Micro is the F1 of all labels counted together. Where every row has one
// label, as here, it is the accuracy.
func F1Micro(answers, predictions []string) (float64, error) {
	return Accuracy(answers, predictions)
}

// QuadraticKappa is Cohen's kappa of ratings, whole numbers, -1 to 1, with the
// square of the distance of two ratings as their disagreement. As in
// scikit-learn, ratings that neither column holds do not count: the distance is
// that of their places among those that occur.
func QuadraticKappa(answers, predictions []float64) (float64, error) {
	if err := numbers(answers, predictions); err != nil {
		return 0, err
	}
	for i := range answers {
		if answers[i] != math.Trunc(answers[i]) {
			return 0, refuseAnswer(i, "%v is not a whole number: a rating is", answers[i])
		}
		if predictions[i] != math.Trunc(predictions[i]) {
			return 0, refuse(0, i, "%v is not a whole number: a rating is", predictions[i])
		}
	}
	if constant(answers) {
		return 0, oneClass(fmt.Sprint(answers[0]))
	}
	ratings := slices.Compact(slices.Sorted(slices.Values(slices.Concat(answers, predictions))))
	places := func(column []float64) []float64 {
		at := make([]float64, len(column))
		for i, v := range column {
			place, _ := slices.BinarySearch(ratings, v)
			at[i] = float64(place)
		}
		return at
	}
	a, p := places(answers), places(predictions)
	// The expected disagreement is the mean over all pairs of an answer and a
	// prediction: E(a−p)² = E a² + E p² − 2·E a·E p.
	n := float64(len(a))
	expected := (floats.Dot(a, a)+floats.Dot(p, p))/n - 2*floats.Sum(a)*floats.Sum(p)/(n*n)
	return 1 - mean(a, p, squared)/expected, nil
}
