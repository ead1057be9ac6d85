package credit

import (
	_ "embed"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed picks.go
var picksSource string

var _ = config.Docs[Placed](picksSource)

// SegmentsPick is what a recipe's segments names.
type SegmentsPick []config.Pick

// Offers are the choices of segments.
func (SegmentsPick) Offers() config.Variants { return SegmentsAxis.Offers(nil) }

// Single says that a recipe names one.
func (SegmentsPick) Single() {}

// WeightPick is what a recipe's weight names.
type WeightPick []config.Pick

// Offers are the choices of weight.
func (WeightPick) Offers() config.Variants { return WeightAxis.Offers(nil) }

// Single says that a recipe names one.
func (WeightPick) Single() {}

// MarshalJSON writes the choice as a recipe has it.
func (p WeightPick) MarshalJSON() ([]byte, error) { return config.JSONOfOne(p) }

// SegmentsNamed is a choice of segments with its default settings.
func SegmentsNamed(name string) SegmentsPick { return SegmentsPick(named(SegmentsPick{}, name)) }

// WeightNamed is a choice of weight with its default settings.
func WeightNamed(name string) WeightPick { return WeightPick(named(WeightPick{}, name)) }

func named(menu config.Menu, names ...string) []config.Pick {
	var picks []config.Pick
	for _, name := range names {
		picks = append(picks, config.Pick{Name: name, Settings: menu.Offers().Of(name)})
	}
	return picks
}

// Choice is the choice and its settings; no name where a program has picked none.
func (p SegmentsPick) Choice() Choice { return only(p) }

// Choice is the choice and its settings; no name where a program has picked none.
func (p WeightPick) Choice() Choice { return only(p) }

func only(picks []config.Pick) Choice {
	if len(picks) != 1 {
		return Choice{}
	}
	return chosen(picks[0].Name, picks[0].Settings)
}

// chosen is a choice whose settings are nil where it has none.
func chosen(name string, settings any) Choice {
	if _, none := settings.(*struct{}); none {
		settings = nil
	}
	return Choice{name, settings}
}

// FactorPicks are what a recipe's factors name: what advantages or weights are
// multiplied by, in this order.
type FactorPicks []config.Pick

// Placed is the settings of one choice of factors.
type Placed struct {
	Multiplies string `yaml:"multiplies" choices:"advantage,weight,both"` // advantage: the advantages alone; weight: the weights, and so all terms of the loss; or both
	Own        any    `yaml:",inline"`                                    // the choice's own
}

// The values of Placed.Multiplies.
const (
	MultipliesAdvantage = "advantage"
	MultipliesWeight    = "weight"
	MultipliesBoth      = "both"
)

// Offers are the choices of factors, on the advantage.
func (FactorPicks) Offers() config.Variants {
	return FactorAxis.Offers(func(own any) any { return &Placed{MultipliesAdvantage, own} })
}

// On are the factors that multiply the advantage, or the weight.
func (p FactorPicks) On(what string) []Choice {
	var choices []Choice
	for _, pick := range p {
		if s := pick.Settings.(*Placed); s.Multiplies == what || s.Multiplies == MultipliesBoth {
			choices = append(choices, chosen(pick.Name, s.Own))
		}
	}
	return choices
}

// String is the list as a recipe writes it on one line.
func (p FactorPicks) String() string { return config.Short(p, p.Offers()) }

// Validate checks the settings of each factor. The checker knows the whole recipe.
func (p FactorPicks) Validate(c *config.Checker) {
	for _, pick := range p {
		s := pick.Settings.(*Placed)
		c.Choice("factors."+pick.Name+".multiplies", s.Multiplies)
		validate(c, FactorAxis, "factors", pick.Name, s.Own)
	}
}

// Validate checks the settings of the choice.
func (p SegmentsPick) Validate(c *config.Checker) {
	validate(c, SegmentsAxis, "segments", p.Choice().Name, p.Choice().Settings)
}

// Validate checks the settings of the choice.
func (p WeightPick) Validate(c *config.Checker) {
	validate(c, WeightAxis, "weight", p.Choice().Name, p.Choice().Settings)
}

func validate[T any](c *config.Checker, axis *registry.Registry[T], field, name string, settings any) {
	axis.Validate(c, field, name, config.Variants{{Name: name, Settings: settings}})
}

// multipliesAdvantage reports whether the recipe that a checker knows names a factor on the
// advantage.
func multipliesAdvantage(c *config.Checker, name string) bool {
	factors, _ := config.Find[FactorPicks](c.Settings(), "factors")
	return slices.ContainsFunc(factors.On(MultipliesAdvantage), func(f Choice) bool { return f.Name == name })
}
