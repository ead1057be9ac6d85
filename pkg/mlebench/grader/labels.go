package grader

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// labelled checks two columns as scikit-learn checks labels: no value is missing,
// numbers are whole. Where one side is of texts and the other of numbers nothing is
// equal, and mixed says so.
func labelled(asked, given *frame.Column) (mixed bool, err error) {
	if asked.Len() != given.Len() {
		return false, exitcode.Dataf("%d rows are compared with %d", given.Len(), asked.Len())
	}
	for _, c := range []*frame.Column{asked, given} {
		for row := range c.Len() {
			if c.IsMissing(row) {
				return false, exitcode.Dataf("column %q, row %d in the order of ids: it is empty", c.Name, row+1)
			}
			if c.Kind == frame.Float && c.Numbers[row] != math.Trunc(c.Numbers[row]) {
				return false, exitcode.Dataf("column %q, row %d in the order of ids: %v is no label: a number must be whole", c.Name, row+1, c.Numbers[row])
			}
		}
	}
	return asked.Numeric() != given.Numeric(), nil
}

// accuracy is the share of rows with equal labels.
func accuracy(asked, given *frame.Column) (float64, error) {
	mixed, err := labelled(asked, given)
	if err != nil {
		return 0, err
	}
	if mixed && len(keys(asked)) <= 2 && len(keys(given)) <= 2 {
		return 0, exitcode.Dataf("column %q: texts and numbers are compared, as %s with %s", given.Name, frame.Shortened(given.String(0)), frame.Shortened(asked.String(0)))
	}
	hits := 0
	for row := range asked.Len() {
		if asked.Key(row) == given.Key(row) {
			hits++
		}
	}
	return float64(hits) / float64(asked.Len()), nil
}

func accuracyOf(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) { return accuracy(p.answers.Column(target), p.given.Column(target)) }
}

// pureAccuracy refuses texts where the answers are numbers, and the reverse.
func pureAccuracy(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, given := p.answers.Column(target), p.given.Column(target)
		if mixed, err := labelled(asked, given); err != nil || mixed {
			return 0, errorOr(err, "column %q: texts and numbers are compared", target)
		}
		return accuracy(asked, given)
	}
}

// filledAccuracy takes a blank label for an empty text.
func filledAccuracy(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		c := *p.given.Column(target)
		if texts, err := textsOf(&c); err == nil {
			c = frame.Column{Name: target, Kind: frame.Text, Texts: texts, Missing: make([]bool, len(texts))}
		}
		return accuracy(p.answers.Column(target), &c)
	}
}

// writtenAccuracy compares what Python's str makes of both sides.
func writtenAccuracy(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, given := wordsOf(p.answers.Column(target)), wordsOf(p.given.Column(target))
		return meanOfRows(len(asked), func(row int) (float64, error) { return one(asked[row] == given[row]), nil })
	}
}

