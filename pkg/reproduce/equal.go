package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/measure"
)

// SpentAt says at which iterations the runs of a seed have spent the same.
type SpentAt struct {
	Seed       uint64  `json:"seed"`
	Spent      float64 `json:"spent"`      // all that the run spends that spends less
	Iterations [2]int  `json:"iterations"` // of the method and of the other, the last by which it has spent no more
}

// curve takes a measure after each iteration.
func (r *Run) curve(ctx context.Context, rows *measure.Rows, m Measure) error {
	points, happened, err := rows.Curve(ctx, m.Metric, m.AtEqual, m.OverLast)
	switch {
	case errors.Is(err, measure.ErrUnmeasured):
		r.Lacking[m.key()] = err.Error()
		return nil
	case err != nil:
		return err
	case !happened:
		r.Never = append(r.Never, m.key())
	}
	if r.Curves == nil {
		r.Curves = map[string][]measure.Point{}
	}
	r.Curves[m.key()] = points
	return nil
}

// validateEqual checks the settings of a measure at an equal cost.
func (m Measure) validateEqual(check *config.Checker, at string) {
	if m.AtEqual == "" {
		if m.OverLast != 0 {
			check.Add(at+".over_last", m.OverLast, "counts iterations of at_equal, which is empty")
		}
		return
	}
	if err := measure.CheckCurve(m.Metric, m.AtEqual); err != nil {
		check.Add(at+".at_equal", m.AtEqual, "is not valid: %v", err)
	}
	if m.Iterations != "" {
		check.Add(at+".iterations", m.Iterations, "must be empty with at_equal: over_last says over how many iterations the measure is taken")
	}
	check.AtLeast(at+".over_last", m.OverLast, 1)
}

// numbers are what a claim compares of the runs of a seed.
type numbers struct {
	value, base float64
	lacking     string   // why there is nothing to compare, after the method that lacks it; empty where there is
	happened    bool     // one of both runs has something of the measure's name
	at          *SpentAt // of a measure at an equal cost
}

// numbers are those of a run and of the one that it is compared with, which is none where the
// claim compares with 0.
func (c Claim) numbers(r, other Run) (n numbers) {
	key := c.key()
	methods, runs := []string{c.Method}, []Run{r}
	if c.Against != "" {
		methods, runs = append(methods, c.Against), append(runs, other)
	}
	var values [2]float64
	for i, run := range runs {
		value, has := run.Measures[key]
		if c.AtEqual != "" {
			has = run.Curves[key] != nil
		}
		if !has {
			n.lacking = fmt.Sprintf("%s: %s", methods[i], cmp.Or(run.Lacking[key], "it was not asked for "+key))
			return n
		}
		values[i] = value
		n.happened = n.happened || !slices.Contains(run.Never, key)
	}
	if c.AtEqual != "" {
		n.at = &SpentAt{Seed: r.Seed, Spent: min(total(r.Curves[key]), total(other.Curves[key]))}
		for i, run := range runs {
			var why string
			if values[i], n.at.Iterations[i], why = valueAt(run.Curves[key], n.at.Spent); why != "" {
				n.lacking = fmt.Sprintf("%s: %s", methods[i], why)
				return n
			}
		}
	}
	n.value, n.base = values[0], values[1]
	return n
}

// total is what a run has spent in all.
func total(points []measure.Point) float64 {
	if len(points) == 0 {
		return 0
	}
	return points[len(points)-1].Spent
}

// valueAt is the value after the last iteration by which a run has spent no more than a
// budget, or why there is none.
func valueAt(points []measure.Point, budget float64) (value float64, iteration int, why string) {
	var at *measure.Point
	for i, p := range points {
		if p.Spent <= budget {
			at = &points[i]
		}
	}
	switch {
	case at == nil:
		return 0, 0, fmt.Sprintf("its first iteration spends more than %s, all that the other run has spent", number(budget))
	case at.Value == nil:
		return 0, at.Iteration, fmt.Sprintf("it is not measured after iteration %d, up to which the run has spent %s", at.Iteration, number(at.Spent))
	}
	return *at.Value, at.Iteration, ""
}

// atEqual says where the runs of a claim are compared.
func (o ClaimResult) atEqual() string {
	words := make([]string, len(o.Equal))
	for i, e := range o.Equal {
		words[i] = fmt.Sprintf("seed %d after iterations %d and %d, %s spent", e.Seed, e.Iterations[0], e.Iterations[1], number(e.Spent))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, "; ") + ")"
}
