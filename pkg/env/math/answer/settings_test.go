package answer

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

type checked struct {
	Env struct {
		Answer Settings `yaml:"answer"`
	} `yaml:"env"`
}

// TestValidate: which fields are refused with what is set.
func TestValidate(t *testing.T) {
	t.Parallel()
	const exact = "env.answer.verifier=exact "
	configtest.Checks(t, func() *checked {
		c := &checked{}
		c.Env.Answer = DefaultSettings()
		return c
	}, func(s *checked, c *config.Checker) { s.Env.Answer.Validate(c) }, map[string]string{
		"":                          "",
		"env.answer.verifier=sympy": "env.answer.verifier",
		"env.answer.extract=first":  "env.answer.extract",
		"env.answer.extract=marked env.answer.marker=":                          "env.answer.marker",
		"env.answer.extract=marked env.answer.marker=#":                         "",
		"env.answer.worked=[add]":                                               "env.answer.worked",
		"env.answer.worked=[add] env.answer.extract=boxed":                      "",
		"env.answer.worked=[add] env.answer.extract=marked env.answer.marker=#": "",
		"env.answer.decimal_places=-1":                                          "env.answer.decimal_places",
		"env.answer.decimal_places=30":                                          "",
		"env.answer.decimal_places=31":                                          "env.answer.decimal_places",
		"env.answer.format_reward=0.9":                                          "",
		"env.answer.format_reward=1":                                            "env.answer.format_reward",
		"env.answer.format_reward=-0.1":                                         "env.answer.format_reward",
		"env.answer.tolerance=0.9":                                              "",
		"env.answer.tolerance=1":                                                "env.answer.tolerance",
		"env.answer.tolerance=-0.1":                                             "env.answer.tolerance",
		"env.answer.preset=box":                                                 "env.answer.preset",
		"env.answer.boxed=last":                                                 "env.answer.boxed",
		"env.answer.match=all":                                                  "env.answer.match",
		"env.answer.targets=[latex,words]":                                      "",
		"env.answer.targets=[latex,word]":                                       "env.answer.targets",
		"env.answer.targets=[latex,latex]":                                      "env.answer.targets",
		// What is for the other verifier.
		exact:                                    "",
		exact + "env.answer.preset=boxed":        "env.answer.preset",
		exact + "env.answer.targets=[latex]":     "env.answer.targets",
		exact + "env.answer.boxed=off":           "env.answer.boxed",
		exact + "env.answer.match=any":           "env.answer.match",
		exact + "env.answer.anchored=true":       "env.answer.anchored",
		exact + "env.answer.only_best=true":      "env.answer.only_best",
		exact + "env.answer.conditions=true":     "env.answer.conditions",
		exact + "env.answer.rename_symbols=true": "env.answer.rename_symbols",
		exact + "env.answer.as_library=true":     "env.answer.as_library",
		exact + "env.answer.tolerance=0.1":       "env.answer.tolerance",
	})
}

// TestSymbolicOptions: what a recipe says of the verifier is what the verifier is given.
func TestSymbolicOptions(t *testing.T) {
	t.Parallel()
	all := mathverify.TargetLaTeX | mathverify.TargetExpression | mathverify.TargetWords
	for _, c := range []struct {
		name string
		set  func(*Settings)
		want mathverify.Options
	}{
		{"nothing", func(*Settings) {}, mathverify.Options{Targets: all, DecimalPlaces: 6}},
		{"all", func(s *Settings) {
			s.Targets, s.Boxed, s.Match, s.DecimalPlaces = []string{"words"}, "off", "first", 2
			s.Anchored, s.OnlyBest, s.Conditions, s.RenameSymbols, s.AsLibrary = true, true, true, true, true
		}, mathverify.Options{
			Targets: mathverify.TargetWords, Boxed: mathverify.BoxedOff, Match: mathverify.MatchFirst, DecimalPlaces: 2,
			Anchored: true, OnlyBest: true, SetForRelation: true, RenameSymbols: true, SplitImaginary: true,
		}},
		{"a preset", func(s *Settings) { s.Preset = "math-verify-loose" }, mathverify.Options{
			Targets: all, Boxed: mathverify.BoxedAmong, DecimalPlaces: 6, SetForRelation: true, RenameSymbols: true, SplitImaginary: true,
		}},
	} {
		settings := DefaultSettings()
		c.set(&settings)
		if got := must.Get(NewSymbolic(settings))(t).options; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
