package flipts

import (
	"slices"

	"gonum.org/v1/gonum/stat"

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

// inclusion is the probability that the draw of a question is among the n of the pool
// that are nearest to the target.
func (f *FlipTS) inclusion(b belief, n int, question string) float64 {
	var others []curriculum.Beta
	for _, c := range b.pool {
		if c.question != question {
			others = append(others, b.of(c.question).shared())
		}
	}
	return curriculum.AmongNearest(n, f.spec.Target, b.of(question).shared(), others)
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
