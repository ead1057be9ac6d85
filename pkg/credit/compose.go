package credit

import "github.com/lathe-rl/lathe/pkg/objective"

// Spec is what a recipe says of credit: the names of the choices of each axis,
// and their settings.
type Spec struct {
	Segments  string
	Reward    string
	Filters   objective.Filters
	Advantage objective.Advantage
	Factors   []string // on the advantage
}

// New composes what a recipe names.
func New(spec Spec) (Composition, error) {
	var c Composition
	var err error
	if c.Segments, err = SegmentsAxis.Make(spec.Segments, nil); err != nil {
		return c, err
	}
	if c.Reward, err = RewardAxis.Make(spec.Reward, nil); err != nil {
		return c, err
	}
	if c.Advantage, err = AdvantageAxis.Make(spec.Advantage.Kind, &spec.Advantage); err != nil {
		return c, err
	}
	on := map[string]any{ReasonMinGroup: &Limit{float64(spec.Filters.MinGroup)}, ReasonMinAdvantage: &Limit{spec.Filters.MinAdvantage}}
	for name, is := range map[string]bool{ReasonConstantGroup: spec.Filters.ConstantGroup, ReasonOverlong: spec.Filters.Overlong, ReasonInvalid: spec.Filters.Invalid} {
		if is {
			on[name] = nil
		}
	}
	names := make([]string, 0, len(on))
	for name := range on {
		names = append(names, name)
	}
	for _, name := range Ordered(names) {
		choice, err := SelectAxis.Make(name, on[name])
		if err != nil {
			return c, err
		}
		c.Select = append(c.Select, choice)
	}
	for _, name := range spec.Factors {
		factor, err := FactorAxis.Make(name, nil)
		if err != nil {
			return c, err
		}
		c.Factors = append(c.Factors, factor)
	}
	c.Clip = spec.Advantage.Clip
	return c, nil
}
