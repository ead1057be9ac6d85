package recipe

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
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
		{"environment", "in which world does the policy act?", []string{"env.name"}, choices(env.Choices())},
		{"curriculum", "which instances are sampled next?", []string{"curriculum.name"}, choices(curriculum.Choices())},
		{"scaffold", "what does the next attempt of a trace start from?", []string{"scaffold.name", "evaluation.scaffold"}, choices(scaffold.Axis.All())},
		{"segments", "what gets one credit?", []string{"credit.segments"}, choices(credit.SegmentsAxis.All())},
		{"reward", "what is a segment worth?", []string{"credit.reward"}, choices(credit.RewardAxis.All())},
		{"select", "what is trained on?", []string{"select"}, choices(credit.SelectAxis.All())},
		{"advantage", "against what is it compared?", []string{"advantage.kind"}, choices(credit.AdvantageAxis.All())},
		{"factor", "what are advantages, or weights, multiplied by?", []string{"advantage.factors", "loss.weights"}, choices(credit.FactorAxis.All())},
		{"weight", "how much does it count?", []string{"loss.aggregation"}, choices(credit.WeightAxis.All())},
	}
}

func choices[T any](registered []registry.Choice[T]) []AxisChoice {
	var all []AxisChoice
	for _, c := range registered {
		all = append(all, AxisChoice{c.Name, c.Summary, c.Default})
	}
	return all
}

// Composition lists the axes with what the recipe chooses on each, and nothing
// else. The settings of its environment and its curriculum may ask for choices
// too.
func (r *Recipe) Composition() ([]Axis, error) {
	spec, err := r.CreditSpec()
	if err != nil {
		return nil, err
	}
	names := func(choices []credit.Choice) []string {
		var names []string
		for _, c := range choices {
			names = append(names, c.Name)
		}
		return names
	}
	chosen := map[string][]string{
		"environment": {r.Env.Name},
		"curriculum":  {r.Curriculum.Name},
		"scaffold":    {r.Scaffold.Name, r.Evaluation.Scaffold},
		"segments":    {spec.Segments.Name},
		"reward":      {spec.Reward.Name},
		"select":      credit.Ordered(spec.Select.Names()),
		"advantage":   {spec.Advantage.Name},
		"factor":      append(names(spec.Factors), names(spec.Weights)...),
		"weight":      {r.Loss.Aggregation},
	}
	axes := Axes()
	for i, axis := range axes {
		axes[i].Choices = slices.DeleteFunc(axis.Choices, func(c AxisChoice) bool { return !slices.Contains(chosen[axis.Name], c.Name) })
	}
	return axes, nil
}
