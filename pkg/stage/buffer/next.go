package buffer

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// readState reads what the curriculum and the reward knew before this iteration.
func (r *reduction) readState() error {
	r.state = curriculum.State{Iteration: r.in.Iteration - 1}
	if r.in.State != "" {
		entries, cited, err := stage.ReadTable[shard.Entry](r.ctx, r.files, r.in.State)
		if err != nil {
			return err
		}
		r.state.Entries, r.cited = entries, append(r.cited, cited)
	}
	if r.in.Stats != "" {
		stats, cited, err := stage.ReadTable[shard.Stat](r.ctx, r.files, r.in.Stats)
		if err != nil {
			return err
		}
		r.cited = append(r.cited, cited)
		for _, stat := range stats {
			if stat.Axis == shard.StatReward {
				r.rewardStats = append(r.rewardStats, stat)
			} else {
				r.state.Stats = append(r.state.Stats, stat)
			}
		}
	}
	return nil
}

// lost adds ledger rows for the responses that no iteration will ever see.
func (r *reduction) lost() {
	for _, ended := range []struct {
		shards []ShardRef
		reason string
	}{{r.in.LeftOut, "left_out"}, {r.in.Late, "late"}, {r.in.RunEnded, "run_ended"}} {
		for _, ref := range ended.shards {
			r.ledger = append(r.ledger, r.lostRows(ref, ended.reason)...)
		}
	}
}

// lostRows lists the responses that a shard would have held.
func (r *reduction) lostRows(ref ShardRef, reason string) []shard.LedgerRow {
	var rows []shard.LedgerRow
	instances := r.plans[ref.Iteration]
	for _, instance := range instances[min(ref.FirstRow, len(instances)):min(ref.LastRow, len(instances))] {
		for sample := range r.recipe.Rollout.Group {
			rows = append(rows, shard.LedgerRow{
				InstanceID: instance.InstanceID, GroupID: instance.GroupID, Sample: int32(sample),
				IterationSampled: int32(ref.Iteration), Iteration: int32(r.in.Iteration),
				Fate: string(shard.FateDropped), Reason: reason,
			})
		}
	}
	return rows
}

// next folds the groups into the curriculum and writes the state and plans.
func (r *reduction) next() error {
	ids, err := r.taskIDs()
	if err != nil {
		return err
	}
	state := r.state
	if r.in.Iteration > 0 {
		if state, err = curriculum.Update(r.chooser, state, r.in.Iteration, r.curriculumGroups(), ids); err != nil {
			return err
		}
		for _, note := range state.Notes {
			r.log("curriculum %s, iteration %d: %s", r.chooser.Name(), r.in.Iteration, note)
		}
	}
	m := r.manifest()
	m.Metrics = map[string]float64{"curriculum_instances": float64(len(state.Entries))}
	if measurer, ok := r.chooser.(curriculum.Measurer); ok {
		for name, value := range measurer.Metrics(state) {
			m.Metrics["curriculum_"+name] = value
		}
	}
	if _, err := shard.Write(r.in.StateOutput, state.Entries, nil, r.attempt, m); err != nil {
		return err
	}
	if _, err := shard.Write(r.in.StatsOutput, slices.Concat(of(shard.StatCurriculum, state.Stats), of(shard.StatReward, r.rewardStats)), nil, r.attempt, r.manifest()); err != nil {
		return err
	}
	if len(r.in.PlanOutputs) == 0 { // the last iteration
		return nil
	}
	for _, plan := range r.in.PlanOutputs {
		rows, cited, err := r.plan(state, plan.Iteration, ids)
		if err != nil {
			return err
		}
		m := r.manifest()
		m.Inputs = append(m.Inputs, cited...)
		if _, err := shard.WriteInBlocks(plan.Path, rows, r.attempt, m); err != nil {
			return err
		}
	}
	return nil
}

