// Package command holds the command lines of Lathe's binaries. A command is
// flags, one call and an exit code; what it does lives in other packages.
//
// What a person sees follows two rules. Standard output is data; everything
// else goes to standard error. An error is one line, lower case, with the
// program's name in front and hints below it.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Version is the version of the binaries, set by the linker.
var Version = "development"

// stdout is standard output. Main fails a command whose data did not all get
// out, so that nothing else has to look after every line.
var stdout = &output{file: os.Stdout}

// output keeps the first error of its writes.
type output struct {
	file *os.File
	err  error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// newApp makes a command-line application without the habits of the library
// that do harm in scripts: usage errors print one line to standard error,
// arguments that no command takes are refused, and nothing calls os.Exit.
func newApp(name, usage string) *cli.App {
	app := cli.NewApp()
	app.Name, app.HelpName, app.Usage, app.Version = name, name, usage, Version
	app.HideHelpCommand = true
	app.Suggest = true
	app.DisableSliceFlagSeparator = true // --set data.train.filter=[a, b] is one setting
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.OnUsageError = usageError
	app.CommandNotFound = func(*cli.Context, string) {}
	app.Writer, app.ErrWriter = stdout, os.Stderr
	return app
}

func usageError(c *cli.Context, err error, _ bool) error {
	if flag, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
		return withHelp(c, exitcode.Usagef("unknown flag --%s", strings.TrimPrefix(flag, "-")))
	}
	return withHelp(c, exitcode.Usagef("%w", err))
}

// withHelp points to the help of the command that was meant.
func withHelp(c *cli.Context, err error) error {
	name := c.App.HelpName
	if c.Command != nil && c.Command.HelpName != "" {
		name = c.Command.HelpName
	}
	return exitcode.WithHint(err, "see %s --help", name)
}

// strict prepares a command and its subcommands: usage errors as above, and
// no silent arguments. arguments is how many the command takes.
func strict(command *cli.Command) *cli.Command {
	command.OnUsageError = usageError
	command.HideHelpCommand = true
	for _, sub := range command.Subcommands {
		strict(sub)
	}
	if command.Action == nil && len(command.Subcommands) > 0 {
		command.Action = func(c *cli.Context) error {
			return unknownCommand(c)
		}
	}
	return command
}

func unknownCommand(c *cli.Context) error {
	if c.NArg() == 0 {
		return withHelp(c, exitcode.Usagef("a command is missing"))
	}
	return withHelp(c, exitcode.Usagef("unknown command %q", c.Args().First()))
}

// arguments checks the number of arguments.
func arguments(c *cli.Context, names ...string) ([]string, error) {
	args := c.Args().Slice()
	if len(args) < len(names) {
		return nil, withHelp(c, exitcode.Usagef("%s is missing", names[len(args)]))
	}
	if len(args) > len(names) {
		return nil, withHelp(c, exitcode.Usagef("unexpected argument %q", args[len(names)]))
	}
	return args, nil
}

// Main runs an application as a process: it turns SIGINT, SIGTERM and
// SIGUSR2 into a cancelled context, prints what went wrong, and returns the
// exit code. Slurm sends SIGUSR2 before a time limit and SIGTERM before a
// preemption; both mean: seal or drop, then leave.
func Main(app *cli.App, args []string) (code int) {
	defer reportPanic(app.Name, &code)
	ctx, stop := signalled()
	defer stop()
	err := app.RunContext(ctx, permute(app, args))
	if err == nil && stdout.err != nil {
		err = fmt.Errorf("writing to standard output: %w", stdout.err)
	}
	if err == nil {
		return exitcode.OK
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || exitcode.Code(err) == exitcode.Stopped) {
		err = exitcode.WithHint(exitcode.Stoppedf("stopped by a signal; everything finished is sealed"), "run the same command again to go on")
	}
	fmt.Fprint(os.Stderr, exitcode.Message(app.Name, err))
	return exitcode.Code(err)
}

// oneSignal is how long signals count as one: some programs, timeout(1) for
// one, send the same signal to a process and then to its group.
const oneSignal = 100 * time.Millisecond

// signalled returns a context that the first signal cancels. From then on a
// SIGINT does what it does to any process: whoever types ctrl-C again means it.
// A batch system repeats its signals, and ends what takes too long by SIGKILL.
func signalled() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGUSR2)
	context.AfterFunc(ctx, func() { time.AfterFunc(oneSignal, func() { signal.Reset(os.Interrupt) }) })
	return ctx, stop
}

// reportPanic turns a panic of the main goroutine into the exit code for our
// bugs. It is deferred.
func reportPanic(program string, code *int) {
	if fault := recover(); fault != nil {
		fmt.Fprintf(os.Stderr, "%s: this is a bug in Lathe: %v\n\n%s", program, fault, debug.Stack())
		*code = exitcode.Bug
	}
}

// permute moves flags in front of arguments, which the library expects,
// so that `lathe run recipe.yaml --run DIR` works as it reads.
func permute(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	commands, rest := args[:1], args[1:]
	flags := app.Flags
	level := app.Commands
	for len(rest) > 0 {
		command := find(level, rest[0])
		if command == nil {
			break
		}
		commands, rest = append(commands[:len(commands):len(commands)], rest[0]), rest[1:]
		flags, level = command.Flags, command.Subcommands
	}
	takesValue := map[string]bool{}
	for _, f := range flags {
		_, isBool := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			takesValue[name] = !isBool
		}
	}
	var front, back []string
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		if arg == "--" { // what follows is arguments, whatever it looks like
			front, back = append(front, arg), append(back, rest[i+1:]...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			back = append(back, arg)
			continue
		}
		front = append(front, arg)
		name := strings.TrimLeft(arg, "-")
		if !strings.Contains(name, "=") && takesValue[name] && i+1 < len(rest) {
			i++
			front = append(front, rest[i])
		}
	}
	return append(append(commands[:len(commands):len(commands)], front...), back...)
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// writeJSON prints a value as indented JSON.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// talk returns a logger to standard error.
func talk(program string) func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, program+": "+format+"\n", args...)
	}
}
