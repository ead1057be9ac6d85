package math

import (
	_ "embed"
	"encoding/json"
	"errors"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

//go:embed check.go
var checkSource string

var _ = config.Docs[checkSettings](checkSource)

// checkSettings are the flags of the checker. All but the first two change the
// options of a preset of package mathverify.
type checkSettings struct {
	Whole         bool     `yaml:"whole"`          // a prediction is the answer itself, not a response that holds it
	Explain       bool     `yaml:"explain"`        // give each row the steps of its score, which show the reference: what was taken from where, how both sides were read, what decided
	Preset        string   `yaml:"preset"`         // start from the options of `NAME`
	Target        []string `yaml:"target"`         // look for `FORM`: latex, expression or words; may be given again
	Boxed         string   `yaml:"boxed"`          // `RANK` of boxed answers: first, among (announced ones) or off
	Match         string   `yaml:"match"`          // `WHICH` of several answers of one rank: last, first or any
	OnlyBest      bool     `yaml:"only_best"`      // give up when the best candidate cannot be read
	Anchored      bool     `yaml:"anchored"`       // take only answers that are boxed or announced
	AsLibrary     bool     `yaml:"as_library"`     // keep Math-Verify's habit of telling i in "2 i" from i in "2i"
	Conditions    bool     `yaml:"conditions"`     // a condition such as 1<x<2 may stand for a reference that is the set (1,2)
	RenameSymbols bool     `yaml:"rename_symbols"` // x+1 equals y+1
	DecimalPlaces int      `yaml:"decimal_places"` // round to `PLACES` when one side has a decimal point; -1: the preset's
	Tolerance     float64  `yaml:"tolerance"`      // real numbers are equal that differ by no more than this `SHARE` of the reference
}

// Choices lists the presets.
func (checkSettings) Choices(field string) []string {
	if field == "preset" {
		return mathverify.Presets()
	}
	return nil
}

var checker = env.LineChecker{
	Doc:      `a line is {"id", "gold", "prediction"}, beside which the labels "want", "expected", "label", "kind", "gold_kind", "pred_kind", "variant", "source" and "note" may stand, and its score {"id", "equal", "extracted", "why"}`,
	Settings: func() any { return &checkSettings{Preset: mathverify.Presets()[0], DecimalPlaces: -1} },
	Line:     func() any { return new(checkPair) },
	Verifier: func(settings any) (func(line any) (any, error), error) {
		o := settings.(*checkSettings)
		options, err := o.options()
		if err != nil {
			return nil, err
		}
		return func(line any) (any, error) { return o.check(*line.(*checkPair), options) }, nil
	},
}

// options are the preset's options with those that are given.
func (o *checkSettings) options() (mathverify.Options, error) {
	options, err := mathverify.Preset(o.Preset)
	if err != nil {
		return options, exitcode.Usagef("--preset: %v", err)
	}
	if o.DecimalPlaces != -1 {
		options.DecimalPlaces = o.DecimalPlaces
	}
	if places := options.DecimalPlaces; places < 0 || places > 30 {
		return options, exitcode.Usagef("--decimal-places: got %d, want 0 to 30", places)
	}
	if options.Tolerance = o.Tolerance; !(options.Tolerance >= 0 && options.Tolerance < 1) {
		return options, exitcode.Usagef("--tolerance: got %v, want at least 0 and below 1", options.Tolerance)
	}
	if len(o.Target) > 0 {
		if options.Targets, err = mathverify.ParseTargets(o.Target); err != nil {
			return options, exitcode.Usagef("--target: %v", err)
		}
	}
	if o.Boxed != "" {
		if options.Boxed, err = mathverify.ParseBoxed(o.Boxed); err != nil {
			return options, exitcode.Usagef("--boxed: %v", err)
		}
	}
	if o.Match != "" {
		if options.Match, err = mathverify.ParseMatch(o.Match); err != nil {
			return options, exitcode.Usagef("--match: %v", err)
		}
	}
	options.OnlyBest = options.OnlyBest || o.OnlyBest
	options.Anchored = options.Anchored || o.Anchored
	options.SplitImaginary = options.SplitImaginary || o.AsLibrary
	options.SetForRelation = options.SetForRelation || o.Conditions
	options.RenameSymbols = options.RenameSymbols || o.RenameSymbols
	return options, nil
}

// checkPair is a line for the verifier.
type checkPair struct {
	ID         json.RawMessage `json:"id"`
	Gold       *string         `json:"gold"`
	Prediction *string         `json:"prediction"`
	labels
}

// labels are what labelled sets have beside a pair. No score depends on them.
type labels struct {
	Want           json.RawMessage `json:"want"`
	Expected       json.RawMessage `json:"expected"`
	Label          json.RawMessage `json:"label"`
	Kind           json.RawMessage `json:"kind"`
	GoldKind       json.RawMessage `json:"gold_kind"`
	PredictionKind json.RawMessage `json:"pred_kind"`
	Variant        json.RawMessage `json:"variant"`
	Source         json.RawMessage `json:"source"`
	Note           json.RawMessage `json:"note"`
}

// checkVerdict is its row.
type checkVerdict struct {
	ID        json.RawMessage `json:"id"`
	Equal     bool            `json:"equal"`
	Extracted string          `json:"extracted"`
	Why       string          `json:"why"`
	Steps     []string        `json:"steps,omitempty"` // with --explain
}

func (o *checkSettings) check(pair checkPair, options mathverify.Options) (any, error) {
	if pair.Gold == nil || pair.Prediction == nil {
		return nil, errors.New(`"gold" and "prediction" must both be there, as strings`)
	}
	if pair.ID == nil {
		pair.ID = json.RawMessage("null")
	}
	reference := mathverify.NewReference(*pair.Gold)
	var e mathverify.Explanation
	switch {
	case o.Explain && o.Whole:
		e = reference.ExplainAnswer(*pair.Prediction, options)
	case o.Explain:
		e = reference.Explain(*pair.Prediction, options)
	case o.Whole:
		e.Result = reference.VerifyAnswer(*pair.Prediction, options)
	default:
		e.Result = reference.Verify(*pair.Prediction, options)
	}
	return checkVerdict{ID: pair.ID, Equal: e.Equal, Extracted: e.Extracted, Why: e.Result.Explain(), Steps: e.Steps}, nil
}
