package credit

import "github.com/lathe-rl/lathe/pkg/registry"

// Choice is the name of a choice and its settings, nil for the defaults.
type Choice struct {
	Name     string
	Settings any
}

// Spec is what a recipe says of credit: its choices on each axis.
type Spec struct {
	Segments  Choice
	Reward    Choice
	Overlong  *Overlong // with its lengths written out; nil for none
	Select    Selection
	SelectOf  map[string]Selection // by environment, in the place of Select; none where none has its own
	Advantage Choice
	Factors   []Choice // on the advantage
	Weights   []Choice // factors on the weight
	Clip      float64  // of the advantage; 0 for none
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
	c := Composition{Clip: spec.Clip, Overlong: spec.Overlong}
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
	if c.Select, err = spec.Select.choices(); err != nil {
		return c, err
	}
	c.SelectOf = make(map[string][]Select, len(spec.SelectOf))
	for name, own := range spec.SelectOf {
		if c.SelectOf[name], err = own.choices(); err != nil {
			return c, err
		}
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
