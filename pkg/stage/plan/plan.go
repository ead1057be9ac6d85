// Package plan folds the scored groups of an iteration into the curriculum's state,
// and writes the plans of later iterations.
package plan

import (
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// Ref names a plan.
type Ref struct {
	Iteration int
	Path      string
}

// Known is what is known before an iteration is folded in.
type Known struct {
	State       curriculum.State
	RewardStats []shard.Stat // that the reward keeps
}

// Read reads the state of the iteration before, and the statistics beside it; an empty
// path stands for none. It cites what it has read.
func Read(ctx context.Context, files stage.Files, iteration int, statePath, statsPath string) (Known, []seal.Input, error) {
	known := Known{State: curriculum.State{Iteration: max(0, iteration-1)}}
	var inputs []seal.Input
	if statePath != "" {
		entries, cited, err := stage.ReadTable[shard.Entry](ctx, files, statePath)
		if err != nil {
			return known, nil, err
		}
		known.State.Entries, inputs = entries, append(inputs, cited)
	}
	if statsPath != "" {
		stats, cited, err := stage.ReadTable[shard.Stat](ctx, files, statsPath)
		if err != nil {
			return known, nil, err
		}
		inputs = append(inputs, cited)
		for _, stat := range stats {
			if stat.Axis == shard.StatReward {
				known.RewardStats = append(known.RewardStats, stat)
			} else {
				known.State.Stats = append(known.State.Stats, stat)
			}
		}
	}
	return known, inputs, nil
}

// Inputs are what an iteration came to, and the files to write.
type Inputs struct {
	Iteration int                      // 0 makes the first state and plans
	Groups    []curriculum.Group       // scored, in plan order
	Plans     map[int][]shard.Instance // that they are of, by iteration
	Cited     []seal.Input             // files that were read for them
	// WaveOf names the files that hold a response to an instance of any iteration
	// up to this one, and its scores. The scores may be unknown.
	WaveOf func(ref shard.Ref, instanceID string) (stage.WaveRef, error)

	StateOutput string
	StatsOutput string
	PlanOutputs []Ref
	PlanRows    int
}

// Settings are what this package reads of a recipe.
type Settings struct {
	Seed  uint64
	Kinds []string // of training tasks that are sampled; empty for all
}

// SettingsOf are those of a recipe.
func SettingsOf(r recipe.Recipe) Settings { return Settings{r.Seed, r.Curriculum.Kinds} }

// planner is one run of this package.
type planner struct {
	Settings
	ctx         context.Context
	files       stage.Files
	attempt     seal.Attempt
	log         func(format string, args ...any)
	manifest    func() seal.Manifest
	environment env.Env
	chooser     curriculum.Curriculum
	in          Inputs
	Known
}

// Run folds one iteration into what is known. blank is the manifest of every output,
// without what was read for it.
func Run(ctx context.Context, job stage.Job, s Settings, environment env.Env, chooser curriculum.Curriculum, known Known, in Inputs, blank seal.Manifest) error {
	p := &planner{
		ctx: ctx, Settings: s, files: job.Files, attempt: job.Attempt, log: job.Log,
		manifest:    func() seal.Manifest { return stage.Citing(blank, in.Cited) },
		environment: environment, chooser: chooser, in: in, Known: known,
	}
	return p.next()
}

// next folds the groups into the curriculum and writes the state and plans.
func (p *planner) next() error {
	ids, err := p.taskIDs()
	if err != nil {
		return err
	}
	state := p.State
	if p.in.Iteration > 0 {
		if state, err = curriculum.Update(p.chooser, state, p.in.Iteration, p.in.Groups, ids); err != nil {
			return err
		}
		for _, note := range state.Notes {
			p.log("curriculum %s, iteration %d: %s", p.chooser.Name(), p.in.Iteration, note)
		}
	}
	m := p.manifest()
	m.Metrics = map[string]float64{"curriculum_instances": float64(len(state.Entries))}
	if measurer, ok := p.chooser.(curriculum.Measurer); ok {
		for name, value := range measurer.Metrics(state) {
			m.Metrics["curriculum_"+name] = value
		}
	}
	if _, err := shard.Write(p.in.StateOutput, state.Entries, nil, p.attempt, m); err != nil {
		return err
	}
	if _, err := shard.Write(p.in.StatsOutput, slices.Concat(of(shard.StatCurriculum, state.Stats), of(shard.StatReward, p.RewardStats)), nil, p.attempt, p.manifest()); err != nil {
		return err
	}
	if len(p.in.PlanOutputs) == 0 { // the last iteration
		return nil
	}
	for _, plan := range p.in.PlanOutputs {
		rows, cited, err := p.plan(state, plan.Iteration, ids)
		if err != nil {
			return err
		}
		m := p.manifest()
		m.Inputs = append(m.Inputs, cited...)
		if _, err := shard.WriteInBlocks(plan.Path, rows, p.attempt, m); err != nil {
			return err
		}
	}
	return nil
}

// taskIDs are those of the training tasks that the recipe samples. A run that
// only evaluates needs none.
func (p *planner) taskIDs() ([]string, error) {
	if p.in.Iteration == 0 && len(p.in.PlanOutputs) == 0 {
		return nil, nil
	}
	tasks, err := p.environment.Set().TrainingTasks("curriculum.kinds", p.Kinds)
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
// for their prompts. It cites the rollouts that these continue from.
func (p *planner) plan(state curriculum.State, iteration int, taskIDs []string) ([]shard.Instance, []seal.Input, error) {
	selections, err := curriculum.Next(p.chooser, state, iteration, p.in.PlanRows, taskIDs)
	if err != nil {
		return nil, nil, err
	}
	selections = env.SpreadByCost(p.environment.Set(), selections, func(s curriculum.Selection) string { return s.TaskID })
	parents, cited, err := p.parents(selections)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]shard.Instance, len(selections))
	for i, selected := range selections {
		task, ok := p.environment.Set().Task(selected.TaskID)
		if !ok {
			return nil, nil, exitcode.Bugf("curriculum %q selected task %q, which environment %q does not have",
				p.chooser.Name(), selected.TaskID, p.environment.Set().Name())
		}
		parent := parents[selected.Ref]
		if partner, joined := parents[selected.PartnerRef]; joined {
			parent.Partner = &partner
		}
		messages, err := p.prompt(task, selected, parent)
		if err != nil {
			return nil, nil, fmt.Errorf("prompt of task %q: %w", task.ID, err)
		}
		id := InstanceID(iteration, i)
		rows[i] = shard.Instance{
			InstanceID: id, GroupID: id, TaskID: task.ID, Env: p.environment.Set().Environment(task.ID), Kind: string(selected.Kind),
			ParentID: selected.ParentID, Depth: int32(selected.Depth), Turn: int32(selected.Turn), Messages: messages,
			BaseScore: selected.BaseScore, Potential: selected.Potential, Origin: string(selected.Origin),
			Probability: selected.Probability, SelectedBy: selected.SelectedBy,
			Seed: int64(p.Seed), Iteration: int32(iteration), PartnerID: selected.PartnerID,
		}
	}
	return rows, cited, nil
}

// prompt is what a selection asks of the policy. A first answer that has a past
// is one more answer to that past, as it stands: there is nothing to ask for.
func (p *planner) prompt(task env.Task, selected curriculum.Selection, parent env.Parent) ([]shard.Message, error) {
	if selected.Kind == shard.KindInitial && !selected.Ref.IsZero() {
		return parent.Messages, nil
	}
	return p.environment.Prompt(task, selected.Kind, parent)
}
