package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exit"
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
			&cli.BoolFlag{Name: "anchored", Usage: "math: take only answers that are boxed or announced"},
			&cli.BoolFlag{Name: "as-library", Usage: "math: keep Math-Verify's habit of telling i in \"2 i\" from i in \"2i\""},
			&cli.BoolFlag{Name: "conditions", Usage: "math: a condition such as 1<x<2 may stand for a reference that is the set (1,2)"},
			&cli.IntFlag{Name: "decimal-places", Usage: "math: round to `PLACES` when one side has a decimal point", Value: mathverify.DefaultOptions().DecimalPlaces},
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
		return exit.Usagef("--env is %q; it must be math or tooluse", values["env"])
	}
}

func checkMathLines(c *cli.Context) error {
	places := c.Int("decimal-places")
	if places < 0 || places > 30 {
		return exit.Usagef("--decimal-places is %d; it must be in [0, 30]", places)
	}
	options := mathverify.Options{
		DecimalPlaces: places, SetForRelation: c.Bool("conditions"), Anchored: c.Bool("anchored"), AsLibrary: c.Bool("as-library"),
	}
	return checkLines(os.Stdin, stdout, func(line []byte) (any, error) { return checkMath(line, options, c.Bool("whole")) })
}

// checkLines judges line by line and writes each verdict before it reads on.
// A line that judge refuses becomes a row with the error.
func checkLines(in io.Reader, out io.Writer, judge func(line []byte) (any, error)) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	refused, number := 0, 0
	for {
		line, err := readLine(reader)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return fmt.Errorf("reading standard input: %w", err)
		}
		number++
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var row any
		if err == nil {
			row, err = judge(line)
		}
		if err != nil {
			refused++
			row = refusal{ID: idOf(line), Error: fmt.Sprintf("line %d: %v", number, err)}
		}
		if err := encoder.Encode(row); err != nil {
			return fmt.Errorf("writing a verdict: %w", err)
		}
		if reader.Buffered() == 0 { // whoever writes the lines may wait for the verdict
			if err := writer.Flush(); err != nil {
				return fmt.Errorf("writing a verdict: %w", err)
			}
		}
	}
	if err := writer.Flush(); err != nil {
		return fmt.Errorf("writing a verdict: %w", err)
	}
	if refused > 0 {
		return exit.LeftOutf("%d of %d lines could not be judged; their rows have the reasons", refused, number)
	}
	return nil
}

var errLongLine = fmt.Errorf("the line is longer than %d bytes", maxLineBytes)

// readLine reads one line. Of a line that is too long it returns the
// beginning and errLongLine, and skips the rest.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, more, err := r.ReadLine()
		if err != nil {
			return nil, err
		}
		if len(line)+len(part) <= maxLineBytes {
			line = append(line, part...)
		} else {
			for more && err == nil {
				_, more, err = r.ReadLine()
			}
			return line, errLongLine
		}
		if !more {
			return line, nil
		}
	}
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
}

func checkMath(line []byte, options mathverify.Options, whole bool) (any, error) {
	var pair mathPair
	if err := json.Unmarshal(line, &pair); err != nil {
		return nil, err
	}
	if pair.Gold == nil || pair.Prediction == nil {
		return nil, errors.New(`"gold" and "prediction" must both be there, as strings`)
	}
	if pair.ID == nil {
		pair.ID = json.RawMessage("null")
	}
	reference := mathverify.NewReference(*pair.Gold)
	var r mathverify.Result
	if whole {
		r = reference.VerifyAnswer(*pair.Prediction, options)
	} else {
		r = reference.Verify(*pair.Prediction, options)
	}
	return mathVerdict{ID: pair.ID, Equal: r.Equal, Extracted: r.Extracted, Why: r.Explain()}, nil
}
