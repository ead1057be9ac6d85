package math

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/env/math/generate"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed settings.go
var settingsSource string

var _ = config.Docs[Settings](settingsSource)

// Settings are the fields of the section env.
type Settings struct {
	MaxTurns int             `yaml:"max_turns"` // turns of one trajectory; later turns refine
	Prompts  Prompts         `yaml:"prompts"`
	Answer   answer.Settings `yaml:"answer"`

	PromptsOf []SetPrompts `yaml:"prompts_of"` // prompts of held-out sets that are asked in another way
}

// SetPrompts are the prompts of one set of data.held_out.
type SetPrompts struct {
	Set     string `yaml:"set"` // its name
	Prompts `yaml:",inline"`
}

// SetDefaults leaves every prompt to env.prompts.
func (p *SetPrompts) SetDefaults() { p.Prompts = Prompts{} }

// Prompts are the templates of an environment. {instruction} stands for the
// task's prompt, {question} for the task's question, {previous_response} for
// the response that is iterated on. The defaults are the papers' own texts; in
// env.prompts_of an empty one is that of env.prompts.
type Prompts struct {
	System  string `yaml:"system"`  // empty for no system message
	Initial string `yaml:"initial"` // a base task
	Refine  string `yaml:"refine"`  // a later turn of one trajectory
	Improve string `yaml:"improve"` // ExIt App. B
	Diverge string `yaml:"diverge"` // ExIt App. B
}

// Data says where the training and the held-out problems come from.
type Data struct {
	Seed    *uint64   `yaml:"seed"` // decides which problems are generated and which ones a limit keeps; null for the run's seed, by which each run of a sweep has problems of its own
	Train   Source    `yaml:"train"`
	Test    Source    `yaml:"test"`
	Offline string    `yaml:"offline" path:"file"` // folder iter/NNNNNN of another run, which has sampled from data.train: the problems that it has responses to are trained on, each as it is and once more to refine the first response (FlipTS App. D: step-level GRPO); $NAME is taken from the environment
	HeldOut []HeldOut `yaml:"held_out"`            // more sets of held-out problems, to be measured by evaluation.sets
}

// HeldOut is a set of held-out problems beside data.test. The ids of its problems
// begin with its name, so that a file may be in several sets.
type HeldOut struct {
	Name   string `yaml:"name"` // of the set, for evaluation.sets and env.prompts_of
	Source `yaml:",inline"`
}

// SetDefaults names the fields of a line as those of data.test are.
func (h *HeldOut) SetDefaults() { h.Source = defaultSource() }

// part is the source of a split.
type part struct {
	split env.Split
	where string // it stands in the recipe
	Source
}

// parts lists the sources of all splits, training first.
func (d Data) parts() []part {
	parts := []part{{env.Train, "data.train", d.Train}, {env.Test, "data.test", d.Test}}
	for i, h := range d.HeldOut {
		parts = append(parts, part{env.Split(h.Name), fmt.Sprintf("data.held_out.%d", i), h.Source})
	}
	return parts
}

// generating is the side of the test share on which a split lies.
func (p part) generating() env.Split {
	if p.split == env.Train {
		return env.Train
	}
	return env.Test
}

// Source is one set of problems: read from files, generated, or both.
type Source struct {
	Generate       *generate.Settings `yaml:"generate"`
	dataset.Source `yaml:",inline"`
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: Name, Summary: "questions with short answers", Default: true,
		Settings: func() any { return DefaultSettings() },
		Make: func(settings any) (env.Setup, error) {
			s := settings.(*Settings)
			return env.Setup{
				Traits: s.traits(), Checker: &checker, Generator: &generator,
				Data: &Data{Train: defaultSource(), Test: defaultSource()},
				Validate: func(c *config.Checker, data any) {
					d := data.(*Data)
					validate(c, s)
					d.validate(c)
					checkSetsNamed(c, s, d)
					checkOffline(c, s, d)
				},
				Load: func(data any, seed uint64, folder string) (*env.TaskSet, error) {
					return load(data.(*Data), seed, folder)
				},
				New: func(tasks *env.TaskSet, _ string) (env.Env, error) { return fromTasks(s, tasks) },
			}, nil
		},
	})
}

// DefaultSettings ask for one turn and take Math-Verify's rules.
func DefaultSettings() *Settings {
	return &Settings{
		MaxTurns: 1,
		Prompts: Prompts{
			Initial: "{question}",
			Refine:  refineTemplate,
			Improve: env.ImprovePrompt,
			Diverge: env.DivergePrompt,
		},
		Answer: answer.DefaultSettings(),
	}
}

