package run_test

import (
	"context"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// actions is a world of four actions, each a task, that a policy over them chooses:
// the slowest is the best, and is seldom chosen. The numbers are those of
// TestFrequencyBias of package credit.
var actions = struct {
	ids     []string
	policy  []float64
	seconds []float64
	reward  []float64
}{
	ids:     []string{"a", "b", "c", "d"},
	policy:  []float64{.4, .3, .2, .1},
	seconds: []float64{1, 2, 5, 20},
	reward:  []float64{.2, .5, .3, .9},
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: "test-actions", Summary: "answers whose verdicts take a declared time",
		Settings: func() any { return &actionSettings{} },
		Make: func(settings any) (env.Setup, error) {
			return env.Setup{
				Traits: env.Traits{Turns: 1, Waves: 1}, Data: &struct{}{},
				Load: func(any, uint64, string) (*env.TaskSet, error) { return actionTasks(), nil },
				New: func(tasks *env.TaskSet, _ string) (env.Env, error) {
					return actionEnv{tasks, *settings.(*actionSettings)}, nil
				},
			}, nil
		},
	})
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: "test-actions", Summary: "draws actions from a policy that never changes",
		Make: func(any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return drawn{seed} }, nil
		},
	})
}

// drawn draws actions from the policy over them.
type drawn struct{ seed uint64 }

func (drawn) Name() string { return "test-actions" }

func (drawn) Update(state curriculum.State, iteration int, _ []curriculum.Group, _ []string) (curriculum.State, error) {
	state.Iteration = iteration
	return state, nil
}

func (d drawn) Next(_ curriculum.State, iteration, n int, _ []string) ([]curriculum.Selection, error) {
	stream := rng.New(d.seed, rng.PurposeTest, iteration, "actions", 0)
	selections := make([]curriculum.Selection, n)
	for i := range selections {
		u, x := stream.Float64(uint64(i)), 0
		for ; x < len(actions.ids)-1; x++ {
			if u -= actions.policy[x]; u < 0 {
				break
			}
		}
		selections[i] = curriculum.Selection{TaskID: actions.ids[x], Kind: shard.KindInitial, Origin: shard.OriginBase, Probability: actions.policy[x]}
	}
	return selections, nil
}

// actionSettings are the fields of the section env.
type actionSettings struct {
	Huge float64 `yaml:"huge"` // reward of the last action; 0 for its own
}

// actionEnv scores actions.
type actionEnv struct {
	*env.TaskSet
	actionSettings
}

func (actionEnv) Traits() env.Traits { return env.Traits{Turns: 1, Waves: 1} }

func actionTasks() *env.TaskSet {
	tasks := env.NewTaskSet("test-actions")
	for _, id := range actions.ids {
		tasks.Add(env.Task{ID: id, Kind: "action", Question: id, Answer: id}, env.Facts{Split: env.Train})
	}
	tasks.Add(env.Task{ID: "held-out", Kind: "action", Question: "e", Answer: actions.ids[0]}, env.Facts{Split: env.Test})
	return tasks
}

func (actionEnv) Prompt(task env.Task, _ shard.Kind, _ env.Parent) ([]shard.Message, error) {
	return []shard.Message{{Role: "user", Content: task.Question}}, nil
}

func (actionEnv) Begin(context.Context, env.Task, []shard.Message) (env.Episode, error) {
	return said{}, nil
}

// said is an episode of one answer.
type said struct{}

func (said) Close() error { return nil }

func (said) Next(context.Context, []shard.Message, *env.TurnVerdict) (env.Step, error) {
	return env.Step{}, nil
}

func (e actionEnv) Score(_ context.Context, a env.Attempt) (env.Verdict, error) {
	x := slices.Index(actions.ids, a.Task.Answer)
	seconds := actions.seconds[x]
	reward := actions.reward[x]
	if e.Huge != 0 && x == len(actions.ids)-1 {
		reward = e.Huge
	}
	turn := env.TurnVerdict{
		Outcome: shard.OutcomeOK, RawScore: reward, NormalizedScore: actions.reward[x], Reward: reward,
		ExecuteSeconds: seconds, Extracted: a.Task.ID,
	}
	return env.Verdict{TurnVerdict: turn, Turns: []env.TurnVerdict{turn}}, nil
}

func (actionEnv) Demonstration(task env.Task, _ shard.Kind, _ rng.Stream) ([]shard.Message, bool, error) {
	return []shard.Message{{Role: "user", Content: task.Question}, {Role: "assistant", Content: task.Answer}}, true, nil
}
