package env

import (
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Maker is an environment as recipes choose it. Settings are the fields of the
// recipe's section env beside the name, and data those of its section data.
type Maker struct {
	Name    string // as recipes write it
	Summary string // one line for people
	Default bool   // of recipes that name none

	Settings func() any // a pointer to the fields of env, with their defaults
	Data     func() any // a pointer to the fields of data, with their defaults
	// Validate checks both, with whole paths such as env.max_turns; what else
	// there is in the recipe it reads with [config.Find].
	Validate func(c *config.Checker, settings, data any)
	// Traits follow from the settings.
	Traits func(settings any) Traits

	// New loads or generates the tasks. Relative names of files start at folder,
	// the recipe's; the seed decides what is drawn.
	New       func(settings, data any, seed uint64, folder string) (Env, error)
	Checker   *LineChecker // nil for an environment without one
	Generator *Generator   // nil for an environment without one

	// FromRows makes the environment again from the rows of its tasks, or of those
	// alone that it will be asked about.
	FromRows func(settings any, folder string, rows []shard.TaskRow) (Env, error)
}

var makers = registry.New[Maker]("environment")

// Register adds an environment. A name that is taken panics.
func Register(m Maker) {
	makers.Register(registry.Choice[Maker]{
		Name: m.Name, Summary: m.Summary, Default: m.Default, Make: func(any) (Maker, error) { return m, nil },
	})
}

// Names lists the environments, sorted.
func Names() []string { return makers.Names() }

// All lists the environments, sorted by name.
func All() []Maker {
	var all []Maker
	for _, name := range Names() {
		if m, err := Lookup(name); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// Choices lists the environments as choices of their axis, sorted by name.
func Choices() []registry.Choice[Maker] { return makers.All() }

// Default names the environment of recipes that name none.
func Default() string { return makers.Default() }

// Having finds the environments that have what others lack, such as a checker. of
// gives it, or nil.
func Having[T any](of func(Maker) *T) (names []string, byName map[string]*T) {
	byName = map[string]*T{}
	for _, m := range All() {
		if has := of(m); has != nil {
			names = append(names, m.Name)
			byName[m.Name] = has
		}
	}
	return names, byName
}

// Lookup finds an environment. An unknown name is a usage error that lists what
// there is.
func Lookup(name string) (Maker, error) { return makers.Make(name, nil) }

// New makes the environment of a name, settings and data being what its Maker
// made and a recipe has filled.
func New(name string, settings, data any, seed uint64, folder string) (Env, error) {
	m, err := Lookup(name)
	if err != nil {
		return nil, exitcode.Usagef("env.name: %w", err)
	}
	return m.New(settings, data, seed, folder)
}

// FromRows makes the environment of a name from the rows of its tasks.
func FromRows(name string, settings any, folder string, rows []shard.TaskRow) (Env, error) {
	m, err := Lookup(name)
	if err != nil {
		return nil, exitcode.Usagef("env.name: %w", err)
	}
	return m.FromRows(settings, folder, rows)
}
