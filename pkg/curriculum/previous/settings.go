package previous

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed settings.go
var source string

var _ = config.Docs[Settings](source)

// Settings are those of RL-MLE §3.3.
type Settings struct {
	Improve   float64 `yaml:"improve"`                         // probability of a prompt to improve a solution of the last iteration
	Exact     bool    `yaml:"exact"`                           // exactly this share of an iteration's prompts does, in place of a coin for each
	BaseTasks string  `yaml:"base_tasks" choices:"epochs,iid"` // epochs: each once an epoch; iid: each prompt draws its own
}

func init() {
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "half of the prompts improve a valid solution of the last iteration (RL-MLE §3.3)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Settings)
			c.Share("curriculum.previous.improve", s.Improve)
			c.Choice("curriculum.previous.base_tasks", s.BaseTasks)
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// DefaultSettings are those of RL-MLE §3.3: "two sets of prompts (with equal
// probability)".
func DefaultSettings() *Settings {
	return &Settings{Improve: 0.5, BaseTasks: uniform.Epochs}
}
