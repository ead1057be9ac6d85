package curriculum

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Update folds the finished groups of an iteration, in plan order, into a new state
// of a curriculum. The order in which the responses of a group arrived does not
// matter: the curriculum sees them by sample.
func Update(c Curriculum, state State, iteration int, groups []Group, taskIDs []string) (State, error) {
	if iteration <= state.Iteration {
		return State{}, exitcode.Bugf("updating curriculum %q: iteration %d is already in the state of iteration %d", c.Name(), iteration, state.Iteration)
	}
	groups, err := canonical(groups)
	if err == nil {
		state, err = c.Update(state, iteration, groups, taskIDs)
	}
	if err != nil {
		return State{}, fmt.Errorf("updating curriculum %q for iteration %d: %w", c.Name(), iteration, err)
	}
	return state, nil
}

// canonical checks the groups and puts the responses of each in the order of their
// samples.
func canonical(groups []Group) ([]Group, error) {
	seen := make(map[string]bool, len(groups))
	ordered := slices.Clone(groups)
	for i := range ordered {
		g := &ordered[i]
		if seen[g.Instance.InstanceID] {
			return nil, exitcode.Bugf("instance %q has two groups", g.Instance.InstanceID)
		}
		seen[g.Instance.InstanceID] = true
		g.Responses = slices.Clone(g.Responses)
		slices.SortStableFunc(g.Responses, func(a, b Response) int { return a.Sample - b.Sample })
		for _, r := range g.Responses {
			// Written so that NaN fails.
			if r.Valid() && !(r.Quality() >= 0 && r.Quality() <= 1) {
				return nil, exitcode.Dataf("instance %q, sample %d: quality %v, want 0 to 1", g.Instance.InstanceID, r.Sample, r.Quality())
			}
			if r.Valid() && (math.IsNaN(r.Reward) || math.IsInf(r.Reward, 0)) {
				return nil, exitcode.Dataf("instance %q, sample %d: reward %v, want a finite number", g.Instance.InstanceID, r.Sample, r.Reward)
			}
		}
	}
	return ordered, nil
}

// Next selects n instances for an iteration's plan, by a curriculum and its state.
func Next(c Curriculum, state State, iteration, n int, taskIDs []string) ([]Selection, error) {
	var err error
	switch {
	case iteration < 1:
		err = exitcode.Bugf("iteration %d, want 1 or more", iteration)
	case n < 0:
		err = exitcode.Bugf("%d prompts, want 0 or more", n)
	case len(taskIDs) == 0:
		err = exitcode.Dataf("there are no training tasks")
	default:
		var selections []Selection
		if selections, err = c.Next(state, iteration, n, taskIDs); err == nil {
			return selections, nil
		}
	}
	return nil, fmt.Errorf("selecting instances of iteration %d by curriculum %q: %w", iteration, c.Name(), err)
}

// Cumulated are the sums of weights up to each, to draw from them.
type Cumulated []float64

// Cumulate sums weights of 0 or more.
func Cumulate(weights []float64) Cumulated {
	c, total := make(Cumulated, len(weights)), 0.0
	for i, w := range weights {
		total += w
		c[i] = total
	}
	return c
}

// Draw returns an index, each with its share of the weights, by a number in [0, 1).
// It never returns one of weight 0.
func (c Cumulated) Draw(u float64) int {
	total := c[len(c)-1]
	u = min(u*total, math.Nextafter(total, 0))
	return sort.Search(len(c), func(i int) bool { return c[i] > u })
}

// MeanVariance returns the mean and the population variance of values; both are NaN
// for none. The variance of equal values need not be exactly 0.
func MeanVariance(values []float64) (mean, variance float64) {
	n := float64(len(values))
	var sum, squares float64
	for _, x := range values {
		sum += x
	}
	mean = sum / n
	for _, x := range values {
		off := x - mean
		squares += off * off
	}
	return mean, squares / n
}
