package credit

import (
	"reflect"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/registry"
)

// Choice is the name of a choice and its settings, nil for the defaults.
type Choice struct {
	Name     string
	Settings any
}

// Spec is what a recipe says of credit: its choices on each axis.
type Spec struct {
	Segments  Choice
	Reward    Choice
	Select    []Choice // in any order
	Masked    []string // of Select, those that leave segments in without a gradient
	Advantage Choice
	Factors   []Choice // on the advantage
	Weights   []Choice // factors on the weight
	Clip      float64  // of the advantage; 0 for none
}

// Selected are the choices of select that the section filters has on: those of
// its own fields, and those that are registered beside them, each of which is
// off while its settings are all zero.
func Selected(f objective.Filters, registered config.Variants) []Choice {
	selected := []Choice{{ReasonMinGroup, &Limit{float64(f.MinGroup)}}}
	if f.MinAdvantage != 0 {
		selected = append(selected, Choice{ReasonMinAdvantage, &Limit{f.MinAdvantage}})
	}
	for _, s := range []struct {
		name string
		on   bool
	}{{ReasonConstantGroup, f.ConstantGroup}, {ReasonOverlong, f.Overlong}, {ReasonInvalid, f.Invalid}} {
		if s.on {
			selected = append(selected, Choice{Name: s.name})
		}
	}
	for _, variant := range registered {
		if !reflect.ValueOf(variant.Settings).Elem().IsZero() {
			selected = append(selected, Choice{variant.Name, variant.Settings})
		}
	}
	return selected
}

// NamesOf lists the names of choices.
func NamesOf(choices []Choice) []string {
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = c.Name
	}
	return names
}

// masking is a choice that takes the gradient alone.
type masking struct{ Select }

func (masking) When() When { return Mask }

// unmasked is the choice itself.
func unmasked(choice Select) Select {
	if m, ok := choice.(masking); ok {
		return m.Select
	}
	return choice
}

// New composes what a recipe names.
func New(spec Spec) (Composition, error) {
	c := Composition{Clip: spec.Clip}
	var err error
	if c.Segments, err = SegmentsAxis.Make(spec.Segments.Name, spec.Segments.Settings); err != nil {
		return c, err
	}
	if c.Reward, err = RewardAxis.Make(spec.Reward.Name, spec.Reward.Settings); err != nil {
		return c, err
	}
	if c.Advantage, err = AdvantageAxis.Make(spec.Advantage.Name, spec.Advantage.Settings); err != nil {
		return c, err
	}
	settings := make(map[string]any, len(spec.Select))
	for _, s := range spec.Select {
		settings[s.Name] = s.Settings
	}
	for _, name := range Ordered(NamesOf(spec.Select)) {
		choice, err := SelectAxis.Make(name, settings[name])
		if err != nil {
			return c, err
		}
		if slices.Contains(spec.Masked, name) {
			choice = masking{choice}
		}
		c.Select = append(c.Select, choice)
	}
	if c.Factors, err = makeAll(FactorAxis, spec.Factors); err != nil {
		return c, err
	}
	c.Weights, err = makeAll(FactorAxis, spec.Weights)
	return c, err
}

func makeAll[T any](axis *registry.Registry[T], choices []Choice) ([]T, error) {
	var made []T
	for _, choice := range choices {
		one, err := axis.Make(choice.Name, choice.Settings)
		if err != nil {
			return nil, err
		}
		made = append(made, one)
	}
	return made, nil
}
