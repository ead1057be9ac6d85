package measure

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// fewTasks is how many tasks of training go by their own names.
const fewTasks = 12

// taskNames are what tasks of training go by: themselves where they are few, else their
// kinds.
func (r *Rows) taskNames(ctx context.Context) (func(task string) string, error) {
	rows, err := r.taskRows(ctx)
	kinds := map[string]string{}
	for _, row := range rows {
		if row.Split == string(env.Train) {
			kinds[row.TaskID] = row.Kind
		}
	}
	return func(task string) string {
		if len(kinds) <= fewTasks {
			return task
		}
		return kinds[task]
	}, err
}

// firstAnswers is the mean reward of first answers in training by iteration and by task or
// kind.
func firstAnswers(ctx context.Context, r *Rows) ([]Value, error) {
	name, err := r.taskNames(ctx)
	if err != nil {
		return nil, err
	}
	traces, err := r.training(ctx)
	if err != nil {
		return nil, err
	}
	rewards := grouped{}
	for _, t := range traces {
		if t.instance.Kind == string(shard.KindInitial) {
			rewards.add(name(t.instance.TaskID), int(t.instance.Iteration), t.Reward)
		}
	}
	if len(rewards) == 0 {
		return nil, Absent("no first answer was sampled")
	}
	return rewards.values("task", "reward"), nil
}

// kinds are, by kind of instance and iteration, the share of valid responses in percent, the
// mean of what the environment gives, and that of the rewards that the recipe makes of it, by
// the ledgers.
func kinds(ctx context.Context, r *Rows) ([]Value, error) {
	traces, err := r.training(ctx)
	if err != nil {
		return nil, err
	}
	valid, reward := grouped{}, grouped{}
	for _, t := range traces {
		valid.add(t.instance.Kind, int(t.instance.Iteration), 100*oneIf(t.Outcome == string(shard.OutcomeOK)))
		reward.add(t.instance.Kind, int(t.instance.Iteration), t.Reward)
	}
	if len(valid) == 0 {
		return nil, Absent("no response was sampled that counts")
	}
	learned, err := r.learnedRewards(ctx)
	return slices.Concat(valid.values("kind", "ok"), reward.values("kind", "reward"), learned.values("kind", "learned_reward")), err
}

// unscored are the reasons of segments that have no reward of the policy's.
var unscored = []string{string(shard.OutcomeInfra), "late", "left_out", "run_ended"}

// learnedRewards are those of the ledgers by kind of instance and by the iteration whose plan
// they belong to; none of ledgers before they held rewards, where all are 0.
func (r *Rows) learnedRewards(ctx context.Context) (grouped, error) {
	plans, err := r.plans(ctx)
	if err != nil {
		return nil, err
	}
	kind := map[string]string{}
	for _, p := range plans {
		kind[p.InstanceID] = p.Kind
	}
	rewards, some := grouped{}, false
	for k := 1; k <= r.Last(); k++ {
		for row, err := range shard.Rows[shard.LedgerRow](ctx, r.Dir.Ledger(k), r.Graph.Reading(0)) {
			if errors.Is(err, seal.ErrNotSealed) {
				break // pruned, or never closed
			}
			if err != nil {
				return nil, err
			}
			some = some || row.Reward != 0
			if of, known := kind[row.InstanceID]; known && !slices.Contains(unscored, row.Reason) {
				rewards.add(of, int(row.IterationSampled), row.Reward)
			}
		}
	}
	if !some {
		return grouped{}, nil
	}
	return rewards, nil
}

// sampledTraces counts the traces that were sampled in training.
func sampledTraces(ctx context.Context, r *Rows) ([]Value, error) {
	traces, err := r.training(ctx)
	return []Value{{Column: "traces", Y: float64(len(traces))}}, err
}

// recency is of the instances that start from an earlier response: the iterations since
// that was planned, and the depth that it has.
func recency(plans []shard.Instance) []Value {
	planned := map[string]int32{}
	for _, p := range plans {
		planned[p.InstanceID] = p.Iteration
	}
	since, depth := series{}, series{}
	for _, p := range plans {
		parent, _, _ := strings.Cut(p.ParentID, "/") // entries are named by the instance whose response they start from
		if was, known := planned[parent]; known && revises(p) {
			since.add(int(p.Iteration), float64(p.Iteration-was))
			depth.add(int(p.Iteration), float64(p.Depth))
		}
	}
	return append(since.values("", "", "recency"), depth.values("", "", "starting_depth")...)
}

// sampledInstances are means over the instances of an iteration: the depth, which is the
// self-iterations before; the start turn, which is the policy's messages in the history;
// the level of their tasks; the steps of the tasks' ground truth; and, of those that start from an earlier response, the
// iterations since that one and its depth.
func sampledInstances(ctx context.Context, r *Rows) ([]Value, error) {
	plans, err := r.plans(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := r.taskRows(ctx)
	if err != nil {
		return nil, err
	}
	count, err := r.Recipe.SolutionSteps()
	if err != nil {
		return nil, err
	}
	levels, leveled, steps := map[string]int32{}, false, map[string]int{}
	for _, t := range tasks {
		levels[t.TaskID] = t.Level
		leveled = leveled || t.Level > 0
		if count != nil {
			steps[t.TaskID] = count(t.Answer)
		}
	}
	depth, turn, level, solution := series{}, series{}, series{}, series{}
	for _, p := range plans {
		depth.add(int(p.Iteration), float64(p.Depth))
		turn.add(int(p.Iteration), float64(p.Turn))
		if leveled {
			level.add(int(p.Iteration), float64(levels[p.TaskID]))
		}
		if n := steps[p.TaskID]; n > 0 {
			solution.add(int(p.Iteration), float64(n))
		}
	}
	return slices.Concat(depth.values("", "", "depth"), turn.values("", "", "start_turn"), level.values("", "", "level"), solution.values("", "", "solution_steps"), recency(plans)), nil
}

// distinctInstances are those of the whole training: distinct last messages of prompts.
func distinctInstances(ctx context.Context, r *Rows) ([]Value, error) {
	prompts, err := r.Prompts(ctx)
	if err != nil {
		return nil, err
	}
	plans, err := r.plans(ctx)
	if err != nil {
		return nil, err
	}
	if len(prompts) == 0 {
		return nil, Absent("no instance was sampled")
	}
	rows, err := r.taskRows(ctx)
	var train float64
	for _, row := range rows {
		train += oneIf(row.Split == string(env.Train))
	}
	n := float64(len(prompts))
	return []Value{
		{Column: "distinct_instances", Y: n}, {Column: "relative_to_training_set", Y: n / train}, {Column: "share_of_sampled", Y: n / float64(len(plans))},
	}, err
}
