package buffer

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// readState reads what the curriculum knew before this iteration.
func (f *fold) readState() error {
	f.state = curriculum.State{Iteration: f.in.Iteration - 1}
	if f.in.State != "" {
		entries, cited, err := stage.ReadTable[shard.Entry](f.ctx, f.Job, f.in.State)
		if err != nil {
			return err
		}
		f.state.Entries, f.cited = entries, append(f.cited, cited)
	}
	if f.in.Stats != "" {
		stats, cited, err := stage.ReadTable[shard.Stat](f.ctx, f.Job, f.in.Stats)
		if err != nil {
			return err
		}
		f.state.Stats, f.cited = stats, append(f.cited, cited)
	}
	return nil
}

// lost adds ledger rows for the responses that no iteration will ever see.
func (f *fold) lost() {
	for _, ended := range []struct {
		shards []ShardRef
		reason string
	}{{f.in.LeftOut, "left_out"}, {f.in.RunEnded, "run_ended"}} {
		for _, ref := range ended.shards {
			f.ledger = append(f.ledger, f.lostRows(ref, ended.reason)...)
		}
	}
}

// lostRows lists the responses that a shard would have held.
func (f *fold) lostRows(ref ShardRef, reason string) []shard.LedgerRow {
	var rows []shard.LedgerRow
	instances := f.plans[ref.Iteration]
	for _, instance := range instances[min(ref.FirstRow, len(instances)):min(ref.LastRow, len(instances))] {
		for sample := range f.Recipe.Rollout.Group {
			rows = append(rows, shard.LedgerRow{
				InstanceID: instance.InstanceID, GroupID: instance.GroupID, Sample: int32(sample),
				IterationSampled: int32(ref.Iteration), Iteration: int32(f.in.Iteration),
				Fate: string(shard.FateDropped), Reason: reason,
			})
		}
	}
	return rows
}

// next folds the groups into the curriculum and writes the state and plans.
func (f *fold) next() error {
	state := f.state
	if f.in.Iteration > 0 {
		var err error
		if state, err = f.chooser.Update(state, f.in.Iteration, f.curriculumGroups()); err != nil {
			return fmt.Errorf("updating curriculum %q: %w", f.chooser.Name(), err)
		}
	}
	m := f.manifest()
	m.Metrics = map[string]float64{"curriculum_instances": float64(len(state.Entries))}
	if _, err := shard.Write(f.in.StateOutput, state.Entries, nil, f.Attempt, m); err != nil {
		return err
	}
	if _, err := shard.Write(f.in.StatsOutput, state.Stats, nil, f.Attempt, f.manifest()); err != nil {
		return err
	}
	if len(f.in.PlanOutputs) == 0 { // the last iteration
		return nil
	}
	tasks, err := env.TrainingTasks(f.world, "curriculum.kinds", f.Recipe.Curriculum.Kinds)
	if err != nil {
		return err
	}
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	for _, plan := range f.in.PlanOutputs {
		rows, cited, err := f.plan(state, plan.Iteration, ids)
		if err != nil {
			return err
		}
		m := f.manifest()
		m.Inputs = append(m.Inputs, cited...)
		if _, err := shard.Write(plan.Path, rows, nil, f.Attempt, m); err != nil {
			return err
		}
	}
	return nil
}

// plan asks the curriculum for an iteration's instances and the environment
// for their prompts. It cites the rollouts that these go on from.
func (f *fold) plan(state curriculum.State, iteration int, taskIDs []string) ([]shard.Instance, []seal.Input, error) {
	selections, err := f.chooser.Next(state, iteration, f.in.PlanRows, taskIDs)
	if err != nil {
		return nil, nil, fmt.Errorf("selecting instances of iteration %d: %w", iteration, err)
	}
	histories, cited, err := f.histories(selections)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]shard.Instance, len(selections))
	for i, selected := range selections {
		task, ok := f.world.Task(selected.TaskID)
		if !ok {
			return nil, nil, exitcode.Bugf("curriculum %q selected task %q, which environment %q does not have",
				f.chooser.Name(), selected.TaskID, f.world.Name())
		}
		messages, err := f.world.Prompt(task, selected.Kind, env.Parent{Messages: histories[selected.Ref]})
		if err != nil {
			return nil, nil, fmt.Errorf("prompt of task %q: %w", task.ID, err)
		}
		id := InstanceID(iteration, i)
		rows[i] = shard.Instance{
			InstanceID: id, GroupID: id, TaskID: task.ID, Env: f.world.Name(), Kind: string(selected.Kind),
			ParentID: selected.ParentID, Depth: int32(selected.Depth), Turn: int32(selected.Turn), Messages: messages,
			BaseScore: selected.BaseScore, Potential: selected.Potential, Origin: string(selected.Origin),
			Probability: selected.Probability, SelectedBy: selected.SelectedBy,
			Seed: int64(f.Recipe.Seed), Iteration: int32(iteration),
		}
	}
	return rows, cited, nil
}

// curriculumGroups shows the curriculum what was sampled.
func (f *fold) curriculumGroups() []curriculum.Group {
	rows := map[string]int{} // of the plans, by instance
	for _, plan := range f.plans {
		for row, instance := range plan {
			rows[instance.InstanceID] = row
		}
	}
	groups := make([]curriculum.Group, len(f.groups))
	for i, g := range f.groups {
		groups[i] = curriculum.Group{Instance: g.Instance, Responses: make([]curriculum.Response, len(g.Traces))}
		for j, t := range g.Traces {
			r := lastAttempt(t)
			r.Reward = g.reward(j)
			r.Ref.Iteration, r.Ref.Row = int32(g.iteration), int32(rows[g.Instance.InstanceID])
			groups[i].Responses[j] = r
		}
	}
	return groups
}

// lastAttempt is what the curriculum sees of a trace: its last attempt, contexts
// one after the other.
func lastAttempt(t credit.Trace) curriculum.Response {
	last := t.Rows[len(t.Rows)-1]
	r := curriculum.Response{
		Sample: int(last.Sample), Ref: shard.Ref{Sample: last.Sample, Step: last.Step, Wave: last.Wave}, Score: t.Score,
	}
	for _, row := range t.Rows {
		if row.Step != last.Step {
			continue
		}
		if r.Messages == nil {
			r.PromptMessages = int(row.PromptMessages)
		}
		r.Messages = append(r.Messages, row.Messages...)
		r.Turns += int(row.Turns)
	}
	r.Ref.Messages = int32(len(r.Messages))
	return r
}
