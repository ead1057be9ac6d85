package curriculum

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
)

// Maker makes the curriculum of a run with a seed.
type Maker func(seed uint64) Curriculum

// Axis holds the curricula by name. Their settings stand at curriculum.NAME.
var Axis = registry.New[Maker]("curriculum")

// New makes the curriculum of a name for a run with a seed. settings are the choice's,
// filled by a recipe; nil for its defaults. An unknown name is a usage error that lists
// what there is.
func New(name string, settings any, seed uint64) (Curriculum, error) {
	maker, err := Axis.Make(name, settings)
	if err != nil {
		return nil, exitcode.Usagef("curriculum.name: %w", err)
	}
	return maker(seed), nil
}