// taskIDs are those of the training tasks that the recipe samples. A run that
// only evaluates needs none.
func (r *reduction) taskIDs() ([]string, error) {
	if r.in.Iteration == 0 && len(r.in.PlanOutputs) == 0 {
		return nil, nil
	}
	tasks, err := env.TrainingTasks(r.environment, "curriculum.kinds", r.recipe.Curriculum.Kinds)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids, nil
}

// of says whose statistics these are.
func of(axis string, stats []shard.Stat) []shard.Stat {
	own := slices.Clone(stats)
	for i := range own {
		own[i].Axis = axis
	}
	return own
}

// plan asks the curriculum for an iteration's instances and the environment
// for their prompts. It cites the rollouts that these go on from.
func (r *reduction) plan(state curriculum.State, iteration int, taskIDs []string) ([]shard.Instance, []seal.Input, error) {
	selections, err := curriculum.Next(r.chooser, state, iteration, r.in.PlanRows, taskIDs)
	if err != nil {
		return nil, nil, err
	}
	selections = env.SpreadByCost(r.environment, selections, func(s curriculum.Selection) string { return s.TaskID })
	parents, cited, err := r.parents(selections)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]shard.Instance, len(selections))
	for i, selected := range selections {
		task, ok := r.environment.Task(selected.TaskID)
		if !ok {
			return nil, nil, exitcode.Bugf("curriculum %q selected task %q, which environment %q does not have",
				r.chooser.Name(), selected.TaskID, r.environment.Name())
		}
		messages, err := r.prompt(task, selected, parents[selected.Ref])
		if err != nil {
			return nil, nil, fmt.Errorf("prompt of task %q: %w", task.ID, err)
		}
		id := InstanceID(iteration, i)
		rows[i] = shard.Instance{
			InstanceID: id, GroupID: id, TaskID: task.ID, Env: r.environment.Name(), Kind: string(selected.Kind),
			ParentID: selected.ParentID, Depth: int32(selected.Depth), Turn: int32(selected.Turn), Messages: messages,
			BaseScore: selected.BaseScore, Potential: selected.Potential, Origin: string(selected.Origin),
			Probability: selected.Probability, SelectedBy: selected.SelectedBy,
			Seed: int64(r.recipe.Seed), Iteration: int32(iteration),
		}
	}
	return rows, cited, nil
}

// prompt is what a selection asks of the policy. A first answer that has a past
// is one more answer to that past, as it stands: there is nothing to ask for.
func (r *reduction) prompt(task env.Task, selected curriculum.Selection, parent env.Parent) ([]shard.Message, error) {
	if selected.Kind == shard.KindInitial && !selected.Ref.IsZero() {
		return parent.Messages, nil
	}
	return r.environment.Prompt(task, selected.Kind, parent)
}

// curriculumGroups shows the curriculum what was sampled.
func (r *reduction) curriculumGroups() []curriculum.Group {
	groups := make([]curriculum.Group, len(r.groups))
	for i, g := range r.groups {
		groups[i] = curriculum.Group{Instance: g.Instance, Responses: make([]curriculum.Response, len(g.Traces))}
		for j, t := range g.Traces {
			response := lastAttempt(g.contexts[j])
			response.Score, response.Reward = t.Score, g.reward(j)
			response.Ref.Iteration, response.Ref.Row = int32(g.iteration), int32(g.row)
			groups[i].Responses[j] = response
		}
	}
	return groups
}

// lastAttempt is what the curriculum sees of a trace: its last attempt, contexts
// one after the other.
func lastAttempt(contexts []contextRow) curriculum.Response {
	last := contexts[len(contexts)-1]
	r := curriculum.Response{Sample: int(last.Sample), Ref: shard.Ref{Sample: last.Sample, Step: last.Step, Wave: last.Wave}}
	for _, c := range contexts {
		if c.Step != last.Step {
			continue
		}
		if r.Roles == nil {
			r.PromptMessages = int(c.PromptMessages)
		}
		for _, message := range c.Messages {
			r.Roles = append(r.Roles, message.Role)
		}
		r.Turns += int(c.Turns)
	}
	r.Ref.Messages = int32(len(r.Roles))
	return r
}