func defaultSource() Source { return Source{Source: dataset.DefaultSource()} }

// traits: an answer is one message a turn, scored at once.
func (s *Settings) traits() env.Traits { return env.Traits{Turns: s.MaxTurns, Waves: 1} }

func validate(c *config.Checker, s *Settings) {
	turns := c.AtLeast("env.max_turns", s.MaxTurns, 1)
	p := s.Prompts
	env.CheckTemplate(c, "env.prompts.system", p.System)
	env.CheckTemplate(c, "env.prompts.refine", p.Refine)
	if turns && s.MaxTurns > 1 && strings.TrimSpace(p.Refine) == "" {
		c.Add("env.prompts.refine", p.Refine, "must not be empty when env.max_turns is %d", s.MaxTurns)
	}
	env.CheckTemplates(c, "env.prompts", p.Initial, p.Improve, p.Diverge)
	named := map[string]bool{}
	for i, p := range s.PromptsOf {
		field := fmt.Sprintf("env.prompts_of.%d", i)
		env.CheckSetName(c, field+".set", p.Set, named)
		env.CheckTemplate(c, field+".system", p.System)
		env.CheckTemplate(c, field+".refine", p.Refine)
		for _, t := range []struct {
			name, text string
			needs      [][]string
		}{
			{"initial", p.Initial, [][]string{env.NeedsQuestion}},
			{"improve", p.Improve, [][]string{env.NeedsTask, env.NeedsPrevious}},
			{"diverge", p.Diverge, [][]string{env.NeedsTask, env.NeedsPrevious}},
		} {
			if t.text != "" {
				env.CheckTemplate(c, field+"."+t.name, t.text, t.needs...)
			}
		}
	}
	s.Answer.Validate(c)
}

// checkSetsNamed checks that prompts are those of a set that is there.
func checkSetsNamed(c *config.Checker, s *Settings, d *Data) {
	for i, p := range s.PromptsOf {
		if !slices.ContainsFunc(d.HeldOut, func(h HeldOut) bool { return h.Name == p.Set }) {
			c.Add(fmt.Sprintf("env.prompts_of.%d.set", i), p.Set, "is no set of data.held_out")
		}
	}
}

func (d *Data) validate(c *config.Checker) {
	if d.Train.SkipRepeated {
		c.Add("data.train.skip_repeated", true, "is for what is held out")
	}
	train, test := d.Train.Generate, d.Test.Generate
	for _, p := range d.parts() {
		p.validate(c, p.where, p.split == env.Test && d.Train.TestShare > 0)
		if p.split != env.Train {
			p.NeedsTrain(c, p.where)
		}
		if own := p.Generate; train != nil && own != nil && train.TestShare != own.TestShare {
			c.Add(p.where+".generate.test_share", own.TestShare,
				"must equal data.train.generate.test_share %v, or the splits overlap", train.TestShare)
		}
	}
	named := map[string]bool{}
	for i, h := range d.HeldOut {
		env.CheckSetName(c, fmt.Sprintf("data.held_out.%d.name", i), h.Name, named)
	}
	if test != nil && len(d.Test.Files) == 0 {
		env.CheckProblems(c, "data.test.generate.count", test.Count)
	}
	env.CheckProblems(c, "data.test.limit", d.Test.Limit)
}

func (s *Source) validate(c *config.Checker, field string, mayBeEmpty bool) {
	if s.Generate == nil && len(s.Files) == 0 && !mayBeEmpty {
		c.Add(field, nil, "is empty: give %s.generate or %s.files, or both", field, field)
	}
	if s.Generate != nil {
		s.Generate.Validate(c, field+".generate")
	}
	s.Source.Validate(c, field)
}

// refineTemplate is the user message of every turn after the first in FlipTS,
// appendix I, whose {candidate_answer} is our {previous_response}.
const refineTemplate = `You are given a math problem and a potential solution.
This attempt may be flawed or partial.
Correct any errors and build upon its ideas to produce an improved, high-quality solution.
If the original attempt is unusable, generate a correct solution from scratch.
End with the final result in \boxed{}.

Problem:
{question}

Candidate solution (may contain mistakes):
-- Candidate --
{previous_response}

Now refine the candidate into an improved solution.
Provide clear reasoning and end with the final answer in \boxed{}.`
