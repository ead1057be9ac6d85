package task

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// CheckOptions are those of lathe-score check.
type CheckOptions struct {
	Env      string // environment whose checker is asked
	Settings any    // of the checker; nil for the defaults
}

// checkers are the environments that have a checker, by name.
func checkers() (names []string, byName map[string]*env.LineChecker) {
	return env.Having(func(m env.Setup) *env.LineChecker { return m.Checker })
}

func checkCommand() *cli.Command {
	var o CheckOptions
	var about strings.Builder
	var flags []cli.Flag
	settings := map[string]any{}
	names, byName := checkers()
	for _, name := range names {
		settings[name] = byName[name].Settings()
		flags = append(flags, cmdline.SettingFlags(settings[name], name+": ")...)
		fmt.Fprintf(&about, "for --env %s, %s.\n", name, byName[name].Doc)
	}
	return cmdline.Help{
		Example: `echo '{"id": 1, "gold": "$x^2-1$", "prediction": "so it is \\boxed{(x-1)(x+1)}"}' | lathe-score check --env math --explain`,
		Exits:   map[int]string{exitcode.LeftOut: "done, but some lines could not be scored; the output gives each reason", exitcode.Data: "", exitcode.Stopped: ""},
	}.Command(&cli.Command{
		Name:        "check",
		Usage:       "score answers: reads JSON lines from standard input, prints JSON lines",
		Description: about.String() + "A line that cannot be scored prints {\"id\", \"error\"}, and the exit code is 3.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "env", Usage: "use the verifier of `ENVIRONMENT`: " + strings.Join(names, " or "), Destination: &o.Env},
		}, flags...),
		Action: cmdline.NoArguments(func(c *cli.Context) error {
			o.Settings = settings[o.Env]
			return Check(c.Context, c.App.Reader, c.App.Writer, o)
		}),
	})
}

// Check scores each line of the input, for anybody who wants to test a reward.
// A line that cannot be scored becomes a row with the error.
func Check(ctx context.Context, in io.Reader, out io.Writer, o CheckOptions) error {
	if err := cmdline.Required("env", o.Env); err != nil {
		return err
	}
	names, byName := checkers()
	checker, ok := byName[o.Env]
	if !ok {
		return exitcode.Usagef("--env: got %q, want one of %s", o.Env, strings.Join(names, ", "))
	}
	if o.Settings == nil {
		o.Settings = checker.Settings()
	}
	verify, err := checker.Verifier(o.Settings)
	if err != nil {
		return err
	}
	answer := func(text []byte) (any, error) {
		line := checker.Line()
		if err := plainjson.Strict(text, line); err != nil {
			return nil, err
		}
		return verify(line)
	}
	lines, refused := jsonlines.NewReader(ctx, in), 0
	err = jsonlines.Answerer{Gather: true, Answer: answer, Refuse: func(line []byte, fault error) any {
		refused++
		return lines.Refusal(line, fault)
	}}.Run(lines, out)
	if err == nil && refused > 0 {
		err = exitcode.LeftOutf("%s could not be scored; the output gives each reason", plural.Of(refused, lines.Number, "line"))
	}
	return err
}
