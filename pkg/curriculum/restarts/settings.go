package restarts

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/scaffold/memory"
)

//go:embed settings.go
var source string

var _ = config.Docs[Settings](source)

// Settings are those of the memory of MLE-RL §4.2 and §5.1.
type Settings struct {
	Capacity     int     `yaml:"capacity"`                        // solutions that are held of each task
	Threshold    float64 `yaml:"threshold"`                       // T_ast: of programs whose syntax trees are more alike than this the best one is held
	ResetRatio   float64 `yaml:"reset_ratio"`                     // p: probability of a trace from scratch; it is 1 while nothing of the task is held
	AboveMinimum bool    `yaml:"above_minimum"`                   // refuse what does not exceed the lowest held while there is room too
	BaseTasks    string  `yaml:"base_tasks" choices:"epochs,iid"` // the task of each prompt. epochs: each once an epoch; iid: each prompt draws its own
}

// DefaultSettings are those of training in MLE-RL §5.1.
func DefaultSettings() *Settings {
	paper := memory.Training()
	return &Settings{Capacity: paper.Capacity, Threshold: paper.Threshold, ResetRatio: paper.ResetRatio, AboveMinimum: paper.AboveMinimum, BaseTasks: uniform.Epochs}
}

func (s Settings) pool() memory.Settings {
	return memory.Settings{Capacity: s.Capacity, Threshold: s.Threshold, ResetRatio: s.ResetRatio, AboveMinimum: s.AboveMinimum}
}

func init() {
	const section = "curriculum." + Name
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "each trace starts from one of the task's best programs so far, or from scratch (MLE-RL §4.2)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Settings)
			c.AtLeast(section+".capacity", s.Capacity, 1)
			c.Share(section+".threshold", s.Threshold)
			c.Share(section+".reset_ratio", s.ResetRatio)
			c.Choice(section+".base_tasks", s.BaseTasks)
			if on, _ := config.Find[bool](c.Settings(), "env.fingerprint"); !on {
				c.Add(section, nil, "compares programs: set env.fingerprint, in an environment that has it")
			}
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}
