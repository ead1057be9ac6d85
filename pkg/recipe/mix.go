package recipe

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shares"
)

//go:embed mix.go
var mixSource string

var _ = config.Docs[Mix](mixSource)

// Mix are the environments of a run that has several. A recipe may write the list in the
// place of the section env.
type Mix struct {
	Of []Part `yaml:"of"` // the environments; section env may be this list itself
}

// Part is one environment of several.
type Part struct {
	env.Part `yaml:",inline"`
	Select   *credit.Selection `yaml:"select"` // what of it is trained on, in the form and in the place of the recipe's select; null: as the recipe's
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: env.MixName, Summary: "several environments in one run, each with a share of the prompts",
		Settings: func() any { return &Mix{} },
		Make: func(settings any) (env.Setup, error) {
			var parts env.Mix
			for _, p := range settings.(*Mix).Of {
				parts = append(parts, p.Part)
			}
			return parts.Setup()
		},
	})
}

// Find is the environment of a name in the run.
func (m *Mix) Find(name string) (Part, bool) {
	at := slices.IndexFunc(m.Of, func(p Part) bool { return p.Called() == name })
	if at < 0 {
		return Part{}, false
	}
	return m.Of[at], true
}

// selects are the environments' own choices of select, by their names in the run.
func (m *Mix) selects() map[string]credit.Selection {
	own := map[string]credit.Selection{}
	for _, p := range m.Of {
		if p.Select != nil {
			own[p.Called()] = *p.Select
		}
	}
	return own
}

// List is the field that section env is where it is written as a list.
func (Env) List() string { return "of" }

// Mix are the environments where there are several; nil where there is one.
func (e Env) Mix() *Mix {
	mix, _ := e.Settings.(*Mix)
	return mix
}

// Names are those of the environments in the run.
func (e Env) Names() []string {
	mix := e.Mix()
	if mix == nil {
		return []string{e.Name}
	}
	var names []string
	for _, p := range mix.Of {
		names = append(names, p.Called())
	}
	return names
}

// String is the name, and of several environments the names and weights.
func (e Env) String() string {
	mix := e.Mix()
	if mix == nil {
		return e.Name
	}
	var parts []string
	for _, p := range mix.Of {
		text := p.Name
		if p.Called() != p.Name {
			text = p.Called() + ": " + text
		}
		parts = append(parts, fmt.Sprintf("%s × %g", text, p.Weight))
	}
	return e.Name + " [" + strings.Join(parts, ", ") + "]"
}

// mixture is the curriculum over several environments.
func (r *Recipe) mixture(mix *Mix) (curriculum.Curriculum, error) {
	var weights []float64
	for _, p := range mix.Of {
		weights = append(weights, p.Weight)
	}
	return curriculum.NewMixture(r.Env.Names(), weights, r.Seed, r.Curriculum.New)
}

// checkMix checks the environments of a list, each as in a recipe of its own.
func (r *Recipe) checkMix(c *config.Checker, mix *Mix) {
	if len(mix.Of) == 0 {
		c.Add("env.of", nil, "names no environment")
	}
	if made, err := r.Curriculum.New(r.Seed); err == nil {
		if _, ok := made.(curriculum.Divisible); !ok {
			c.Add("curriculum.name", r.Curriculum.Name, "draws from all tasks at once and keeps no shares of several environments: choose one of %s", strings.Join(divisible(), ", "))
		}
	}
	named := map[string]bool{}
	for i, p := range mix.Of {
		field := fmt.Sprintf("env.of.%d", i)
		settings, _, err := env.Defaults(p.Name)
		if err != nil || reflect.TypeOf(settings) != reflect.TypeOf(p.Settings) {
			c.Add(field+".name", p.Name, "is set apart from the environment's fields: write the list in the recipe")
			continue
		}
		if named[p.Called()] {
			c.Add(field+".as", p.Called(), "is the name of two environments: give one of them another with as")
		} else {
			env.CheckSetName(c, field+".as", p.Called(), named)
		}
		if !(p.Weight >= shares.Least && p.Weight <= shares.Most) {
			c.Add(field+".weight", p.Weight, "must be from %g to %d; leave an environment out for 0", shares.Least, shares.Most)
		}
		if p.MaxNewTokens != nil {
			c.Between(field+".max_new_tokens", *p.MaxNewTokens, 1, r.Rollout.MaxNewTokens)
		}
		if p.Steps != nil {
			c.Between(field+".steps", *p.Steps, 0, r.Scaffold.Steps)
		}
		own := *r
		own.Env, own.Data = Env{Name: p.Name, Settings: p.Settings}, Data{Settings: p.Data.Settings}
		own.Evaluation.Problems = 0 // those of the test split are drawn from all environments
		if set, err := r.Evaluation.Of(p.Called()); err == nil {
			own.Evaluation.Problems = set.Problems
		}
		of := config.NewChecker(&own)
		own.checkEnv(of)
		if p.Select != nil {
			own.Select = *p.Select
			own.Select.Validate(of)
		}
		c.Take(of, func(path string) string {
			switch section, rest, _ := strings.Cut(path, "."); section {
			case "env":
				return field + "." + rest
			case "data", "select":
				return field + "." + path
			}
			return path
		})
	}
}

// divisible are the curricula that several environments can have.
func divisible() (names []string) {
	for _, choice := range curriculum.Axis.All() {
		if made, err := curriculum.New(choice.Name, nil, 0); err == nil {
			if _, ok := made.(curriculum.Divisible); ok {
				names = append(names, choice.Name)
			}
		}
	}
	return names
}

// checkSetOfMix checks that a set of held-out problems is one of an environment.
func checkSetOfMix(c *config.Checker, field, set string, names []string, seen map[string]bool) {
	name, own, of := strings.Cut(set, "/")
	switch {
	case seen[set]:
		c.Add(field, set, "is named twice")
	case !slices.Contains(names, name) || of && own == "":
		c.Add(field, set, "is a set of no environment: it must be one of %s, for its test split, or NAME/SET for another set of it", strings.Join(names, ", "))
	}
	seen[set] = true
}
