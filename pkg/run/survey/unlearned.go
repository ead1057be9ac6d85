package survey

import (
	"context"
	"errors"
	"slices"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// SamplersOfUnlearned lists the nodes that made the policy versions whose responses are
// still to be learned from, those of shards that are late or wait in a later batch too: by
// what a survey found. A learner on another engine than the sampler's computes their
// log-probabilities again, whichever of them the iteration before made.
func (v *Inventory) SamplersOfUnlearned(ctx context.Context, found Result) (map[graph.Node]bool, error) {
	nodes, last := map[graph.Node]bool{}, v.Recipe.Schedule.Iterations
	first := 1
	for ; first <= last; first++ {
		if count, looked := found.Counts[v.LastLearn(first)]; looked && count.Sealed < count.Total {
			break
		}
	}
	if first > last {
		return nodes, nil
	}
	iterations, err := v.carriedInto(ctx, first)
	if err != nil {
		return nil, err
	}
	for k := first; k <= last; k++ {
		iterations = append(iterations, k)
	}
	for _, k := range iterations {
		nodes[v.LastLearn(v.RolloutVersion(k))] = true
	}
	return nodes, nil
}

// carriedInto lists the iterations before one that it or a later one may still take
// responses of; all of them where that cannot be read.
func (v *Inventory) carriedInto(ctx context.Context, k int) ([]int, error) {
	var iterations []int
	all := func() []int {
		for i := 1; i < k; i++ {
			iterations = append(iterations, i)
		}
		return iterations
	}
	if v.Carries() {
		closed, err := v.Closed(ctx, k)
		if err != nil {
			return nil, err
		}
		if closed < k-1 {
			return all(), nil
		}
		for _, ref := range v.outstandingBefore(k) {
			iterations = append(iterations, ref.Iteration)
		}
	}
	if v.Waits(k - 1) {
		waiting, _, err := shard.Read[shard.Waiting](ctx, v.Dir.Waiting(k-1), v.Reading(0))
		switch {
		case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
			return all(), nil
		case err != nil:
			return nil, err
		}
		for _, row := range waiting {
			iterations = append(iterations, int(row.IterationSampled))
		}
	}
	slices.Sort(iterations)
	return slices.Compact(iterations), nil
}
