package flipts

import (
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Explain gives the belief about a selected question, its draw, and the
// probability with which it was to be among the n nearest to the target.
func (f *FlipTS) Explain(state curriculum.State, iteration, n int, selected curriculum.Selection) ([]curriculum.Term, error) {
	b, err := read(state.Stats)
	if err != nil {
		return nil, err
	}
	if len(b.pool) == 0 {
		return []curriculum.Term{{Name: "probability", Value: selected.Probability}}, nil
	}
	draws := f.draws(b, iteration)
	rank := slices.IndexFunc(draws, func(d drawn) bool { return d.question == selected.TaskID })
	if rank < 0 {
		return nil, exitcode.Dataf("task %q is not in the pool that it was selected from", selected.TaskID)
	}
	own := b.of(selected.TaskID)
	return []curriculum.Term{
		{Name: "pool", Value: float64(len(b.pool))},
		{Name: "α", Value: own.alpha},
		{Name: "β", Value: own.beta},
		{Name: "mean", Value: own.mean()},
		{Name: "ξ_target", Value: f.spec.Target},
		{Name: "ξ̃", Value: draws[rank].xi},
		{Name: "rank", Value: float64(rank + 1)},
		{Name: "probability", Value: f.inclusion(b, n, selected.TaskID)},
	}, nil
}

// The parts into which inclusion cuts the distances from the target, up to one
// that is as good as never selected.
const (
	gridPoints = 1000
	never      = 1e-9
)

// inclusion is the probability that the draw of a question is among the n of the
// pool that are nearest to the target: the integral over its distance d of the
// probability that fewer than n of the others are nearer than d. It is exact but
// for the grid.
func (f *FlipTS) inclusion(b belief, n int, question string) float64 {
	var others []kind
	at := map[beta]int{}
	for _, c := range b.pool {
		if c.question == question {
			continue
		}
		q := b.of(c.question)
		i, known := at[q]
		if !known {
			i = len(others)
			at[q], others = i, append(others, kind{beta: q})
		}
		others[i].many++
	}
	selected := func(d float64) float64 { return f.fewer(n, others, d) }
	var low float64
	farthest := 1.0
	for farthest-low > farthest/64 {
		if middle := (low + farthest) / 2; selected(middle) < never {
			farthest = middle
		} else {
			low = middle
		}
	}
	var probability, before float64
	for i := range gridPoints {
		nearer := f.within(b.of(question), farthest*float64(i+1)/gridPoints)
		probability += (nearer - before) * selected(farthest*(float64(i)+0.5)/gridPoints)
		before = nearer
	}
	return probability
}

// kind is a belief, and how many questions have it: most have the prior.
type kind struct {
	beta
	many int
}

// within is the probability that a draw is at most d from the target.
func (f *FlipTS) within(q beta, d float64) float64 {
	switch low, high := f.spec.Target-d, f.spec.Target+d; {
	case q.alpha <= 0 && low <= 0, q.beta <= 0 && high >= 1:
		return 1
	case q.alpha <= 0 || q.beta <= 0:
		return 0
	default:
		x := distuv.Beta{Alpha: q.alpha, Beta: q.beta}
		return x.CDF(high) - x.CDF(low)
	}
}

// fewer is the probability that of some questions fewer than n draw within a
// distance of the target: the distribution of 0 to n-1 of them, one question after
// the other.
func (f *FlipTS) fewer(n int, questions []kind, d float64) float64 {
	distribution := make([]float64, n)
	distribution[0] = 1
	for _, q := range questions {
		p := f.within(q.beta, d)
		for range q.many {
			for k := n - 1; k > 0; k-- {
				distribution[k] += (distribution[k-1] - distribution[k]) * p
			}
			distribution[0] -= distribution[0] * p
		}
	}
	var sum float64
	for _, x := range distribution {
		sum += x
	}
	return sum
}

// Metrics say how the beliefs and the pool stand: mean and its quantiles are of
// the means of the beliefs on the pool's questions.
func (f *FlipTS) Metrics(state curriculum.State) map[string]float64 {
	b, err := read(state.Stats)
	if err != nil || len(b.pool) == 0 {
		return nil
	}
	metrics := map[string]float64{
		"prior_alpha": b.prior.alpha, "prior_beta": b.prior.beta,
		"pool": float64(len(b.pool)), "pool_observed": float64(len(b.pool.observed())), "posteriors": float64(len(b.posterior.all)),
	}
	var means []float64
	for _, c := range b.pool {
		if c.joined == state.Iteration {
			metrics["pool_joined"]++
		}
		means = append(means, b.of(c.question).mean())
	}
	slices.Sort(means)
	metrics["mean"] = stat.Mean(means, nil)
	for name, p := range map[string]float64{"mean_p10": 0.1, "mean_p50": 0.5, "mean_p90": 0.9} {
		metrics[name] = stat.Quantile(p, stat.Empirical, means, nil)
	}
	return metrics
}
