package grader

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// auc is the mean area under the ROC curves of columns of equal names.
func auc(names ...string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		return meanOfColumns(names, func(name string) (float64, error) {
			truth, scores, err := p.both(name, name, finiteOf)
			if err != nil {
				return 0, err
			}
			return metric.AUC(truth, scores)
		})
	}
}

// toxicAUC is the mean AUC of rows whose labels are not all -1. The columns of the
// submission are scored by their place, and a row by the rank of its id among those
// that are kept.
func toxicAUC(p *pair) (float64, error) {
	p.answers, p.given = p.answers.SortedBy(p.id), p.given.SortedBy(p.id)
	keep := map[string]bool{}
	var rows []int
	sums, err := rowSums(p.answers, p.classes())
	if err != nil {
		return 0, err
	}
	for row, sum := range sums {
		if keep[p.answers.Column(p.id).Key(row)] = sum >= 0; sum >= 0 {
			rows = append(rows, row)
		}
	}
	answers := p.answers.Take(rows)
	rows = nil
	for row := range p.given.Rows() {
		kept, known := keep[p.given.Column(p.id).Key(row)]
		if !known {
			return 0, exitcode.Dataf("column %q: id %s is not asked for", p.id, frame.Shortened(p.given.Column(p.id).String(row)))
		}
		if kept {
			rows = append(rows, row)
		}
	}
	given := p.given.Take(rows)
	scores := slices.DeleteFunc(slices.Clone(given.Columns), func(c *frame.Column) bool { return c.Name == p.id })
	if len(scores) != len(p.classes()) || given.Rows() != answers.Rows() {
		return 0, exitcode.Dataf("there are %d columns and %d rows that count, where %d and %d are asked for", len(scores), given.Rows(), len(p.classes()), answers.Rows())
	}
	truths := slices.DeleteFunc(slices.Clone(answers.Columns), func(c *frame.Column) bool { return c.Name == p.id })
	var sum float64
	for i, truth := range truths {
		values, err := finiteOf(scores[i])
		if err != nil {
			return 0, err
		}
		score, err := metric.AUC(truth.Numbers, values)
		if err != nil {
			return 0, err
		}
		sum += score
	}
	return sum / float64(len(truths)), nil
}

// weightedAUC is the area right of the ROC curve, where that between the true
// positive rates 0 and 0.4 weighs 2 and the rest 1, over 1.4.
func weightedAUC(p *pair) (float64, error) {
	labels, scores, err := p.both("Label", "Label", finiteOf)
	if err != nil {
		return 0, err
	}
	if _, err := metric.AUC(labels, scores); err != nil {
		return 0, err
	}
	const bend = 0.4
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var positives float64
	for _, label := range labels {
		positives += label
	}
	negatives := float64(len(labels)) - positives
	var x, y, area float64 // the rates so far
	for from := 0; from < len(order); {
		to, hits, misses := from, 0.0, 0.0
		for ; to < len(order) && scores[order[to]] == scores[order[from]]; to++ {
			hits += labels[order[to]]
			misses += 1 - labels[order[to]]
		}
		x2, y2 := x+misses/negatives, y+hits/positives
		if y < bend && y2 > bend {
			middle := x + (x2-x)*(bend-y)/(y2-y)
			area += 2*(bend-y)*(1-(x+middle)/2) + (y2-bend)*(1-(middle+x2)/2)
		} else {
			weight := 1.0
			if y2 <= bend {
				weight = 2
			}
			area += weight * (y2 - y) * (1 - (x+x2)/2)
		}
		x, y, from = x2, y2, to
	}
	return area / (2*bend + 1 - bend), nil
}

// identities are the groups whose mention must not sway a toxicity.
var identities = []string{"male", "female", "homosexual_gay_or_lesbian", "christian", "jewish", "muslim", "black", "white", "psychiatric_or_mental_illness"}

// biasAUC weighs the AUC of all comments with three power means over the identities:
// of comments that mention one, of those and the toxic others, of those and the
// harmless others. All values are cut to 0 and 1 at 0.5 first.
func biasAUC(p *pair) (float64, error) {
	given := p.given.Column("prediction")
	if other := p.given.Column("toxicity"); given == nil {
		given = other
	} else if other != nil {
		return 0, exitcode.Dataf("there are columns %q and %q; one of them is asked for", "prediction", "toxicity")
	}
	if given == nil || !given.Numeric() {
		return 0, exitcode.Dataf("column %q is missing, or not of numbers", "prediction")
	}
	cut := func(c *frame.Column) []float64 {
		values := make([]float64, c.Len())
		for row, v := range c.Numbers {
			if v >= 0.5 {
				values[row] = 1
			}
		}
		return values
	}
	toxic, predicted := cut(p.answers.Column("toxicity")), cut(given)
	score, err := metric.AUC(toxic, predicted)
	if err != nil {
		return 0, err
	}
	const power = -5
	var sums [3]float64
	for _, identity := range identities {
		mentioned := cut(p.answers.Column(identity))
		for part, counts := range []func(row int) bool{
			func(row int) bool { return mentioned[row] == 1 },
			func(row int) bool { return mentioned[row] != toxic[row] },
			func(row int) bool { return mentioned[row] == toxic[row] },
		} {
			var truth, scores []float64
			for row := range toxic {
				if counts(row) {
					truth, scores = append(truth, toxic[row]), append(scores, predicted[row])
				}
			}
			auc, err := metric.AUC(truth, scores)
			if err != nil {
				return 0, err
			}
			sums[part] += math.Pow(auc, power)
		}
	}
	for _, sum := range sums {
		score += math.Pow(sum/float64(len(identities)), 1.0/power)
	}
	return score / 4, nil
}

