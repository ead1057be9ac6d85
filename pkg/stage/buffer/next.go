package buffer

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

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
	m.Metrics = map[string]float64{"curriculum_instances": float64(len(state.Instances))}
	if _, err := shard.Write(f.in.StateOutput, state.Instances, nil, f.Attempt, m); err != nil {
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
		rows, err := f.plan(state, plan.Iteration, ids)
		if err != nil {
			return err
		}
		if _, err := shard.Write(plan.Path, rows, nil, f.Attempt, f.manifest()); err != nil {
			return err
		}
	}
	return nil
}

// plan asks the curriculum for an iteration's instances and the environment
// for their prompts.
func (f *fold) plan(state curriculum.State, iteration int, taskIDs []string) ([]shard.Instance, error) {
	selections, err := f.chooser.Next(state, iteration, f.in.PlanRows, taskIDs)
	if err != nil {
		return nil, fmt.Errorf("selecting instances of iteration %d: %w", iteration, err)
	}
	rows := make([]shard.Instance, len(selections))
	for i, selected := range selections {
		task, ok := f.world.Task(selected.TaskID)
		if !ok {
			return nil, exitcode.Bugf("curriculum %q selected task %q, which environment %q does not have",
				f.chooser.Name(), selected.TaskID, f.world.Name())
		}
		messages, err := f.world.Prompt(task, selected.Kind, env.Parent{Messages: selected.History})
		if err != nil {
			return nil, fmt.Errorf("prompt of task %q: %w", task.ID, err)
		}
		id := fmt.Sprintf("i%06d-%06d", iteration, i)
		rows[i] = shard.Instance{
			InstanceID: id, GroupID: id, TaskID: task.ID, Env: f.world.Name(), Kind: string(selected.Kind),
			ParentID: selected.ParentID, Depth: int32(selected.Depth), Turn: int32(selected.Turn), Messages: messages,
			BaseScore: selected.BaseScore, Potential: selected.Potential, Origin: string(selected.Origin),
			Seed: int64(f.Recipe.Seed), Iteration: int32(iteration),
		}
	}
	return rows, nil
}

// curriculumGroups shows the curriculum what was sampled.
func (f *fold) curriculumGroups() []curriculum.Group {
	groups := make([]curriculum.Group, len(f.groups))
	for i, g := range f.groups {
		groups[i] = curriculum.Group{Instance: g.Instance, Responses: make([]curriculum.Response, len(g.Traces))}
		for j, t := range g.Traces {
			groups[i].Responses[j] = curriculum.Response{
				Sample: int(t.Score.Sample), Valid: t.Valid(), Quality: t.Score.NormalizedScore, Conversation: lastAttempt(t), Turns: t.Turns(),
			}
		}
	}
	return groups
}

// lastAttempt is the conversation of a trace's last attempt, contexts one after
// the other.
func lastAttempt(t credit.Trace) []shard.Message {
	last := t.Rows[len(t.Rows)-1]
	if first := len(t.Rows) - 1; first == 0 || t.Rows[first-1].Step != last.Step {
		return last.Messages
	}
	var messages []shard.Message
	for _, row := range t.Rows {
		if row.Step == last.Step {
			messages = append(messages, row.Messages...)
		}
	}
	return messages
}
