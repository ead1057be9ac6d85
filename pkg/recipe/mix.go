package recipe

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shares"
)

// List is the field that section env is where it is written as a list.
func (Env) List() string { return "of" }

// Mix are the environments where there are several; nil where there is one.
func (e Env) Mix() *env.Mix {
	mix, _ := e.Settings.(*env.Mix)
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
func (r *Recipe) mixture(mix *env.Mix) (curriculum.Curriculum, error) {
	var weights []float64
	for _, p := range mix.Of {
		weights = append(weights, p.Weight)
	}
	return curriculum.NewMixture(r.Env.Names(), weights, r.Seed, r.Curriculum.New)
}

// checkMix checks the environments of a list, each as in a recipe of its own.
func (r *Recipe) checkMix(c *config.Checker, mix *env.Mix) {
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
		c.Take(of, func(path string) string {
			switch section, rest, _ := strings.Cut(path, "."); section {
			case "env":
				return field + "." + rest
			case "data":
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
