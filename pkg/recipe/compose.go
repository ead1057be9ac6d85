package recipe

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/scaffold"
)

// Axis is one question that every recipe answers by one choice or by several.
type Axis struct {
	Name     string       `json:"axis"`
	Question string       `json:"question"`
	Fields   []string     `json:"fields"` // of a recipe that name its choices
	Choices  []AxisChoice `json:"choices"`
}

// AxisChoice is what is registered for an axis.
type AxisChoice struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	Default bool   `json:"default,omitempty"` // of recipes that name none
}

// Axes lists the axes and what is registered for each.
func Axes() []Axis {
	return []Axis{
		{"environment", "in which world does the policy act?", []string{"env.name"}, choices(env.Axis.All())},
		{"curriculum", "which instances are sampled next?", []string{"curriculum.name"}, choices(curriculum.Axis.All())},
		{"scaffold", "what does the next attempt of a trace start from?", []string{"scaffold.name", "evaluation.scaffold"}, choices(scaffold.Axis.All())},
		{"segments", "what gets one credit?", []string{"segments"}, choices(credit.SegmentsAxis.All())},
		{"reward", "what is a segment worth?", []string{"reward.name"}, choices(credit.RewardAxis.All())},
		{"select", "what is trained on?", []string{"select"}, choices(credit.SelectAxis.All())},
		{"advantage", "against what is it compared?", []string{"advantage.name"}, choices(credit.AdvantageAxis.All())},
		{"factors", "what are advantages, or weights, multiplied by?", []string{"factors"}, choices(credit.FactorAxis.All())},
		{"weight", "how much does it count?", []string{"weight"}, choices(credit.WeightAxis.All())},
	}
}

func choices[T any](registered []registry.Choice[T]) []AxisChoice {
	var all []AxisChoice
	for _, c := range registered {
		all = append(all, AxisChoice{c.Name, c.Summary, c.Default})
	}
	return all
}

// Choice is what a recipe chooses on one axis, in the words of a recipe: names, and
// after each those of its settings that are not the default ones.
type Choice struct {
	Axis string `json:"axis"`
	Text string `json:"choice"`
}

// Method is what the recipe chooses on every axis, and how it departs from its preset.
// Two recipes with the same choices learn by the same method.
func (r *Recipe) Method() ([]Choice, error) {
	spec := r.CreditSpec()
	filled, err := preset.Lookup(r.Preset)
	if err != nil {
		return nil, err
	}
	chain := func(name string, steps int, seconds float64) string {
		text := with(name, r.Scaffold.Variants.Of(name), scaffold.Axis.Variants())
		if steps > 0 {
			text += fmt.Sprintf(", steps %d", steps)
		}
		if seconds > 0 {
			text += fmt.Sprintf(", seconds %g", seconds)
		}
		return text
	}
	// Both names stand by themselves.
	filled.Loss.Kind, filled.Advantage.Name = r.Loss.Kind, r.Advantage.Name
	loss := config.Overrides(&r.Loss, &filled.Loss)
	advantage := config.Overrides(&r.Advantage.AdvantageSettings, &filled.Advantage)
	return []Choice{
		{"environment", r.Env.String()},
		{"curriculum", with(r.Curriculum.Name, r.Curriculum.Settings(), curriculum.Axis.Variants())},
		{"scaffold", chain(r.Scaffold.Name, r.Scaffold.Steps, r.Scaffold.Seconds)},
		{"evaluation", chain(r.Evaluation.Scaffold, r.Evaluation.Steps, r.Evaluation.Seconds)},
		{"segments", one(spec.Segments, credit.SegmentsAxis)},
		{"reward", one(spec.Reward, credit.RewardAxis)},
		{"select", selections(spec)},
		{"preset", r.Preset},
		{"advantage", beside(spec.Advantage.Name, advantage)},
		{"factors", r.Factors.String()},
		{"weight", one(r.Weight.Choice(), credit.WeightAxis)},
		{"loss", beside(r.Loss.Kind, loss)},
	}, nil
}

