package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// checkCommand is lathe-score check: verdicts on lines of standard input, for
// anybody who wants to test a reward.
func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "judge answers on standard input, JSON lines in and out",
		Description: "for --env math, a line is {\"id\", \"gold\", \"prediction\"} and its verdict {\"id\", \"equal\", \"extracted\", \"why\"}.\n" +
			"for --env tooluse, a line is {\"id\", \"turns\": [[{\"name\", \"args\"}...]...]}, where id names a task of BFCL multi-turn-base, and its verdict\n" +
			"{\"id\", \"official_valid\", \"error_type\", \"state_equal\", \"calls_subset\", \"reward\"}; the first two are BFCL's checker's, the others ExIt's.\n" +
			"A line that cannot be judged gives {\"id\", \"error\"}, and the exit code is 3.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "env", Usage: "`ENVIRONMENT` whose verifier judges: math or tooluse"},
			&cli.StringFlag{Name: "data", Usage: "tooluse: the `FOLDER` with BFCL's tasks (default: data/bfcl in the folder that LATHE_SHARED names)"},
			&cli.BoolFlag{Name: "whole", Usage: "math: a prediction is the answer itself, not a response that holds it"},
			&cli.BoolFlag{Name: "explain", Usage: "math: give each row the steps of its verdict, which show the reference: what was taken from where, how both sides were read, what decided"},
			&cli.StringFlag{Name: "preset", Usage: "math: start from the options of `NAME`: " + strings.Join(mathverify.Presets(), ", "), Value: mathverify.Presets()[0]},
			&cli.StringSliceFlag{Name: "target", Usage: "math: look for `FORM`: latex, expression or words; may be given again"},
			&cli.StringFlag{Name: "boxed", Usage: "math: `RANK` of boxed answers: first, among (announced ones) or off"},
			&cli.StringFlag{Name: "match", Usage: "math: `WHICH` of several answers of one rank: last, first or any"},
			&cli.BoolFlag{Name: "only-best", Usage: "math: give up when the best candidate cannot be read"},
			&cli.BoolFlag{Name: "anchored", Usage: "math: take only answers that are boxed or announced"},
			&cli.BoolFlag{Name: "as-library", Usage: "math: keep Math-Verify's habit of telling i in \"2 i\" from i in \"2i\""},
			&cli.BoolFlag{Name: "conditions", Usage: "math: a condition such as 1<x<2 may stand for a reference that is the set (1,2)"},
			&cli.BoolFlag{Name: "rename-symbols", Usage: "math: x+1 equals y+1"},
			&cli.IntFlag{Name: "decimal-places", Usage: "math: round to `PLACES` when one side has a decimal point", Value: mathverify.DefaultOptions().DecimalPlaces},
			&cli.Float64Flag{Name: "tolerance", Usage: "math: real numbers are equal that differ by no more than this `SHARE` of the reference"},
		},
		Action: check,
	}
}

func check(c *cli.Context) error {
	values, err := need(c, "env")
	if err != nil {
		return err
	}
	switch values["env"] {
	case "math":
		return checkMathLines(c)
	case "tooluse":
		return checkToolUseLines(c)
	default:
		return exitcode.Usagef("--env is %q; it must be math or tooluse", values["env"])
	}
}

func checkMathLines(c *cli.Context) error {
	options, err := mathOptions(c)
	if err != nil {
		return err
	}
	return checkLines(c, func(line []byte) (any, error) {
		return checkMath(line, options, c.Bool("whole"), c.Bool("explain"))
	})
}

// mathOptions are those of the preset, changed by the flags that are given.
func mathOptions(c *cli.Context) (mathverify.Options, error) {
	options, err := mathverify.Preset(c.String("preset"))
	if err != nil {
		return options, exitcode.Usagef("--preset: %v", err)
	}
	if c.IsSet("decimal-places") {
		options.DecimalPlaces = c.Int("decimal-places")
	}
	if places := options.DecimalPlaces; places < 0 || places > 30 {
		return options, exitcode.Usagef("--decimal-places is %d; it must be in [0, 30]", places)
	}
	if options.Tolerance = c.Float64("tolerance"); !(options.Tolerance >= 0 && options.Tolerance < 1) {
		return options, exitcode.Usagef("--tolerance is %v; it must be at least 0 and below 1", options.Tolerance)
	}
	if c.IsSet("target") {
		if options.Targets, err = mathverify.ParseTargets(c.StringSlice("target")); err != nil {
			return options, exitcode.Usagef("--target: %v", err)
		}
	}
	if c.IsSet("boxed") {
		if options.Boxed, err = mathverify.ParseBoxed(c.String("boxed")); err != nil {
			return options, exitcode.Usagef("--boxed: %v", err)
		}
	}
	if c.IsSet("match") {
		if options.Match, err = mathverify.ParseMatch(c.String("match")); err != nil {
			return options, exitcode.Usagef("--match: %v", err)
		}
	}
	for name, option := range map[string]*bool{
		"only-best": &options.OnlyBest, "anchored": &options.Anchored, "as-library": &options.SplitImaginary,
		"conditions": &options.SetForRelation, "rename-symbols": &options.RenameSymbols,
	} {
		*option = *option || c.Bool(name)
	}
	return options, nil
}

// checkLines judges line by line. A line that judge refuses becomes a row with
// the error.
func checkLines(c *cli.Context, judge func(line []byte) (any, error)) error {
	in, refused := standardInput(c), 0
	err := answerer{gather: true, answer: judge, refuse: func(line []byte, fault error) any {
		refused++
		return refusal{ID: idOf(line), Error: fmt.Sprintf("line %d: %v", in.number, fault)}
	}}.run(in, stdout)
	if err == nil && refused > 0 {
		err = exitcode.LeftOutf("%d of %d lines could not be judged; their rows have the reasons", refused, in.number)
	}
	return err
}

// refusal is the row of a line that could not be judged.
type refusal struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// idOf finds the id of a line, if it has one.
func idOf(line []byte) json.RawMessage {
	var row struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &row) != nil || row.ID == nil {
		return json.RawMessage("null")
	}
	return row.ID
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
	if err := decode(line, &pair, false); err != nil {
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
