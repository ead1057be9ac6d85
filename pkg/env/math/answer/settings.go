package answer

import (
	_ "embed"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed settings.go
var source string

var _ = config.Docs[Settings](source)

// Settings say how the answer is found in a response and compared.
type Settings struct {
	Verifier      string   `yaml:"verifier" choices:"math,exact"`                                                                  // math: the rules of Math-Verify; exact: integers, rationals, decimals, lists of them in order, and words
	Extract       string   `yaml:"extract" choices:"whole,last,marked,boxed"`                                                      // whole: the response is the answer; last: the last number (math: what is boxed or announced, else the last formula or number); marked: after Marker; boxed: in \boxed{}
	Marker        string   `yaml:"marker"`                                                                                         // for marked, for example "####"
	Preset        string   `yaml:"preset" choices:"lathe,math-verify-0.8,math-verify-0.7,math-verify-0.6,math-verify-loose,boxed"` // math only: lathe, Math-Verify 0.8 as mathematics has it; or what papers used: math-verify-0.8, -0.7, -0.6, -loose (strict false and conditions for sets), or boxed. What follows changes it
	Targets       []string `yaml:"targets" choices:"latex,expression,words"`                                                       // math only: forms that are looked for, latex, expression and words; empty: the preset's
	Boxed         string   `yaml:"boxed" choices:"preset,first,among,off"`                                                         // math only: rank of boxed answers: first; among the announced ones; off; or preset
	Match         string   `yaml:"match" choices:"preset,last,first,any"`                                                          // math only: which of several answers of one rank: last, first, any (a list of guesses is rewarded) or preset
	Anchored      bool     `yaml:"anchored"`                                                                                       // math only: take only answers that are boxed or announced
	OnlyBest      bool     `yaml:"only_best"`                                                                                      // math only: give up when the best candidate cannot be read
	Conditions    bool     `yaml:"conditions"`                                                                                     // math only: a condition such as 1<x<2 may stand for a reference that is the set (1,2)
	RenameSymbols bool     `yaml:"rename_symbols"`                                                                                 // math only: x+1 equals y+1
	AsLibrary     bool     `yaml:"as_library"`                                                                                     // math only: keep Math-Verify's habit of telling i in "2 i" from i in "2i"
	Tolerance     float64  `yaml:"tolerance"`                                                                                      // math only: share of the reference by which answers of form float, or lists of them, may be off
	DecimalPlaces int      `yaml:"decimal_places"`                                                                                 // digits after the point to which two decimals are compared; 0 compares exactly (math: to 6)
	Worked        []string `yaml:"worked"`                                                                                         // kinds of problems, a * at the end of one matching any rest, whose demonstrations show the steps before the answer where they are known: comparisons and longer expressions in the words of DeepMind's Mathematics Dataset; with extract marked or boxed
	FormatReward  float64  `yaml:"format_reward"`                                                                                  // reward of a wrong answer that could be read; 0 by default
}

// DefaultSettings are the rules of Math-Verify, as mathematics has them.
func DefaultSettings() Settings {
	return Settings{Verifier: VerifierMath, Extract: ExtractLast, Preset: "lathe", Boxed: "preset", Match: "preset"}
}

// Validate checks the settings, which stand at env.answer.
func (a Settings) Validate(c *config.Checker) {
	if c.Choice("env.answer.verifier", a.Verifier) {
		a.checkVerifier(c)
	}
	if c.Choice("env.answer.extract", a.Extract) && a.Extract == "marked" && a.Marker == "" {
		c.Add("env.answer.marker", a.Marker, "must not be empty when env.answer.extract is marked")
	}
	if len(a.Worked) > 0 && a.Extract != "marked" && a.Extract != "boxed" {
		c.Add("env.answer.worked", a.Worked, "needs env.answer.extract marked or boxed, or the steps would be read as a part of the answer")
	}
	c.Between("env.answer.decimal_places", a.DecimalPlaces, 0, 30)
	if !(a.FormatReward >= 0 && a.FormatReward < 1) {
		c.Add("env.answer.format_reward", a.FormatReward, "must be at least 0 and below 1, the reward of a correct answer")
	}
}

// checkVerifier checks what tunes the verifier.
func (a Settings) checkVerifier(c *config.Checker) {
	for _, f := range []struct {
		name  string
		value string
	}{{"preset", a.Preset}, {"boxed", a.Boxed}, {"match", a.Match}} {
		c.Choice("env.answer."+f.name, f.value)
	}
	for i, target := range a.Targets {
		if c.Choice("env.answer.targets", target) && slices.Contains(a.Targets[:i], target) {
			c.Add("env.answer.targets", target, "is named twice")
		}
	}
	if !(a.Tolerance >= 0 && a.Tolerance < 1) {
		c.Add("env.answer.tolerance", a.Tolerance, "must be at least 0 and below 1")
	}
	if a.Verifier == "math" {
		return
	}
	const only = "is for env.answer.verifier math only"
	defaults := DefaultSettings()
	for _, f := range []struct {
		name    string
		value   any
		changed bool
	}{
		{"preset", a.Preset, a.Preset != defaults.Preset},
		{"targets", a.Targets, len(a.Targets) > 0},
		{"boxed", a.Boxed, a.Boxed != defaults.Boxed},
		{"match", a.Match, a.Match != defaults.Match},
		{"anchored", a.Anchored, a.Anchored},
		{"only_best", a.OnlyBest, a.OnlyBest},
		{"conditions", a.Conditions, a.Conditions},
		{"rename_symbols", a.RenameSymbols, a.RenameSymbols},
		{"as_library", a.AsLibrary, a.AsLibrary},
		{"tolerance", a.Tolerance, a.Tolerance != 0},
	} {
		if f.changed {
			c.Add("env.answer."+f.name, f.value, only)
		}
	}
}
