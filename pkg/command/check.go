package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// CheckOptions are those of lathe-score check.
type CheckOptions struct {
	Env  string // environment whose verifier judges: math or tooluse
	Data string // tooluse: the folder of BFCL's tasks; empty is the one of LATHE_SHARED
	Math CheckMathOptions
}

func checkCommand() *cli.Command {
	var o CheckOptions
	return cmdline.Help{
		Example: `echo '{"id": 1, "gold": "$x^2-1$", "prediction": "so it is \\boxed{(x-1)(x+1)}"}' | lathe-score check --env math --explain`,
		Exits:   map[int]string{exitcode.LeftOut: "done, with lines that could not be judged; their rows have the reasons", exitcode.Data: "", exitcode.Stopped: ""},
	}.Command(&cli.Command{
		Name:  "check",
		Usage: "judge answers on standard input, JSON lines in and out",
		Description: "for --env math, a line is {\"id\", \"gold\", \"prediction\"} and its verdict {\"id\", \"equal\", \"extracted\", \"why\"}.\n" +
			"for --env tooluse, a line is {\"id\", \"turns\": [[{\"name\", \"args\"}...]...]}, where id names a task of BFCL multi-turn-base, and its verdict\n" +
			"{\"id\", \"official_valid\", \"error_type\", \"state_equal\", \"calls_subset\", \"reward\"}; the first two are BFCL's checker's, the others ExIt's.\n" +
			"A line that cannot be judged gives {\"id\", \"error\"}, and the exit code is 3.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "env", Usage: "`ENVIRONMENT` whose verifier judges: math or tooluse", Destination: &o.Env},
			&cli.StringFlag{Name: "data", Usage: "tooluse: the `FOLDER` with BFCL's tasks (default: data/bfcl in the folder that LATHE_SHARED names)", Destination: &o.Data},
		}, o.Math.flags()...),
		Action: cmdline.NoArguments(func(c *cli.Context) error {
			o.Math.Targets = c.StringSlice("target")
			o.Math.DecimalPlaces = cmdline.Given(c, "decimal-places", c.Int("decimal-places"))
			return Check(c.Context, c.App.Reader, c.App.Writer, o)
		}),
	})
}

// Check judges each line of the input, for anybody who wants to test a reward.
// A line that cannot be judged becomes a row with the error.
func Check(ctx context.Context, in io.Reader, out io.Writer, o CheckOptions) error {
	if err := cmdline.Required("env", o.Env); err != nil {
		return err
	}
	var judge func(line []byte) (any, error)
	var err error
	switch o.Env {
	case "math":
		judge, err = o.Math.judge()
	case "tooluse":
		judge, err = toolUseJudge(o.Data)
	default:
		err = exitcode.Usagef("--env is %q; it must be math or tooluse", o.Env)
	}
	if err != nil {
		return err
	}
	lines, refused := jsonlines.NewReader(ctx, in), 0
	err = jsonlines.Answerer{Gather: true, Answer: judge, Refuse: func(line []byte, fault error) any {
		refused++
		return refusal{ID: idOf(line), Error: fmt.Sprintf("line %d: %v", lines.Number, fault)}
	}}.Run(lines, out)
	if err == nil && refused > 0 {
		err = exitcode.LeftOutf("%d of %d lines could not be judged; their rows have the reasons", refused, lines.Number)
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