// selections is what the recipe selects, and what environments select that have a choice
// of their own.
func selections(spec credit.Spec) string {
	text := spec.Select.String()
	for _, name := range slices.Sorted(maps.Keys(spec.SelectOf)) {
		text += "; " + name + ": " + spec.SelectOf[name].String()
	}
	return text
}

func one[T any](c credit.Choice, axis *registry.Registry[T]) string {
	return with(c.Name, c.Settings, axis.Variants())
}

// with is a choice with those of its settings that are not the default ones.
func with(name string, settings any, variants config.Variants) string {
	defaults := variants.Of(name)
	if settings == nil || defaults == nil {
		return name
	}
	return beside(name, config.Overrides(settings, defaults))
}

func beside(name string, set []string) string {
	if len(set) == 0 {
		return name
	}
	return name + " {" + strings.Join(set, ", ") + "}"
}

// changesNothing are the sections of a recipe that name a run or say where it runs
// and leave what it learns as it is.
var changesNothing = []string{"name", "description", "seed", "resources"}

// Differences are the settings in which two resolved recipes differ, in words of a
// recipe. Name, description, seed and resources are left out.
func Differences(was, is []byte) ([]config.Change, error) {
	changes, err := config.Changes(was, is)
	return slices.DeleteFunc(changes, func(c config.Change) bool {
		section, _, _ := strings.Cut(c.Path, ".")
		return slices.Contains(changesNothing, section)
	}), err
}

// Composition lists the axes with what the recipe chooses on each, and nothing
// else.
func (r *Recipe) Composition() []Axis {
	var factors []string
	for _, pick := range r.Factors {
		factors = append(factors, pick.Name)
	}
	selected := r.Select.Names()
	for _, own := range r.CreditSpec().SelectOf {
		selected = append(selected, own.Names()...)
	}
	chosen := map[string][]string{
		"environment": {r.Env.Name},
		"curriculum":  {r.Curriculum.Name},
		"scaffold":    {r.Scaffold.Name, r.Evaluation.Scaffold},
		"segments":    {r.Segments.Choice().Name},
		"reward":      {r.Reward.Name},
		"select":      credit.Ordered(selected),
		"advantage":   {r.Advantage.Name},
		"factors":     factors,
		"weight":      {r.Weight.Choice().Name},
	}
	axes := Axes()
	for i, axis := range axes {
		axes[i].Choices = slices.DeleteFunc(axis.Choices, func(c AxisChoice) bool { return !slices.Contains(chosen[axis.Name], c.Name) })
	}
	return axes
}

// Compositions is the page of what each recipe of files chooses on every axis, in
// Markdown. paths are the files from the folder of the page.
func Compositions(folder string, paths []string) (string, error) {
	var b strings.Builder
	b.WriteString("# What each recipe chooses\n\nMade from the recipes by a test (`go test ./pkg/recipe -update`), so that a change of what a recipe means\n" +
		"shows as a change of this page. A choice stands with those of its settings that are not the default ones; advantage and loss with\n" +
		"those in which they depart from the preset. `lathe recipe compose RECIPE` says what the choices do.\n")
	head := ""
	for _, path := range paths {
		resolved, err := Load(filepath.Join(folder, path), nil)
		if err != nil {
			return "", err
		}
		choices, err := resolved.Recipe.Method()
		if err != nil {
			return "", err
		}
		if dir := filepath.ToSlash(filepath.Dir(path)); dir != head {
			head = dir
			fmt.Fprintf(&b, "\n## %s\n\n| recipe |", strings.Replace(dir, ".", "jobs", 1))
			for _, c := range choices {
				fmt.Fprintf(&b, " %s |", c.Axis)
			}
			b.WriteString("\n|---" + strings.Repeat("|---", len(choices)) + "|\n")
		}
		fmt.Fprintf(&b, "| [%s](%s) |", resolved.Recipe.Name, filepath.ToSlash(path))
		for _, c := range choices {
			fmt.Fprintf(&b, " %s |", strings.ReplaceAll(c.Text, "|", `\|`))
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