// epsilon is that of float64, by which scikit-learn clips probabilities.
const epsilon = 0x1p-52

// logLoss is the mean negative log-likelihood of 0 and 1.
func logLoss(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		truth, given, err := p.both(target, target, finiteOf)
		if err != nil {
			return 0, err
		}
		return metric.LogLoss(truth, given)
	}
}

// classLogLoss is the mean negative log-likelihood over classes; rows are not
// divided by their sums.
func classLogLoss(p *pair) (float64, error) {
	losses := make([]float64, p.answers.Rows())
	for _, name := range p.classes() {
		truth, given, err := p.both(name, name, finiteOf)
		if err != nil {
			return 0, err
		}
		for row, label := range truth {
			losses[row] -= label * math.Log(min(max(given[row], epsilon), 1-epsilon))
		}
	}
	return mean(losses), nil
}

// fractureLoss is the mean over studies of their weighted log losses: the patient's
// weighs 7 and a vertebra's 1, and twice that where there is a fracture.
func fractureLoss(p *pair) (float64, error) {
	const clip = 1e-15
	truth, given, err := p.both("fractured", "fractured", finiteOf)
	if err != nil {
		return 0, err
	}
	type sums struct{ loss, weight float64 }
	studies, order := map[string]*sums{}, []string{}
	ids := wordsOf(p.answers.Column(p.id))
	for row, id := range ids {
		study, kind, _ := strings.Cut(id, "_")
		s := studies[study]
		if s == nil {
			s = &sums{}
			studies[study], order = s, append(order, study)
		}
		weight := 1.0
		if kind == "patient_overall" {
			weight = 7
		}
		q := min(max(given[row], clip), 1-clip)
		loss := -math.Log(1 - q)
		if truth[row] == 1 {
			weight *= 2
			loss = -math.Log(q)
		}
		s.loss += weight * loss
		s.weight += weight
	}
	return meanOfRows(len(order), func(i int) (float64, error) {
		s := studies[order[i]]
		return s.loss / s.weight, nil
	})
}

// probabilisticF1 is the F1 with sums of probabilities in the place of counts.
func probabilisticF1(p *pair) (float64, error) {
	truth, err := finiteOf(p.answers.Column("cancer"))
	if err != nil {
		return 0, err
	}
	c := p.given.Column("cancer")
	if !c.Numeric() {
		return 0, exitcode.Dataf("column %q is not of numbers: %s", c.Name, frame.Shortened(firstWord(c)))
	}
	var hits, misses, positives float64
	allNegative := true
	for row, v := range c.Numbers {
		if math.IsNaN(v) {
			return 0, nil
		}
		allNegative = allNegative && v < 0
		v = min(max(v, 0), 1)
		if truth[row] != 0 {
			positives++
			hits += v
		} else {
			misses += v
		}
	}
	// Of negative predictions alone the sums are Python's zeros, which do not divide.
	if allNegative || positives == 0 {
		return 0, exitcode.Dataf("column %q: the score is not defined where every prediction is negative", c.Name)
	}
	precision, recall := hits/(hits+misses), hits/positives
	if !(precision > 0 && recall > 0) {
		return 0, nil
	}
	return 2 * precision * recall / (precision + recall), nil
}

// rankingPrecision is the label-ranking average precision, where every true label
// weighs the same: the share of true labels among those that are scored as high.
func rankingPrecision(p *pair) (float64, error) {
	var truths, scores [][]float64
	for _, name := range p.classes() {
		truth, given, err := p.both(name, name, finiteOf)
		if err != nil {
			return 0, err
		}
		truths, scores = append(truths, truth), append(scores, given)
	}
	var sum, labels float64
	for row := range p.answers.Rows() {
		var of float64
		for c := range truths {
			if truths[c][row] > 0 {
				of++
			}
		}
		labels += of
		if int(of) == len(truths) {
			sum += of
			continue
		}
		for c := range truths {
			if truths[c][row] <= 0 {
				continue
			}
			var right, all float64
			for other := range truths {
				if scores[other][row] >= scores[c][row] {
					all++
					if truths[other][row] > 0 {
						right++
					}
				}
			}
			sum += right / all
		}
	}
	if labels == 0 {
		return 0, exitcode.Dataf("no answer has a label")
	}
	return sum / labels, nil
}

// correlation is that of values, or of their ranks; NaN where one side is constant
// or a value is missing.
func correlation(a, g []float64) float64 { return stat.Correlation(a, g, nil) }

// rankCorrelations is the mean correlation of ranks over the columns.
func rankCorrelations(p *pair) (float64, error) {
	return meanOfColumns(p.classes(), func(name string) (float64, error) {
		truth, given, err := p.both(name, name, numbersOf)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(given, math.IsNaN) {
			return math.NaN(), nil
		}
		return correlation(metric.MidRanks(truth), metric.MidRanks(given)), nil
	})
}

// linearCorrelation is that of a column.
func linearCorrelation(target string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		truth, given, err := p.both(target, target, numbersOf)
		if err != nil {
			return 0, err
		}
		return correlation(truth, given), nil
	}
}
