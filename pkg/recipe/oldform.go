package recipe

import (
	"reflect"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// oldForm is what recipes up to version 50bdd7a said of segments, factors, weights and
// filters (these up to 0590fd3).
type oldForm struct {
	Curriculum struct {
		Name string `yaml:"name"`
		Exit struct {
			DiversityBonus bool `yaml:"diversity_bonus"` // brought the factor diversity with it
		} `yaml:"exit"`
	} `yaml:"curriculum"`
	Env struct {
		Answer struct {
			StepImprovement bool `yaml:"step_improvement"`
		} `yaml:"answer"`
	} `yaml:"env"`
	Credit struct {
		Segments string          `yaml:"segments"`
		Variants config.Variants `yaml:",inline"`
	} `yaml:"credit"`
	Advantage struct {
		Factors  []string        `yaml:"factors"`
		Variants config.Variants `yaml:",inline"`
	} `yaml:"advantage"`
	Loss struct {
		Aggregation string          `yaml:"aggregation"`
		Weights     []string        `yaml:"weights"`
		Variants    config.Variants `yaml:",inline"`
	} `yaml:"loss"`
	Filters credit.Filters `yaml:"filters"`
}

const diversity = "diversity" // the factor that ExIt's bonus was

func newOldForm() oldForm {
	var o oldForm
	o.Credit.Variants = credit.SegmentsAxis.Variants()
	o.Advantage.Variants = credit.FactorAxis.Variants()
	o.Loss.Variants = append(credit.WeightAxis.Variants(), credit.FactorAxis.Variants()...)
	return o
}

// follow takes over what a recipe in the present form says.
func (o *oldForm) follow(r *Recipe) {
	o.Curriculum.Name = r.Curriculum.Name
	o.followSegments(r)
	o.followWeight(r)
	o.followFactors(r)
}

func (o *oldForm) followSegments(r *Recipe) {
	c := r.Segments.Choice()
	o.Credit.Segments = c.Name
	set(o.Credit.Variants, c)
}

func (o *oldForm) followWeight(r *Recipe) {
	c := r.Weight.Choice()
	o.Loss.Aggregation = c.Name
	set(o.Loss.Variants, c)
}

func (o *oldForm) followFactors(r *Recipe) {
	o.Curriculum.Exit.DiversityBonus, o.Advantage.Factors, o.Loss.Weights = false, nil, nil
	for _, c := range r.Factors.On(credit.MultipliesAdvantage) {
		set(o.Advantage.Variants, c)
		if c.Name == diversity && r.Curriculum.Name == "exit" {
			o.Curriculum.Exit.DiversityBonus = true
			continue
		}
		o.Advantage.Factors = append(o.Advantage.Factors, c.Name)
	}
	for _, c := range r.Factors.On(credit.MultipliesWeight) {
		set(o.Loss.Variants, c)
		o.Loss.Weights = append(o.Loss.Weights, c.Name)
	}
}

// set gives the variant of a choice the choice's settings.
func set(variants config.Variants, c credit.Choice) {
	if own := variants.Of(c.Name); own != nil && c.Settings != nil {
		reflect.ValueOf(own).Elem().Set(reflect.ValueOf(c.Settings).Elem())
	}
}

// fill reads a document's fields of the old form, and says which of the sections that
// are gone it does not know.
func (o *oldForm) fill(doc *config.Document) error {
	table := moves()
	return doc.Fill(o, config.Options{Unknown: func(path string) (string, bool) {
		section, _, _ := strings.Cut(path, ".")
		known := slices.ContainsFunc(table, func(m move) bool { return m.from == path })
		return "", known || section != "credit" && section != "filters"
	}})
}

// segments and weight are the choices as a recipe writes them now.
func (o *oldForm) segments() string {
	return short(o.Credit.Segments, o.Credit.Variants, credit.SegmentsPick{}.Offers())
}

func (o *oldForm) weight() string {
	return short(o.Loss.Aggregation, o.Loss.Variants, credit.WeightPick{}.Offers())
}

func short(name string, variants, offers config.Variants) string {
	settings := variants.Of(name)
	if settings == nil || offers.Of(name) == nil { // no choice: for the validation to say
		return config.Quote(name)
	}
	return strings.Trim(config.Short([]config.Pick{{Name: name, Settings: settings}}, offers), "[]")
}

// factors are the lists of factors, and the bonus of the curriculum, as one list.
func (o *oldForm) factors() (credit.FactorPicks, error) {
	var picks credit.FactorPicks
	find := func(name string) int {
		return slices.IndexFunc(picks, func(p config.Pick) bool { return p.Name == name })
	}
	add := func(name, multiplies string, own any) {
		picks = append(picks, config.Pick{Name: name, Settings: &credit.Placed{Multiplies: multiplies, Own: own}})
	}
	for _, name := range o.Advantage.Factors {
		add(name, credit.MultipliesAdvantage, o.Advantage.Variants.Of(name))
	}
	if o.Curriculum.Name == "exit" && o.Curriculum.Exit.DiversityBonus && find(diversity) < 0 {
		add(diversity, credit.MultipliesAdvantage, o.Advantage.Variants.Of(diversity))
	}
	for _, name := range o.Loss.Weights {
		i, own := find(name), o.Loss.Variants.Of(name)
		switch {
		case i < 0:
			add(name, credit.MultipliesWeight, own)
		case !reflect.DeepEqual(picks[i].Settings.(*credit.Placed).Own, own):
			return nil, exitcode.Usagef("advantage.factors and loss.weights both name %q, with different settings, which the list factors cannot say", name)
		default:
			picks[i].Settings.(*credit.Placed).Multiplies = credit.MultipliesBoth
		}
	}
	return picks, nil
}

// asksForVerdict reports whether the reward of the recipe is the default one, in whose
// place an environment's setting asked for another.
func (o *oldForm) asksForVerdict(doc *config.Document, r *Recipe) bool {
	name := r.Reward.Name
	if place, ok := doc.At("credit", "reward"); ok {
		name, _ = place.Text()
	}
	return name == credit.RewardAxis.Default()
}
