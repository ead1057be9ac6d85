package env

import (
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Axis holds the environments by name. The settings of a choice are the fields of the
// recipe's section env beside the name.
var Axis = registry.New[Setup]("environment")

// Setup is an environment with its settings, before there are tasks.
type Setup struct {
	Traits Traits
	Data   any // a pointer to the fields of the recipe's section data, with their defaults
	// Validate checks settings and data, with whole paths such as env.max_turns; what
	// else there is in the recipe it reads with [config.Find].
	Validate func(c *config.Checker, data any)

	// Load reads or generates the tasks. Relative names of files start at folder, the
	// recipe's; the seed decides what is drawn.
	Load func(data any, seed uint64, folder string) (*TaskSet, error)
	// New makes the environment of the tasks, or of those alone that it will be asked
	// about.
	New func(tasks *TaskSet, folder string) (Env, error)

	// SolutionSteps counts the steps of a training task's ground truth by its answer; nil for
	// an environment whose answers have none.
	SolutionSteps func(answer string) int

	// Host is an error where scores cannot be made on this machine, and notes what
	// their programs do without there; nil for an environment that needs nothing of it.
	Host func() (notes []string, err error)

	Checker   *LineChecker // nil for an environment without one
	Generator *Generator   // nil for an environment without one
}

// Defaults are the fields of the sections env and data of an environment.
func Defaults(name string) (settings, data any, err error) {
	choice, err := Axis.Lookup(name)
	if err != nil {
		return nil, nil, err
	}
	settings = choice.Settings()
	setup, err := choice.Make(settings)
	return settings, setup.Data, err
}

// Having finds the environments that have what others lack, such as a checker. of
// gives it, or nil.
func Having[T any](of func(Setup) *T) (names []string, byName map[string]*T) {
	byName = map[string]*T{}
	for _, name := range Axis.Names() {
		if setup, err := Axis.Make(name, nil); err == nil && of(setup) != nil {
			names = append(names, name)
			byName[name] = of(setup)
		}
	}
	return names, byName
}

// New makes the environment of a name, settings and data being what [Defaults] made
// and a recipe has filled.
func New(name string, settings, data any, seed uint64, folder string) (Env, error) {
	setup, err := Axis.Make(name, settings)
	if err != nil {
		return nil, exitcode.Usagef("env.name: %w", err)
	}
	tasks, err := setup.Load(data, seed, folder)
	if err != nil {
		return nil, err
	}
	return setup.New(tasks, folder)
}

// FromRows makes the environment of a name from the rows of its tasks.
func FromRows(name string, settings any, folder string, rows []shard.TaskRow) (Env, error) {
	setup, err := Axis.Make(name, settings)
	if err != nil {
		return nil, exitcode.Usagef("env.name: %w", err)
	}
	return setup.New(TasksOf(name, rows), folder)
}
