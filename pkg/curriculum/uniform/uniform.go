// Package uniform samples training tasks uniformly: without replacement inside
// an epoch, or independently. It is the baseline of every other curriculum, and
// the source of base tasks inside them.
package uniform

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Uniform is the uniform curriculum. It has no state of its own: what an
// iteration samples depends on the seed and the iteration's number alone.
type Uniform struct {
	spec Settings
	seed uint64
}

//go:embed uniform.go
var source string

var _ = config.Docs[Settings](source)

// Settings say how tasks are drawn.
type Settings struct {
	BaseTasks string `yaml:"base_tasks" choices:"epochs,iid"` // epochs: each once an epoch; iid: each prompt draws its own
}

// The values of Settings.BaseTasks.
const (
	Epochs      = "epochs" // in random order, each once an epoch
	Independent = "iid"    // each prompt draws one of all, independently
)

var (
	_ curriculum.Curriculum = (*Uniform)(nil)
	_ curriculum.Explainer  = (*Uniform)(nil)
)

// Name is the name of this curriculum in recipes.
const Name = "uniform"

func init() {
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "training tasks in random order, each once an epoch", Default: true,
		Settings: func() any { return &Settings{BaseTasks: Epochs} },
		Validate: func(c *config.Checker, settings any) {
			c.Choice("curriculum.uniform.base_tasks", settings.(*Settings).BaseTasks)
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// Divisible says that tasks are drawn from those that Next is given alone.
func (u *Uniform) Divisible() {}

// New returns the uniform curriculum of a run with the given seed.
func New(spec Settings, seed uint64) *Uniform { return &Uniform{spec, seed} }

// Name returns "uniform".
func (u *Uniform) Name() string { return Name }

// Update records that the iteration is done. Nothing is learned from groups.
func (u *Uniform) Update(_ curriculum.State, iteration int, _ []curriculum.Group, _ []string) (curriculum.State, error) {
	return curriculum.State{Iteration: iteration}, nil
}

// Next selects the [Tasks] of an iteration.
func (u *Uniform) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	selections := make([]curriculum.Selection, n)
	for i, id := range Tasks(u.spec.BaseTasks, u.seed, state, iteration, n, taskIDs) {
		selections[i] = Selection(id, 1)
	}
	return selections, nil
}

// SelectedBy names the rule that takes a base task.
const SelectedBy = "base"

// Selection is the first attempt at a base task, of a prompt that is a base
// task with the given probability. Which task it is does not enter it: in
// epochs it was never drawn for the prompt, and independent draws are all alike.
func Selection(taskID string, probability float64) curriculum.Selection {
	return curriculum.Selection{
		TaskID: taskID, Kind: shard.KindInitial, Origin: shard.OriginBase, Probability: probability, SelectedBy: SelectedBy,
	}
}

// Explain says that every prompt is a base task.
func (u *Uniform) Explain(curriculum.State, int, int, curriculum.Selection) ([]curriculum.Term, error) {
	return []curriculum.Term{{Name: "probability", Value: 1}}, nil
}

// Tasks returns the tasks of the n slots of an iteration, counted from 1.
//
// In epochs the slots of all iterations, one after the other, run through
// permutations of taskIDs, epoch e through one drawn for e alone. n must be the same
// in every iteration, or the state say what was before, for each epoch to hold every
// task once. An
// iteration may begin in one epoch and end in a later one, and then a task may
// occur in it twice. Independent slots each draw one of taskIDs.
func Tasks(baseTasks string, seed uint64, state curriculum.State, iteration, n int, taskIDs []string) []string {
	before := (iteration - 1) * n
	if state.Before != nil {
		before = *state.Before
	}
	tasks := make([]string, n)
	epoch, permutation := -1, []int(nil)
	for i := range tasks {
		if baseTasks == Independent {
			tasks[i] = taskIDs[rng.New(seed, rng.PurposeSelect, iteration, "base task", i).IntN(0, len(taskIDs))]
			continue
		}
		slot := before + i
		if e := slot / len(taskIDs); e != epoch {
			epoch = e
			// The epoch stands where other streams have the iteration.
			permutation = rng.New(seed, rng.PurposeSelect, epoch, "epoch of base tasks", 0).Permutation(0, len(taskIDs))
		}
		tasks[i] = taskIDs[permutation[slot%len(taskIDs)]]
	}
	return tasks
}
