package measure

import (
	"context"
	"errors"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// environments are, by environment and iteration, the prompts of the plan, and of its
// responses the share of right ones and that of segments with a gradient, in percent,
// and the mean of what the environment gives.
func environments(ctx context.Context, r *Rows) ([]Value, error) {
	plans, err := r.plans(ctx)
	if err != nil {
		return nil, err
	}
	type part struct {
		environment string
		iteration   int
	}
	of, counts, prompts := map[string]string{}, map[part]float64{}, grouped{}
	for _, p := range plans {
		of[p.InstanceID] = p.Env
		counts[part{p.Env, int(p.Iteration)}]++
	}
	for at, n := range counts {
		prompts.add(at.environment, at.iteration, n)
	}
	traces, err := r.training(ctx)
	if err != nil {
		return nil, err
	}
	right, reward, trained := grouped{}, grouped{}, grouped{}
	for _, t := range traces {
		right.add(t.instance.Env, int(t.instance.Iteration), 100*oneIf(t.Outcome == string(shard.OutcomeOK)))
		reward.add(t.instance.Env, int(t.instance.Iteration), t.Reward)
	}
	for k := 1; k <= r.Last(); k++ {
		for row, err := range shard.Rows[shard.LedgerRow](ctx, r.Dir.Ledger(k), r.Graph.Reading(0)) {
			if errors.Is(err, seal.ErrNotSealed) {
				break // pruned, or never closed
			}
			if err != nil {
				return nil, err
			}
			if name, known := of[row.InstanceID]; known {
				trained.add(name, int(row.IterationSampled), 100*oneIf(row.Fate == string(shard.FateTrained)))
			}
		}
	}
	var values []Value
	for _, g := range []struct {
		grouped
		column string
	}{{prompts, "prompts"}, {right, "ok"}, {reward, "reward"}, {trained, "trained"}} {
		values = append(values, g.values("environment", g.column)...)
	}
	return values, nil
}
