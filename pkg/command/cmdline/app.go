// Package cmdline is what the command lines of Lathe's binaries have in
// common: an application without the parser's habits that do harm in scripts,
// flags that may stand behind arguments, help that ends with an example and
// the exit codes, and a process that ends with one of them.
//
// What a person sees follows two rules. Standard output is data; everything
// else goes to standard error. An error is one line, lower case, with the
// program's name in front and hints below it.
package cmdline

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
	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

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

// IsTerminal reports whether what is written is read by a person as it comes.
func IsTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.file
	}
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// Version is that of the binaries, set by the linker.
var Version = "development"

// NewApp makes a command-line application without the habits of the library
// that do harm in scripts: usage errors print one line to standard error,
// arguments that no command takes are refused, and nothing calls os.Exit.
func NewApp(name, usage string) *cli.App {
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

// Group gives an application or a command its commands. Without one of them it
// is a usage error.
func Group(app *cli.App, commands ...*cli.Command) {
	app.Commands, app.Action = commands, unknownCommand
	for _, command := range commands {
		strict(command)
	}
}

// strict prepares a command and its subcommands: usage errors as above, and
// no silent arguments.
func strict(command *cli.Command) {
	command.OnUsageError = usageError
	command.HideHelpCommand = true
	for _, sub := range command.Subcommands {
		strict(sub)
	}
	if command.Action == nil && len(command.Subcommands) > 0 {
		command.Action = unknownCommand
	}
}

func usageError(c *cli.Context, err error, _ bool) error {
	if flag, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
		var names []string
		for _, known := range c.Command.Flags {
			names = append(names, known.Names()...)
		}
		flag = strings.TrimPrefix(flag, "-")
		return Misusef("unknown flag --%s%s", flag, didYouMean(flag, "--", names))
	}
	if number := notNumber().FindStringSubmatch(err.Error()); number != nil {
		return Misusef("--%s %s is not a number", number[2], number[1])
	}
	return Misusef("%w", err)
}

// notNumber is how the library refuses the value of a flag.
var notNumber = lazyregexp.New(`^invalid value (".*") for flag -([a-z-]+): parse error$`)

func unknownCommand(c *cli.Context) error {
	if c.NArg() == 0 {
		return Misusef("a command is missing")
	}
	var names []string
	for _, known := range c.Command.Subcommands {
		names = append(names, known.Name)
	}
	name := c.Args().First()
	return Misusef("unknown command %q%s", name, didYouMean(name, "", names))
}

// didYouMean ends an error by the nearest of the names, where one is near.
func didYouMean(name, prefix string, names []string) string {
	near, ok := config.Nearest(name, names)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, near)
}

// Main runs an application as a process: it turns SIGINT, SIGHUP, SIGTERM and
// SIGUSR2 into a cancelled context, prints what went wrong, and returns the
// exit code. Slurm sends SIGUSR2 before a time limit and SIGTERM before a
// preemption; both mean: seal or drop, then leave.
func Main(app *cli.App, args []string) (code int) {
	sandbox.Enter()
	collectLate()
	defer reportPanic(app.Name, &code)
	if err := restrictModes(os.Getenv(umaskVariable)); err != nil {
		fmt.Fprint(os.Stderr, exitcode.Message(app.Name, err))
		return exitcode.Code(err)
	}
	ctx, stop := signalled()
	defer stop()
	command, args := permute(app, args)
	err := app.RunContext(ctx, args)
	if err == nil && stdout.err != nil {
		err = fmt.Errorf("write standard output: %w", stdout.err)
	}
	if err == nil {
		return exitcode.OK
	}
	var misuse *misuseError
	switch {
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || exitcode.Code(err) == exitcode.Stopped):
		err = exitcode.WithHint(exitcode.Stoppedf("stopped by a signal; all finished work is sealed"), "run the same command again to resume")
	case errors.As(err, &misuse):
		err = exitcode.WithHint(err, "see %s --help", command)
	}
	fmt.Fprint(os.Stderr, exitcode.Message(app.Name, err))
	return exitcode.Code(err)
}

// oneSignal is how long signals count as one: some programs, timeout(1) for
// one, send the same signal to a process and then to its group.
const oneSignal = 100 * time.Millisecond

// signalled returns a context that the first signal cancels. From then on a
// SIGINT does what it does to any process: whoever types ctrl-C again means it.
// A batch system repeats its signals, and ends what takes too long by SIGKILL. A terminal
// that is closed stops what nohup does not keep.
func signalled() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGUSR2)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		select {
		case s := <-signals:
			cancel(stopError(s.(syscall.Signal)))
			time.AfterFunc(oneSignal, func() { signal.Reset(os.Interrupt) })
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// stopError is why a context is cancelled that a signal has cancelled.
type stopError syscall.Signal

func (e stopError) Error() string { return "stopped by " + unix.SignalName(syscall.Signal(e)) }

// Is makes it a cancellation to whoever looks for one.
func (e stopError) Is(target error) bool { return target == context.Canceled }

// Stopping is the name of the signal that has cancelled the context of a process;
// empty when none has.
func Stopping(ctx context.Context) string {
	var stop stopError
	if errors.As(context.Cause(ctx), &stop) {
		return unix.SignalName(syscall.Signal(stop))
	}
	return ""
}

// reportPanic turns a panic of the main goroutine into the exit code for our
// bugs. It is deferred.
func reportPanic(program string, code *int) {
	if fault := recover(); fault != nil {
		fmt.Fprintf(os.Stderr, "%s: this is a bug in Lathe: %v\n\n%s", program, fault, debug.Stack())
		*code = exitcode.Bug
	}
}

// WriteJSON prints a value as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // it is read by people and programs, and is no page
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// Log returns a logger to standard error that names the program.
func Log(program string) func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, program+": "+format+"\n", args...)
	}
}
