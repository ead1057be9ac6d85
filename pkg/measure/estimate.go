package measure

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Estimate is a mean over responses to held-out problems.
type Estimate struct {
	Mean          float64
	StandardError *float64 // null with fewer than two problems, or where they do not differ
	Problems      int
	Responses     int
}

// tally gathers values by problem, in the order in which problems come up.
type tally struct {
	order  []string
	values map[string][]float64
	all    []float64
}

func (t *tally) add(problem string, value float64) {
	if t.values == nil {
		t.values = map[string][]float64{}
	}
	if _, seen := t.values[problem]; !seen {
		t.order = append(t.order, problem)
	}
	t.values[problem] = append(t.values[problem], value)
	t.all = append(t.all, value)
}

// rounding is the part of a sum of differences that is none but for the rounding of its terms.
const rounding = 1e-12

// estimate returns the mean m of all N values x_ij and its standard error
// clustered by the P problems,
//
//	SE = sqrt( P/(P-1) · Σ_i (Σ_j (x_ij - m))² ) / N
//
// (Miller, Adding Error Bars to Evals, 2024, section 2.2, with the
// finite-sample factor of Cameron and Miller, A Practitioner's Guide to
// Cluster-Robust Inference, 2015, section II.B). With one value per problem
// it is the usual standard error of a mean. It returns nil without values.
func (t *tally) estimate() *Estimate {
	if len(t.all) == 0 {
		return nil
	}
	e := &Estimate{Mean: stat.Mean(t.all, nil), Problems: len(t.order), Responses: len(t.all)}
	var squares, size float64
	for _, problem := range t.order {
		var deviation float64
		for _, x := range t.values[problem] {
			deviation += x - e.Mean
			size += math.Abs(x)
		}
		squares += deviation * deviation
	}
	// Of one problem, or equal ones, nobody knows how much others might differ.
	if p := float64(e.Problems); math.Sqrt(squares) > rounding*size {
		se := math.Sqrt(p/(p-1)*squares) / float64(e.Responses)
		e.StandardError = &se
	}
	return e
}

// parts are the mean and its error; null without an estimate.
func (e *Estimate) parts() (mean, standardError *float64) {
	if e == nil {
		return nil, nil
	}
	return &e.Mean, e.StandardError
}

// Median is the mean of the two middle values, or the middle one; NaN without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return stat.Mean([]float64{stat.Quantile(0.5, stat.Empirical, sorted, nil), sorted[len(sorted)/2]}, nil)
}
