// Package choose makes the curriculum that a recipe names. It is apart from
// package curriculum so that the curricula can import their interface.
package choose

import (
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/exit"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// New returns the curriculum of a run with the given seed. An unknown name
// or settings out of range are a usage error.
func New(spec recipe.Curriculum, seed uint64) (curriculum.Curriculum, error) {
	switch spec.Name {
	case "uniform":
		return uniform.New(seed), nil
	case "exit":
		chosen, err := exit.New(spec.Exit, seed)
		if err != nil {
			return nil, err // not chosen: a nil *Exit is not a nil Curriculum
		}
		return chosen, nil
	}
	return nil, exitcode.Usagef("curriculum.name: unknown curriculum %q, want uniform or exit", spec.Name)
}
