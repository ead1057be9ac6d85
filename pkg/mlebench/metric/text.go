package metric

import (
	"slices"
	"strings"
)

// ExactMatch is the share of rows whose texts are equal: an edit distance of 0,
// as competitions in text normalisation count.
func ExactMatch(answers, predictions []string) (float64, error) {
	return Accuracy(answers, predictions)
}

// Levenshtein is the mean edit distance, in characters inserted, deleted or
// replaced.
func Levenshtein(answers, predictions []string) (float64, error) {
	if err := sameRows(len(answers), len(predictions)); err != nil {
		return 0, err
	}
	var sum float64
	for i := range answers {
		sum += float64(EditDistance([]rune(answers[i]), []rune(predictions[i])))
	}
	return sum / float64(len(answers)), nil
}

// EditDistance is the least number of elements inserted, deleted or replaced that
// makes one sequence the other (Wagner and Fischer, row by row).
func EditDistance[T comparable](a, b []T) int {
	row := make([]int, len(a)+1)
	for j := range row {
		row[j] = j
	}
	for i, element := range b {
		diagonal := row[0]
		row[0] = i + 1
		for j, other := range a {
			replaced := diagonal
			if other != element {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(row)-1]
}

// JaccardWords is the mean over rows of the words that both texts hold over
// those that either holds, in lower case and cut at white space, as in Kaggle's
// tweet-sentiment-extraction; 1 where both are empty.
func JaccardWords(answers, predictions []string) (float64, error) {
	lower := func(texts []string) []string {
		all := make([]string, len(texts))
		for i, text := range texts {
			all[i] = strings.ToLower(text)
		}
		return all
	}
	return JaccardSets(lower(answers), lower(predictions))
}

// JaccardSets is the mean over rows of the size of the intersection over that
// of the union of two sets, each a text of elements cut at white space; 1 where
// both are empty.
func JaccardSets(answers, predictions []string) (float64, error) {
	if err := sameRows(len(answers), len(predictions)); err != nil {
		return 0, err
	}
	var sum float64
	for i := range answers {
		a, p := set(answers[i]), set(predictions[i])
		both := 0
		for element := range a {
			if p[element] {
				both++
			}
		}
		if union := len(a) + len(p) - both; union > 0 {
			sum += float64(both) / float64(union)
		} else {
			sum++
		}
	}
	return sum / float64(len(answers)), nil
}

func set(text string) map[string]bool {
	elements := map[string]bool{}
	for element := range strings.FieldsSeq(text) {
		elements[element] = true
	}
	return elements
}

// MAPAt is the mean average precision of the first k predicted elements of each
// row, best first and cut at white space: the precision at each element that is
// right and was not named before, summed, over min(k, right elements). A
// prediction may be shorter than k; no answer is empty.
func MAPAt(k int, answers, predictions []string) (float64, error) {
	if err := sameRows(len(answers), len(predictions)); err != nil {
		return 0, err
	}
	var sum float64
	for i := range answers {
		right := set(answers[i])
		if len(right) == 0 {
			return 0, refuseAnswer(i, "it is empty: an average precision needs an element that is right")
		}
		sum += AveragePrecision(k, right, strings.Fields(predictions[i]))
	}
	return sum / float64(len(answers)), nil
}

// AveragePrecision is that of the first k guesses, best first: the precision at each
// that is right and was not named before, summed, over min(k, right elements).
func AveragePrecision(k int, right map[string]bool, guesses []string) float64 {
	guesses = guesses[:min(k, len(guesses))]
	var hits, precision float64
	for at, guess := range guesses {
		if right[guess] && !slices.Contains(guesses[:at], guess) {
			hits++
			precision += hits / float64(at+1)
		}
	}
	return precision / float64(min(k, len(right)))
}
