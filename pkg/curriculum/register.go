package curriculum

import (
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
)

// Maker is a curriculum as recipes choose it.
type Maker struct {
	Name    string // as recipes write it
	Summary string // one line for people
	Default bool   // of recipes that name none

	// Settings makes a pointer to the settings, which stand at curriculum.NAME,
	// with their defaults; nil for a curriculum without any.
	Settings func() any
	// Validate checks them, with whole paths; what else there is in the recipe it
	// reads with [config.Find]. nil for nothing to check.
	Validate func(c *config.Checker, settings any)
	// New makes the curriculum of a run with a seed.
	New func(settings any, seed uint64) (Curriculum, error)
}

var makers = registry.New[Maker]("curriculum")

// Register adds a curriculum. A name that is taken panics.
func Register(m Maker) {
	makers.Register(registry.Choice[Maker]{
		Name: m.Name, Summary: m.Summary, Default: m.Default, Settings: m.Settings, Validate: m.Validate,
		Make: func(any) (Maker, error) { return m, nil },
	})
}

// Names lists the curricula, sorted.
func Names() []string { return makers.Names() }

// Choices lists the curricula as choices of their axis, sorted by name.
func Choices() []registry.Choice[Maker] { return makers.All() }

// Default names the curriculum of recipes that name none.
func Default() string { return makers.Default() }

// Variants are the settings of all curricula that have any, with their
// defaults.
func Variants() config.Variants { return makers.Variants() }

// Validate checks the name of a curriculum and its settings.
func Validate(c *config.Checker, name string, variants config.Variants) {
	makers.Validate(c, "curriculum.name", name, variants)
}

// Lookup finds a curriculum. An unknown name is a usage error that lists what
// there is.
func Lookup(name string) (Maker, error) { return makers.Make(name, nil) }

// New makes the curriculum of a name, settings being what its Maker made and a
// recipe has filled.
func New(name string, settings any, seed uint64) (Curriculum, error) {
	m, err := Lookup(name)
	if err != nil {
		return nil, exitcode.Usagef("curriculum.name: %w", err)
	}
	return m.New(settings, seed)
}
