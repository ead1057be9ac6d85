package measure

import (
	"context"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
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

// kinds are, by kind of instance and iteration, the share of valid responses in percent and
// the mean reward.
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
	return append(valid.values("kind", "ok"), reward.values("kind", "reward")...), nil
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
// the level of their tasks; and, of those that start from an earlier response, the
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
	levels, leveled := map[string]int32{}, false
	for _, t := range tasks {
		levels[t.TaskID] = t.Level
		leveled = leveled || t.Level > 0
	}
	depth, turn, level := series{}, series{}, series{}
	for _, p := range plans {
		depth.add(int(p.Iteration), float64(p.Depth))
		turn.add(int(p.Iteration), float64(p.Turn))
		if leveled {
			level.add(int(p.Iteration), float64(levels[p.TaskID]))
		}
	}
	return slices.Concat(depth.values("", "", "depth"), turn.values("", "", "start_turn"), level.values("", "", "level"), recency(plans)), nil
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
