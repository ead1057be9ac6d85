package credit

import (
	_ "embed"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed selection.go
var selectionSource string

var _ = config.Docs[Picked](selectionSource)

// Selection is what a recipe's select names: the choices that decide what is
// trained on, in any order. What is not named is off, and nothing else is.
type Selection []config.Pick

// Picked is the settings of one choice of select.
type Picked struct {
	Mask bool `yaml:"mask"`    // keep what the choice finds in the denominators of the loss, without a gradient, instead of leaving it out of the batch
	Own  any  `yaml:",inline"` // the choice's own
}

// Offers are the choices that a recipe can name, with their default settings.
func (Selection) Offers() config.Variants {
	var offers config.Variants
	for _, c := range SelectAxis.All() {
		if c.Name == ReasonEmpty {
			continue // every composition has it
		}
		settings := &Picked{}
		if c.Settings != nil {
			settings.Own = c.Settings()
		}
		offers = append(offers, config.Variant{Name: c.Name, Settings: settings, Doc: c.Summary})
	}
	return offers
}

// Named is a selection of choices with their default settings.
func Named(names ...string) Selection {
	var s Selection
	for _, name := range names {
		s = append(s, config.Pick{Name: name, Settings: s.Offers().Of(name)})
	}
	return s
}

// With adds a choice with its own settings, in place of one of the same name.
func (s Selection) With(name string, own any) Selection {
	s = slices.DeleteFunc(slices.Clone(s), func(p config.Pick) bool { return p.Name == name })
	return append(s, config.Pick{Name: name, Settings: &Picked{Own: own}})
}

// picked is the settings of a choice; nil where the selection does not name the choice.
func (s Selection) picked(name string) *Picked {
	for _, p := range s {
		if p.Name == name {
			return p.Settings.(*Picked)
		}
	}
	return nil
}

// Of is the own settings of a choice; ok is false where the selection does not name
// the choice.
func (s Selection) Of(name string) (own any, ok bool) {
	if p := s.picked(name); p != nil {
		return p.Own, true
	}
	return nil, false
}

// Names lists the choices.
func (s Selection) Names() []string {
	names := make([]string, len(s))
	for i, p := range s {
		names[i] = p.Name
	}
	return names
}

// String is the selection as a recipe writes it on one line.
func (s Selection) String() string { return config.Short(s, s.Offers()) }

// Validate checks the settings of each choice. The checker knows the whole recipe.
func (s Selection) Validate(c *config.Checker) {
	for _, p := range s {
		choice, err := SelectAxis.Lookup(p.Name)
		if err != nil {
			c.Add("select", p.Name, "%v", err)
			continue
		}
		if choice.Validate != nil {
			choice.Validate(c, p.Settings.(*Picked).Own)
		}
	}
}

// choices are the choices of the axis that the selection names, in the order in which
// their reasons count.
func (s Selection) choices() ([]Select, error) {
	var chosen []Select
	for _, name := range Ordered(s.Names()) {
		own, _ := s.Of(name)
		choice, err := SelectAxis.Make(name, own)
		if err != nil {
			return nil, err
		}
		if s.masks(name) {
			choice = masking{choice}
		}
		chosen = append(chosen, choice)
	}
	return chosen, nil
}

func (s Selection) masks(name string) bool {
	p := s.picked(name)
	return p != nil && p.Mask
}

// picks reports whether the recipe that a checker knows names a choice of select, with
// that choice's own settings.
func picks(c *config.Checker, name string) (own any, ok bool) {
	s, _ := config.Find[Selection](c.Settings(), "select")
	return s.Of(name)
}
