package answer

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// Symbolic is the verifier of mathematics of every form, by the rules of
// package mathverify.
type Symbolic struct {
	mode    string
	marker  string
	options mathverify.Options
}

// NewSymbolic checks the settings and returns the verifier.
func NewSymbolic(settings Settings) (Symbolic, error) {
	if err := checkAnswer(settings); err != nil {
		return Symbolic{}, err
	}
	options, err := symbolicOptions(settings)
	if err != nil {
		return Symbolic{}, err
	}
	return Symbolic{mode: settings.Extract, marker: settings.Marker, options: options}, nil
}

// symbolicOptions are those of the preset, changed by the other settings.
func symbolicOptions(settings Settings) (mathverify.Options, error) {
	preset := settings.Preset
	if preset == "" {
		preset = mathverify.Presets()[0]
	}
	options, err := mathverify.Preset(preset)
	if err != nil {
		return options, exitcode.Usagef("env.answer.preset: %v", err)
	}
	if len(settings.Targets) > 0 {
		if options.Targets, err = mathverify.ParseTargets(settings.Targets); err != nil {
			return options, exitcode.Usagef("env.answer.targets: %v", err)
		}
	}
	if settings.Boxed != "" && settings.Boxed != asPreset {
		if options.Boxed, err = mathverify.ParseBoxed(settings.Boxed); err != nil {
			return options, exitcode.Usagef("env.answer.boxed: %v", err)
		}
	}
	if settings.Match != "" && settings.Match != asPreset {
		if options.Match, err = mathverify.ParseMatch(settings.Match); err != nil {
			return options, exitcode.Usagef("env.answer.match: %v", err)
		}
	}
	if settings.DecimalPlaces > 0 {
		options.DecimalPlaces = settings.DecimalPlaces
	}
	options.Anchored = options.Anchored || settings.Anchored
	options.OnlyBest = options.OnlyBest || settings.OnlyBest
	options.SetForRelation = options.SetForRelation || settings.Conditions
	options.RenameSymbols = options.RenameSymbols || settings.RenameSymbols
	options.SplitImaginary = options.SplitImaginary || settings.AsLibrary
	return options, nil
}

// asPreset leaves a setting to the preset.
const asPreset = "preset"

// Verify scores a response.
func (s Symbolic) Verify(gold, response string) Verification {
	reference := mathverify.NewReference(gold)
	if s.mode == ExtractLast {
		return verification(reference.Verify(response, s.options))
	}
	text := response
	if s.mode != ExtractWhole {
		found, err := extract(response, s.mode, s.marker, parsed{})
		if err != nil {
			return Verification{Why: err.Error(), Reason: string(mathverify.ReasonNoAnswer)}
		}
		text = found
	}
	return verification(reference.VerifyAnswer(text, s.options))
}

// within returns the verifier with a tolerance.
func (s Symbolic) within(tolerance float64) Symbolic {
	s.options.Tolerance = tolerance
	return s
}

func verification(r mathverify.Result) Verification {
	return Verification{Extracted: r.Extracted, Readable: r.Readable || r.Equal, Equal: r.Equal, Why: r.Explain(), Reason: string(r.Reason)}
}
