package recipe

import (
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
)

// checkVerifier checks what chooses and tunes the verifier of short answers.
func checkVerifier(c *config.Checker, a Answer) {
	if !c.Choice("env.answer.verifier", a.Verifier) {
		return
	}
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
	defaults := Defaults().Env.Answer
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

// Forms are the forms of answers that a recipe may name for all lines.
var Forms = []string{"any", "integer", "float", "bool", "list", "option"}

// checkFields checks how lines become problems.
func checkFields(c *config.Checker, field string, f Fields) {
	if f.Question == "" {
		c.Add(field+".question", nil, "must not be empty")
	}
	if f.Answer == "" {
		c.Add(field+".answer", nil, "must not be empty")
	}
	if !c.Choice(field+".answer_from", f.AnswerFrom) {
		return
	}
	ofOption := f.AnswerFrom != "text" && f.AnswerFrom != "boxed"
	listed := strings.Contains(f.Question, "{choices}")
	switch {
	case ofOption && f.Choices == "":
		c.Add(field+".answer_from", f.AnswerFrom, "needs %s.choices, the path to the options", field)
	case f.Choices != "" && !ofOption:
		c.Add(field+".choices", f.Choices, "needs %s.answer_from letter, position, number or option_text", field)
	case f.Choices != "" && !listed:
		c.Add(field+".question", f.Question, "must contain {choices}, or the options are not shown")
	case f.Choices == "" && listed:
		c.Add(field+".question", f.Question, "has {choices}, but %s.choices is empty", field)
	case f.Choices == "" && f.ChoiceText != "":
		c.Add(field+".choice_text", f.ChoiceText, "is for problems with %s.choices", field)
	case f.AnswerMarker != "" && f.AnswerFrom != "text":
		c.Add(field+".answer_marker", f.AnswerMarker, "is for %s.answer_from text", field)
	}
	if constant, ok := strings.CutPrefix(f.Form, "="); ok && !slices.Contains(Forms, constant) {
		c.Add(field+".form", f.Form, "must be a path, or = and one of %s", strings.Join(Forms, ", "))
	}
	if constant, ok := strings.CutPrefix(f.Level, "="); ok {
		if _, err := strconv.Atoi(constant); err != nil {
			c.Add(field+".level", f.Level, "must be a path, or = and a whole number")
		}
	}
}
