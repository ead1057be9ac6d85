package puzzle

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed settings.go
var settingsSource string

var _ = config.Docs[Settings](settingsSource)

// Settings are the fields of the section env.
type Settings struct {
	Prompts Prompts `yaml:"prompts"`
}

// Prompts are the templates of an environment. {question} stands for the puzzle and
// {previous_response} for the response that is iterated on. The defaults are short:
// policies that read a few characters are meant to solve puzzles.
type Prompts struct {
	Initial string `yaml:"initial"` // of a first answer
	Improve string `yaml:"improve"` // to improve on an answer
	Diverge string `yaml:"diverge"` // to answer otherwise
}

// Data says which puzzles are drawn from the seed.
type Data struct {
	Kinds     []string `yaml:"kinds" choices:"sort,tour,colour"` // in turn: sort (letters), tour (a short round trip), colour (a ring without alike neighbours)
	Size      int      `yaml:"size"`                             // letters or cells of a puzzle, 4 to 16, or places, 4 to 10
	Train     int      `yaml:"train"`                            // puzzles to train on
	Test      int      `yaml:"test"`                             // puzzles that are held out
	TestShare float64  `yaml:"test_share"`                       // of all puzzles that there are, which a hash of their text holds out
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: Name, Summary: "puzzles whose answers have a quality and can be corrected step by step",
		Settings: func() any {
			return &Settings{Prompts{Initial: "{question}=", Improve: "{previous_response};{question}=", Diverge: "{previous_response}!{question}="}}
		},
		Make: func(settings any) (env.Setup, error) {
			s := settings.(*Settings)
			return env.Setup{
				Traits: traits, Data: &Data{Kinds: []string{"sort"}, Size: 8, Train: 4000, Test: 200, TestShare: 0.2},
				Validate: func(c *config.Checker, data any) { validate(c, s, data.(*Data)) },
				Load:     func(data any, seed uint64, _ string) (*env.TaskSet, error) { return load(data.(*Data), seed) },
				New:      func(tasks *env.TaskSet, _ string) (env.Env, error) { return fromTasks(s, tasks) },
			}, nil
		},
	})
}

func validate(c *config.Checker, s *Settings, d *Data) {
	env.CheckTemplates(c, "env.prompts", s.Prompts.Initial, s.Prompts.Improve, s.Prompts.Diverge)
	if len(d.Kinds) == 0 {
		c.Add("data.kinds", nil, "is empty: name one or more of %v", slices.Sorted(maps.Keys(kinds)))
	}
	for i, name := range d.Kinds {
		c.OneOf(fmt.Sprintf("data.kinds.%d", i), name, slices.Sorted(maps.Keys(kinds)))
	}
	largest := maxSize
	if slices.Contains(d.Kinds, "tour") {
		largest = maxTourSize
	}
	c.Between("data.size", d.Size, minSize, largest)
	c.AtLeast("data.train", d.Train, 1)
	c.AtLeast("data.test", d.Test, 0)
	if !(d.TestShare > 0 && d.TestShare < 1) {
		c.Add("data.test_share", d.TestShare, "must be above 0 and below 1")
	}
	if problems, _ := config.Find[int](c.Settings(), "evaluation.problems"); problems > d.Test {
		c.Add("evaluation.problems", problems, "must not be above data.test %d", d.Test)
	}
}
