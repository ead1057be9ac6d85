package cmdline

import (
	"cmp"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// misuseError is a usage error that the help of the command explains. Main
// points to it.
type misuseError struct{ error }

func (e *misuseError) Unwrap() error { return e.error }

// Misusef reports a command line that the help of its command explains, as
// [exitcode.Usagef] does any invalid one.
func Misusef(format string, args ...any) error {
	return exitcode.Usagef("%w", &misuseError{fmt.Errorf(format, args...)})
}

// Arguments returns the arguments of a command that takes as many as it names.
func Arguments(c *cli.Context, names ...string) ([]string, error) {
	args := c.Args().Slice()
	if len(args) < len(names) {
		return nil, Misusef("%s is missing", names[len(args)])
	}
	if len(args) > len(names) {
		return nil, Misusef("unexpected argument %q", args[len(names)])
	}
	return args, nil
}

// Argument is the action of a command with one argument, which it stores.
func Argument(name string, to *string, action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		args, err := Arguments(c, name)
		if err != nil {
			return err
		}
		*to = args[0]
		return action(c)
	}
}

// OptionalArgument is the action of a command with at most one argument, which it stores.
func OptionalArgument(to *string, action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > 1 {
			return Misusef("unexpected argument %q", c.Args().Get(1))
		}
		*to = cmp.Or(c.Args().First(), *to)
		return action(c)
	}
}

// NoArguments is the action of a command that takes flags alone.
func NoArguments(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if _, err := Arguments(c); err != nil {
			return err
		}
		return action(c)
	}
}

// Exclusive refuses two flags that are given together and cannot both be meant.
func Exclusive(c *cli.Context, pairs ...[2]string) error {
	for _, pair := range pairs {
		if c.IsSet(pair[0]) && c.IsSet(pair[1]) {
			return Misusef("--%s and --%s exclude each other", pair[0], pair[1])
		}
	}
	return nil
}

// Required refuses flags without a value: their names and values, in turn.
func Required(namesAndValues ...string) error {
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] == "" {
			return Misusef("--%s is missing", namesAndValues[i])
		}
	}
	return nil
}

// AtLeast refuses a number that is too small.
func AtLeast(least int, name string, value int) error {
	if value < least {
		return exitcode.Usagef("--%s: got %d, want %d or more", name, value, least)
	}
	return nil
}
