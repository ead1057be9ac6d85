// Package uniform samples training tasks uniformly, without replacement
// inside an epoch. It is the baseline of every other curriculum, and the
// source of base tasks inside them.
package uniform

import (
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Uniform is the uniform curriculum. It has no state of its own: what an
// iteration samples depends on the seed and the iteration's number alone.
type Uniform struct{ seed uint64 }

var (
	_ curriculum.Curriculum = (*Uniform)(nil)
	_ curriculum.Explainer  = (*Uniform)(nil)
)

// Name is the name of this curriculum in recipes.
const Name = "uniform"

func init() {
	curriculum.Register(curriculum.Maker{
		Name: Name, Summary: "training tasks in random order, each once an epoch", Default: true,
		New: func(_ any, seed uint64) (curriculum.Curriculum, error) { return New(seed), nil },
	})
}

// New returns the uniform curriculum of a run with the given seed.
func New(seed uint64) *Uniform { return &Uniform{seed: seed} }

// Name returns "uniform".
func (u *Uniform) Name() string { return Name }

// Update records that the iteration is done. Nothing is learned from groups.
func (u *Uniform) Update(_ curriculum.State, iteration int, _ []curriculum.Group, _ []string) (curriculum.State, error) {
	return curriculum.State{Iteration: iteration}, nil
}

// Next selects slots (iteration-1)·n to iteration·n-1 of the endless sequence
// of epochs, so n must be the same in every iteration for each epoch to hold
// every task once. Iterations count from 1.
func (u *Uniform) Next(_ curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	tasks, err := Tasks(u.seed, iteration, n, taskIDs)
	if err != nil {
		return nil, err
	}
	selections := make([]curriculum.Selection, n)
	for i, id := range tasks {
		selections[i] = Selection(id, 1)
	}
	return selections, nil
}

// SelectedBy names the rule that takes the next base task of the epoch.
const SelectedBy = "base"

// Selection is the first attempt at a base task, of a prompt that is a base
// task with the given probability. Which task it is was never drawn for the
// prompt: it is the next of the epoch.
func Selection(taskID string, probability float64) curriculum.Selection {
	return curriculum.Selection{
		TaskID: taskID, Kind: shard.KindInitial, Origin: shard.OriginBase, Probability: probability, SelectedBy: SelectedBy,
	}
}

// Explain says that every prompt is a base task.
func (u *Uniform) Explain(curriculum.State, int, int, curriculum.Selection) ([]curriculum.Term, error) {
	return []curriculum.Term{{Name: "probability", Value: 1}}, nil
}

// Tasks returns the tasks of the n slots of an iteration, counted from 1. The
// slots of all iterations, one after the other, run through epochs; epoch e
// is a permutation of taskIDs drawn for e alone. An iteration may begin in
// one epoch and end in a later one, and then a task may occur in it twice.
func Tasks(seed uint64, iteration, n int, taskIDs []string) ([]string, error) {
	switch {
	case iteration < 1:
		return nil, exitcode.Bugf("selecting tasks: iteration %d, want 1 or more", iteration)
	case n < 0:
		return nil, exitcode.Bugf("selecting tasks: %d slots, want 0 or more", n)
	case len(taskIDs) == 0:
		return nil, exitcode.Dataf("selecting tasks for iteration %d: there are no training tasks", iteration)
	}
	tasks := make([]string, n)
	epoch, permutation := -1, []int(nil)
	for i := range tasks {
		slot := (iteration-1)*n + i
		if e := slot / len(taskIDs); e != epoch {
			epoch = e
			// The epoch stands where other streams have the iteration.
			permutation = rng.New(seed, rng.PurposeSelect, epoch, "epoch of base tasks", 0).Permutation(0, len(taskIDs))
		}
		tasks[i] = taskIDs[permutation[slot%len(taskIDs)]]
	}
	return tasks, nil
}
