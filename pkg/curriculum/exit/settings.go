package exit

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

// Settings are those of ExIt §4 and Tab. 4 to 6.
type Settings struct {
	BufferSize         int     `yaml:"buffer_size"`                           // N
	MinBufferSize      int     `yaml:"min_buffer_size"`                       // select only from a buffer of at least this size
	SelectProbability  float64 `yaml:"select_probability"`                    // p, self-iteration probability
	InverseTemperature float64 `yaml:"inverse_temperature"`                   // κ
	DivergeProbability float64 `yaml:"diverge_probability"`                   // p_div
	Improve            bool    `yaml:"improve"`                               // false: what is selected is answered again, not improved on (ablation "curriculum")
	Expand             string  `yaml:"expand" choices:"one,all"`              // one: a random response of a group enters the buffer; all: each does
	Learnability       string  `yaml:"learnability" choices:"reward,quality"` // whose variance the score is: the reward (ExIt §4) or the final quality (ExIt §4.1); they differ where the reward is of improvement
	BaseTasks          string  `yaml:"base_tasks" choices:"epochs,iid"`       // epochs: each once an epoch; iid: each prompt draws its own
}

func init() {
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "a buffer of partial histories, sampled by how much can be learned from them, improved and diverged from (ExIt)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) { settings.(*Settings).validate(c) },
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// DefaultSettings are those of ExIt Tab. 4, which gives no inverse temperature: the
// largest variance of rewards in [0, 1] is 0.25, so 10 makes the best instance
// exp(2.5), about 12, times as likely as one that is always or never solved.
func DefaultSettings() *Settings {
	return &Settings{
		BufferSize:         512,
		MinBufferSize:      128,
		SelectProbability:  0.5,
		InverseTemperature: 10,
		DivergeProbability: 0.2,
		Improve:            true,
		Expand:             ExpandOne,
		Learnability:       OfReward,
		BaseTasks:          uniform.Epochs,
	}
}

// CheckSizes checks buffer_size and min_buffer_size of a section of a recipe.
func CheckSizes(c *config.Checker, section string, size, least int) {
	valid := c.AtLeast(section+".buffer_size", size, 1)
	if c.AtLeast(section+".min_buffer_size", least, 1) && valid && least > size {
		c.Add(section+".min_buffer_size", least, "must not be above %s.buffer_size %d, or nothing is ever selected", section, size)
	}
}

func (s *Settings) validate(c *config.Checker) {
	CheckSizes(c, "curriculum.exit", s.BufferSize, s.MinBufferSize)
	c.Share("curriculum.exit.select_probability", s.SelectProbability)
	c.NotNegative("curriculum.exit.inverse_temperature", s.InverseTemperature)
	c.Share("curriculum.exit.diverge_probability", s.DivergeProbability)
	c.Choice("curriculum.exit.expand", s.Expand)
	c.Choice("curriculum.exit.learnability", s.Learnability)
	c.Choice("curriculum.exit.base_tasks", s.BaseTasks)
	if group, _ := config.Find[int](c.Settings(), "rollout.group"); group == 1 {
		c.Add("rollout.group", group, "must be 2 or more for curriculum.name exit: the rewards of one response have no variance, so nothing would enter the buffer")
	}
}
