package command

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// CheckMathOptions are those of lathe-score check --env math. All but the
// first two change the options of a preset of package mathverify.
type CheckMathOptions struct {
	Whole   bool // a prediction is the answer itself, not a response that holds it
	Explain bool // rows tell the steps of their verdict

	Preset        string
	Targets       []string // forms to look for; none are the preset's
	Boxed, Match  string   // empty is the preset's
	OnlyBest      bool
	Anchored      bool
	AsLibrary     bool
	Conditions    bool
	RenameSymbols bool
	DecimalPlaces *int // nil is the preset's
	Tolerance     float64
}

func (o *CheckMathOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "whole", Usage: "math: a prediction is the answer itself, not a response that holds it", Destination: &o.Whole},
		&cli.BoolFlag{Name: "explain", Usage: "math: give each row the steps of its verdict, which show the reference: what was taken from where, how both sides were read, what decided", Destination: &o.Explain},
		&cli.StringFlag{Name: "preset", Usage: "math: start from the options of `NAME`: " + strings.Join(mathverify.Presets(), ", "), Value: mathverify.Presets()[0], Destination: &o.Preset},
		&cli.StringSliceFlag{Name: "target", Usage: "math: look for `FORM`: latex, expression or words; may be given again"},
		&cli.StringFlag{Name: "boxed", Usage: "math: `RANK` of boxed answers: first, among (announced ones) or off", Destination: &o.Boxed},
		&cli.StringFlag{Name: "match", Usage: "math: `WHICH` of several answers of one rank: last, first or any", Destination: &o.Match},
		&cli.BoolFlag{Name: "only-best", Usage: "math: give up when the best candidate cannot be read", Destination: &o.OnlyBest},
		&cli.BoolFlag{Name: "anchored", Usage: "math: take only answers that are boxed or announced", Destination: &o.Anchored},
		&cli.BoolFlag{Name: "as-library", Usage: "math: keep Math-Verify's habit of telling i in \"2 i\" from i in \"2i\"", Destination: &o.AsLibrary},
		&cli.BoolFlag{Name: "conditions", Usage: "math: a condition such as 1<x<2 may stand for a reference that is the set (1,2)", Destination: &o.Conditions},
		&cli.BoolFlag{Name: "rename-symbols", Usage: "math: x+1 equals y+1", Destination: &o.RenameSymbols},
		&cli.IntFlag{Name: "decimal-places", Usage: "math: round to `PLACES` when one side has a decimal point", Value: mathverify.DefaultOptions().DecimalPlaces},
		&cli.Float64Flag{Name: "tolerance", Usage: "math: real numbers are equal that differ by no more than this `SHARE` of the reference", Destination: &o.Tolerance},
	}
}

// judge returns the verifier of a line.
func (o CheckMathOptions) judge() (func(line []byte) (any, error), error) {
	options, err := o.verifier()
	if err != nil {
		return nil, err
	}
	return func(line []byte) (any, error) { return checkMath(line, options, o.Whole, o.Explain) }, nil
}

// verifier are the preset's options with those that are given.
func (o CheckMathOptions) verifier() (mathverify.Options, error) {
	options, err := mathverify.Preset(o.Preset)
	if err != nil {
		return options, exitcode.Usagef("--preset: %v", err)
	}
	if o.DecimalPlaces != nil {
		options.DecimalPlaces = *o.DecimalPlaces
	}
	if places := options.DecimalPlaces; places < 0 || places > 30 {
		return options, exitcode.Usagef("--decimal-places is %d; it must be in [0, 30]", places)
	}
	if options.Tolerance = o.Tolerance; !(options.Tolerance >= 0 && options.Tolerance < 1) {
		return options, exitcode.Usagef("--tolerance is %v; it must be at least 0 and below 1", options.Tolerance)
	}
	if len(o.Targets) > 0 {
		if options.Targets, err = mathverify.ParseTargets(o.Targets); err != nil {
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

// mathPair is a line for the math verifier.
type mathPair struct {
	ID         json.RawMessage `json:"id"`
	Gold       *string         `json:"gold"`
	Prediction *string         `json:"prediction"`
}

// mathVerdict is its row.
type mathVerdict struct {
	ID        json.RawMessage `json:"id"`
	Equal     bool            `json:"equal"`
	Extracted string          `json:"extracted"`
	Why       string          `json:"why"`
	Steps     []string        `json:"steps,omitempty"` // with --explain
}

func checkMath(line []byte, options mathverify.Options, whole, explain bool) (any, error) {
	var pair mathPair
	if err := jsonlines.Decode(line, &pair, false); err != nil {
		return nil, err
	}
	if pair.Gold == nil || pair.Prediction == nil {
		return nil, errors.New(`"gold" and "prediction" must both be there, as strings`)
	}
	if pair.ID == nil {
		pair.ID = json.RawMessage("null")
	}
	reference := mathverify.NewReference(*pair.Gold)
	var e mathverify.Explanation
	switch {
	case explain && whole:
		e = reference.ExplainAnswer(*pair.Prediction, options)
	case explain:
		e = reference.Explain(*pair.Prediction, options)
	case whole:
		e.Result = reference.VerifyAnswer(*pair.Prediction, options)
	default:
		e.Result = reference.Verify(*pair.Prediction, options)
	}
	return mathVerdict{ID: pair.ID, Equal: e.Equal, Extracted: e.Extracted, Why: e.Result.Explain(), Steps: e.Steps}, nil
}
