package digits

import (
	_ "embed"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed settings.go
var settingsSource string

var _ = config.Docs[Settings](settingsSource)

// Settings are the fields of the section env.
type Settings struct {
	Prompt string `yaml:"prompt"` // what is asked; {question} stands for the digits
}

// Data says which problems are drawn from the seed. Problems to train on are listed by
// their length, from 1 on. Those held out are none of them: a hash of the question decides.
type Data struct {
	Kind      string  `yaml:"kind" choices:"add,copy,reverse"` // add (two numbers, lowest digit first), copy or reverse
	Longest   int     `yaml:"longest"`                         // digits of the longest problems to train on, up to 999
	Train     int     `yaml:"train"`                           // problems to train on of each length; of short ones some are alike
	Lengths   []int   `yaml:"lengths"`                         // digits of the problems that are held out
	Test      int     `yaml:"test"`                            // held-out problems of each of these lengths, in turn
	TestShare float64 `yaml:"test_share"`                      // of all problems that there are, which are held out
}

// mostDigits keeps the names of kinds in the order of their lengths.
const mostDigits = 999

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: Name, Summary: "digits to add, to copy or to reverse, from one to hundreds",
		Settings: func() any { return &Settings{Prompt: "{question}="} },
		Make: func(settings any) (env.Setup, error) {
			s := settings.(*Settings)
			return env.Setup{
				Traits: traits, Data: &Data{Kind: "add", Longest: 20, Train: 200, Lengths: []int{10, 15, 20}, Test: 40, TestShare: 0.2},
				Validate: func(c *config.Checker, data any) { validate(c, s, data.(*Data)) },
				Load:     func(data any, seed uint64, _ string) (*env.TaskSet, error) { return load(data.(*Data), seed) },
				New:      func(tasks *env.TaskSet, _ string) (env.Env, error) { return &Env{tasks, s.Prompt}, nil },
			}, nil
		},
	})
}

func validate(c *config.Checker, s *Settings, d *Data) {
	env.CheckTemplate(c, "env.prompt", s.Prompt, env.NeedsQuestion)
	c.OneOf("data.kind", d.Kind, []string{"add", "copy", "reverse"})
	c.Between("data.longest", d.Longest, 1, mostDigits)
	c.AtLeast("data.train", d.Train, 1)
	c.AtLeast("data.test", d.Test, 0)
	for i, n := range d.Lengths {
		c.Between(fmt.Sprintf("data.lengths.%d", i), n, 1, mostDigits)
	}
	if !(d.TestShare > 0 && d.TestShare < 1) {
		c.Add("data.test_share", d.TestShare, "must be above 0 and below 1")
	}
	problems, _ := config.Find[int](c.Settings(), "evaluation.problems")
	if have := d.Test * len(d.Lengths); problems > have {
		c.Add("evaluation.problems", problems, "must not be above the %d problems of data.test and data.lengths", have)
	}
}
