package builtin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/scaffold"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// Nothing of these is in Lathe: what a package registers, recipes can name.
type (
	limit struct {
		N int `yaml:"n"`
	}
	decay struct {
		Half float64 `yaml:"half"`
	}
	horizon struct {
		Turns int `yaml:"turns"`
	}
)

var errNotMade = errors.New("not made in a test")

func init() {
	credit.SegmentsAxis.Register(registry.Choice[credit.Segments]{
		Name: "sentence", Summary: "a sentence", Settings: func() any { return &limit{N: 3} },
		Validate: func(c *config.Checker, settings any) { c.AtLeast("segments.sentence.n", settings.(*limit).N, 1) },
		Make:     func(any) (credit.Segments, error) { return nil, errNotMade },
	})
	credit.SelectAxis.Register(registry.Choice[credit.Select]{
		Name: "short", Summary: "drops what is short", Settings: func() any { return &limit{} },
		Make: func(any) (credit.Select, error) { return nil, errNotMade },
	})
	credit.FactorAxis.Register(registry.Choice[credit.Factor]{
		Name: "haste", Summary: "the sooner the more", Settings: func() any { return &decay{Half: 2} },
		Make: func(any) (credit.Factor, error) { return nil, errNotMade },
	})
	credit.WeightAxis.Register(registry.Choice[credit.Weight]{
		Name: "depth", Summary: "by depth", Settings: func() any { return &decay{Half: 1} },
		Make: func(any) (credit.Weight, error) { return nil, errNotMade },
	})
	scaffold.Axis.Register(registry.Choice[scaffold.Maker]{
		Name: "ladder", Summary: "step by step", Settings: func() any { return &horizon{Turns: 4} },
		Make: func(any) (scaffold.Maker, error) { return nil, errNotMade },
	})
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: "tide", Summary: "comes and goes", Settings: func() any { return &decay{Half: 8} },
		Make: func(any) (curriculum.Maker, error) { return nil, errNotMade },
	})
}

const file = `
policy: {new: {}}
data: {train: {generate: {}}, test: {generate: {}}}
curriculum: {name: tide, tide: {half: 9}}
scaffold: {name: ladder, ladder: {turns: 5}}
segments: {sentence: {n: 2}}
select: [constant_group, {short: {n: 7}}]
factors: [{haste: {multiplies: both, half: 3}}]
weight: {depth: {half: 4}}
`

func load(t *testing.T, text string, settings ...string) (*recipe.Resolved, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return recipe.Load(path, settings)
}

// A registered choice is read from files and settings, written with what was
// chosen and nothing else, and comes back.
func TestRegisteredChoices(t *testing.T) {
	t.Parallel()
	resolved, err := load(t, file, "weight.depth.half=5", "scaffold.ladder.turns=6")
	if err != nil {
		t.Fatal(err)
	}
	back, err := recipe.Parse(resolved.YAML)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&resolved.Recipe, back); diff != "" {
		t.Error(diff)
	}
	for _, r := range []*recipe.Recipe{&resolved.Recipe, back} {
		spec := r.CreditSpec()
		want := credit.Spec{
			Segments: credit.Choice{Name: "sentence", Settings: &limit{2}}, Reward: credit.Choice{Name: "verdict"},
			Select:    spec.Select,
			Advantage: spec.Advantage,
			Factors:   []credit.Choice{{Name: "haste", Settings: &decay{3}}},
			Weights:   []credit.Choice{{Name: "haste", Settings: &decay{3}}},
		}
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(credit.Named("constant_group").With("short", &limit{7}), spec.Select); diff != "" {
			t.Errorf("select: %s", diff)
		}
		if diff := cmp.Diff(&decay{9}, r.Curriculum.Settings()); diff != "" {
			t.Error(diff)
		}
	}
	text := string(resolved.YAML)
	for _, want := range []string{"  tide:\n    half: 9\n", "  ladder:\n    turns: 6\n", "  - short:\n      mask: false\n      n: 7\n", "  depth:\n    half: 5\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the recipe lacks %q:\n%s", want, text)
		}
	}
	plain, err := load(t, "policy: {new: {}}\ndata: {train: {generate: {}}, test: {generate: {}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tide:", "ladder:", "sentence:", "haste:", "depth:"} {
		if strings.Contains(string(plain.YAML), name) {
			t.Errorf("a recipe that does not choose it has %q", name)
		}
	}
	if spec := plain.Recipe.CreditSpec(); len(spec.Select) != 2 {
		t.Errorf("select is not the preset's: %s", spec.Select)
	}
}

func TestBadChoices(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"segments.sentence.n=0":         "segments.sentence.n: must be 1 or more (0)",
		"segments=paragraph":            `segments: there is no choice "paragraph"; there are ` + strings.Join(credit.SegmentsAxis.Names(), ", "),
		"segments={sentense: {n: 1}}":   `segments: there is no choice "sentense"; did you mean "sentence"?`,
		"segments=[turn]":               `segments wants the name of a choice or {NAME: {SETTING: VALUE}}, got a list`,
		"reward.name=verdit":            `reward.name: must be one of ` + strings.Join(credit.RewardAxis.Names(), ", ") + ` ("verdit")`,
		"select.short.m=1":              `unknown field "m" in select.short; did you mean "n"?`,
		"select.long.n=1":               `select does not name "long", so it has no settings: --set select=[NAME, {NAME: {SETTING: VALUE}}] replaces the list`,
		"select=[shor]":                 `select.0: there is no choice "shor"; did you mean "short"?`,
		"factors=[speed]":               `factors.0: there is no choice "speed"; there are ` + strings.Join(credit.FactorAxis.Names(), ", "),
		"factors=[haste, haste]":        `factors.1: "haste" stands in the list twice`,
		"factors.haste.multiplies=loss": `factors.haste.multiplies: must be one of advantage, weight, both ("loss")`,
		"evaluation.scaffold=snake":     `evaluation.scaffold: must be one of ` + strings.Join(scaffold.Axis.Names(), ", ") + ` ("snake")`,
		"curriculum.name=tidal":         `curriculum.name: must be one of ` + strings.Join(curriculum.Axis.Names(), ", ") + ` ("tidal")`,
		"env.answer.verifier=guess":     `env.answer.verifier: must be one of math, exact ("guess")`,
		"env={name: maths}":             `unknown environment "maths"; did you mean "math"?`,
	} {
		if _, err := load(t, file, setting); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
}

// Whatever is registered says what it is, and its settings are described.
func TestEverythingIsDescribed(t *testing.T) {
	t.Parallel()
	for _, name := range env.Axis.Names() {
		settings, data, err := env.Defaults(name)
		if err != nil {
			t.Errorf("environment %s: %v", name, err)
			continue
		}
		for _, f := range append(config.Describe(settings, "env"), config.Describe(data, "data")...) {
			if f.Doc == "" {
				t.Errorf("environment %s: %s has no comment", name, f.Path)
			}
		}
	}
	for _, axis := range recipe.Axes() {
		for _, choice := range axis.Choices {
			if choice.Summary == "" {
				t.Errorf("%s %s has no summary", axis.Name, choice.Name)
			}
		}
	}
	for _, variant := range curriculum.Axis.Variants() {
		for _, f := range config.Describe(variant.Settings, "curriculum."+variant.Name) {
			if f.Doc == "" && variant.Name != "tide" {
				t.Errorf("%s has no comment", f.Path)
			}
		}
	}
}
