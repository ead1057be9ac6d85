package parents

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

// Settings are those of OpenMLE (arXiv 2607.28568, Tab. 5 and Eq. 3). A term that is off is
// left out of the sum; without any, all parents of a kind are as likely.
type Settings struct {
	Draft     float64 `yaml:"draft"`                           // probability of a first attempt
	Debug     float64 `yaml:"debug"`                           // probability that a program without a reward is debugged; the rest of the prompts improve on one with a reward
	Crossover float64 `yaml:"crossover"`                       // probability that two programs with a reward are joined (the paper: 0.16, which leaves 0.17 to improve)
	Capacity  int     `yaml:"capacity"`                        // programs that are held of each task, those of the highest sum
	Reward    bool    `yaml:"reward"`                          // term R: the program's own reward
	Variance  bool    `yaml:"variance"`                        // term Var: the variance of the rewards of what was made of the program
	Cooling   bool    `yaml:"cooling"`                         // term C: how seldom the program was a parent
	BaseTasks string  `yaml:"base_tasks" choices:"epochs,iid"` // the task of each prompt. epochs: each once an epoch; iid: each prompt draws its own
}

// DefaultSettings are the paper's, which gives no capacity: 64.
func DefaultSettings() *Settings {
	return &Settings{Draft: 0.5, Debug: 0.17, Capacity: 64, Reward: true, Variance: true, Cooling: true, BaseTasks: uniform.Epochs}
}

func init() {
	const section = "curriculum." + Name
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "prompts start from programs drawn by their reward, the variance of what was made of them, and how seldom they were drawn (OpenMLE, arXiv 2607.28568)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Settings)
			draft, debug, crossover := c.Share(section+".draft", s.Draft), c.Share(section+".debug", s.Debug), c.Share(section+".crossover", s.Crossover)
			if draft && debug && crossover && s.Draft+s.Debug+s.Crossover > 1 {
				c.Add(section+".debug", s.Debug, "must not be above 1 less %s.draft %v and crossover %v", section, s.Draft, s.Crossover)
			}
			c.AtLeast(section+".capacity", s.Capacity, 1)
			c.Choice(section+".base_tasks", s.BaseTasks)
		},
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}
