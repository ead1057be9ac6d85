package credit

import "slices"

// Filters is the form that select had up to version 0590fd3: a choice was on while its
// settings were not all zero. Recipes of runs made then are still read; others are
// refused with the new form.
type Filters struct {
	ConstantGroup bool     `yaml:"constant_group"`
	Overlong      bool     `yaml:"overlong"`
	Invalid       bool     `yaml:"invalid"`
	MinGroup      int      `yaml:"min_group"`
	MinAdvantage  float64  `yaml:"min_advantage"`
	Masked        []string `yaml:"masked"`

	BelowPercentile BelowPercentile `yaml:"below_percentile"`
	BelowTop        Top             `yaml:"below_top"`
	InvalidTurns    oldSwitch       `yaml:"invalid_turns"`
	NoSubmission    oldSwitch       `yaml:"no_submission"`
	NonPositive     oldSwitch       `yaml:"non_positive"`
	NotImproved     oldNotImproved  `yaml:"not_improved"`
}

type oldSwitch struct {
	Enabled bool `yaml:"enabled"`
}

type oldNotImproved struct {
	Enabled     bool `yaml:"enabled"`
	NotImproved `yaml:",inline"`
}

// OldForm is the selection as the old form wrote it.
func (s Selection) OldForm() Filters {
	f := Filters{MinGroup: 1}
	on := func(name string) bool { return slices.Contains(s.Names(), name) }
	f.ConstantGroup, f.Overlong, f.Invalid = on(ReasonConstantGroup), on(ReasonOverlong), on(ReasonInvalid)
	f.InvalidTurns.Enabled, f.NoSubmission.Enabled, f.NonPositive.Enabled = on(ReasonInvalidTurns), on(ReasonNoSubmission), on(ReasonNonPositive)
	for _, p := range s {
		if s.masks(p.Name) {
			f.Masked = append(f.Masked, p.Name)
		}
		switch own := p.Settings.(*Picked).Own.(type) {
		case *MinGroup:
			f.MinGroup = own.Responses
		case *MinAdvantage:
			f.MinAdvantage = own.Magnitude
		case *BelowPercentile:
			f.BelowPercentile = *own
		case *Top:
			f.BelowTop = *own
		case *NotImproved:
			f.NotImproved = oldNotImproved{Enabled: true, NotImproved: *own}
		}
	}
	return f
}

// Meant is the selection that the old form was written for, where enabled: false
// turns a choice off.
func (f Filters) Meant() Selection { return f.selection(f.NotImproved.Enabled) }

// Done is the selection that ran: with a threshold, not_improved was on whatever its
// enabled said.
func (f Filters) Done() Selection { return f.selection(f.NotImproved != oldNotImproved{}) }

func (f Filters) selection(notImproved bool) Selection {
	var s Selection
	for _, choice := range []struct {
		name string
		on   bool
		own  any
	}{
		{ReasonConstantGroup, f.ConstantGroup, nil},
		{ReasonMinGroup, f.MinGroup > 1, &MinGroup{f.MinGroup}}, // with 1 it dropped nothing
		{ReasonOverlong, f.Overlong, nil},
		{ReasonInvalid, f.Invalid, nil},
		{ReasonMinAdvantage, f.MinAdvantage != 0, &MinAdvantage{f.MinAdvantage}},
		{ReasonInvalidTurns, f.InvalidTurns.Enabled, nil},
		{ReasonNoSubmission, f.NoSubmission.Enabled, nil},
		{ReasonNonPositive, f.NonPositive.Enabled, nil},
		{ReasonBelowPercentile, f.BelowPercentile != BelowPercentile{}, &f.BelowPercentile},
		{ReasonBelowTop, f.BelowTop != Top{}, &f.BelowTop},
		{ReasonNotImproved, notImproved, &f.NotImproved.NotImproved},
	} {
		if choice.on {
			s = s.With(choice.name, choice.own)
			s[len(s)-1].Settings.(*Picked).Mask = slices.Contains(f.Masked, choice.name)
		}
	}
	return s
}