// firstTokenError is the share of rows whose first predicted class is wrong.
func firstTokenError(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, err := wholeOf(p.answers.Column(target))
		if err != nil {
			return 0, err
		}
		c := p.given.Column(target)
		if c.Kind == frame.Float {
			return 0, exitcode.Dataf("column %q is of fractions, or has empty cells", target)
		}
		hits := 0.0
		for row, want := range asked {
			words := fields(c.String(row))
			if c.Kind == frame.Bool {
				hits += one(int(c.Numbers[row]) == want)
				continue
			}
			if c.IsMissing(row) || len(words) == 0 {
				return 0, p.cell(row, target, "it is empty")
			}
			class, ok := pythonInt(words[0])
			if !ok {
				return 0, p.cell(row, target, "%s is not a whole number", frame.Shortened(words[0]))
			}
			hits += one(class == want)
		}
		return 1 - hits/float64(len(asked)), nil
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func errorOr(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return exitcode.Dataf(format, args...)
}

// confusion counts pairs of labels, by their places among those that occur.
func confusion(asked, given *frame.Column) (counts [][]float64, err error) {
	if mixed, err := labelled(asked, given); err != nil || mixed {
		return nil, errorOr(err, "column %q: texts and numbers are compared", given.Name)
	}
	if !asked.Numeric() {
		return nil, exitcode.Dataf("column %q is not of numbers", asked.Name)
	}
	labels := slices.Compact(slices.Sorted(slices.Values(slices.Concat(asked.Numbers, given.Numbers))))
	counts = make([][]float64, len(labels))
	for i := range counts {
		counts[i] = make([]float64, len(labels))
	}
	for row := range asked.Len() {
		i, _ := slices.BinarySearch(labels, asked.Numbers[row])
		j, _ := slices.BinarySearch(labels, given.Numbers[row])
		counts[i][j]++
	}
	return counts, nil
}

// margins are the sums of rows and of columns, and of all.
func margins(counts [][]float64) (asked, given []float64, all float64) {
	asked, given = make([]float64, len(counts)), make([]float64, len(counts))
	for i, row := range counts {
		for j, n := range row {
			asked[i] += n
			given[j] += n
			all += n
		}
	}
	return asked, given, all
}

// quadraticKappa is Cohen's kappa, weighted by squared distances of the places of
// grades among those that occur.
func quadraticKappa(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		counts, err := confusion(p.answers.Column(target), p.given.Column(target))
		if err != nil {
			return 0, err
		}
		asked, given, all := margins(counts)
		var observed, expected float64
		for i := range counts {
			for j := range counts {
				weight := float64((i - j) * (i - j))
				observed += weight * counts[i][j]
				expected += weight * asked[i] * given[j] / all
			}
		}
		return 1 - observed/expected, nil
	}
}

// matthews is the correlation of labels; 0 where one side is constant.
func matthews(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		counts, err := confusion(p.answers.Column(target), p.given.Column(target))
		if err != nil {
			return 0, err
		}
		asked, given, all := margins(counts)
		var right, ag, aa, gg float64
		for i := range counts {
			right += counts[i][i]
			ag += asked[i] * given[i]
			aa += asked[i] * asked[i]
			gg += given[i] * given[i]
		}
		spread := (all*all - aa) * (all*all - gg)
		if spread == 0 {
			return 0, nil
		}
		return (right*all - ag) / math.Sqrt(spread), nil
	}
}

// macroF1 is the mean F1 of the classes that occur on either side, cut to whole
// numbers.
func macroF1(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, err := wholeOf(p.answers.Column(target))
		if err != nil {
			return 0, err
		}
		given, err := wholeOf(p.given.Column(target))
		if err != nil {
			return 0, err
		}
		return metric.F1Macro(classNames(asked), classNames(given))
	}
}

func classNames(classes []int) []string {
	names := make([]string, len(classes))
	for i, class := range classes {
		names[i] = strconv.Itoa(class)
	}
	return names
}

// labelsF1 is the F1 of labels counted over all rows; labels that the answers do not
// have are dropped.
func labelsF1(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, err := textsOf(p.answers.Column(target))
		if err != nil {
			return 0, err
		}
		given, err := textsOf(p.given.Column(target))
		if err != nil {
			return 0, err
		}
		known := setOf(fields(strings.Join(asked, " ")))
		var both, all float64
		for row := range asked {
			a := setOf(fields(asked[row]))
			all += float64(len(a))
			for label := range setOf(fields(given[row])) {
				if known[label] {
					all++
					both += one(a[label])
				}
			}
		}
		if all == 0 {
			return 0, nil
		}
		return 2 * both / all, nil
	}
}

// precisionAt is the mean average precision of the first k predictions, cut at
// single blanks: an empty one takes a place too. Rows are compared in their order
// as far as both go.
func precisionAt(k int, target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, given := wordsOf(p.answers.Column(target)), wordsOf(p.given.Column(target))
		return meanOfRows(min(len(asked), len(given)), func(row int) (float64, error) {
			return metric.AveragePrecision(k, setOf(strings.Split(asked[row], " ")), strings.Split(given[row], " ")), nil
		})
	}
}
