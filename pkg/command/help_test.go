package command_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	monitorcommand "github.com/lathe-rl/lathe/pkg/command/monitor"
	"github.com/lathe-rl/lathe/pkg/command/task"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/monitor"
)

// apps are the binaries.
var apps = map[string]func() *cli.App{
	"lathe": command.Lathe, "lathe-rollout": task.Rollout, "lathe-score": task.Score,
	"lathe-buffer": task.Buffer, "lathe-learn": task.Learn,
	"lathe-monitor": func() *cli.App { return monitorcommand.App(noGPU) },
}

// noGPU is a sampler of a host without GPUs.
func noGPU(monitor.Devices) monitor.Sampler { return monitor.NewReplay(nil) }

// commandsOf lists the words of every command of an application, its own first.
func commandsOf(app *cli.App) [][]string {
	all := [][]string{{app.Name}}
	var walk func(words []string, commands []*cli.Command)
	walk = func(words []string, commands []*cli.Command) {
		for _, c := range commands {
			own := append(slices.Clone(words), c.Name)
			all = append(all, own)
			walk(own, c.Subcommands)
		}
	}
	walk(all[0], app.Commands)
	return all
}

// helpEnding finds the example and the exit codes at the end of a help text.
var helpEnding = regexp.MustCompile(`(?s)\nEXAMPLE:\n((?:   [^\n]+\n)+)\nEXIT CODES:\n((?:   [0-9]+ +[^\n]+\n)+)\n?$`)

// helpOf is what `WORDS --help` prints, and the example and exit codes in it.
func helpOf(words []string) (text, example string, codes []int, err error) {
	var out bytes.Buffer
	app := apps[words[0]]()
	app.Writer = &out
	if err := app.Run(append(slices.Clone(words), "--help")); err != nil {
		return "", "", nil, err
	}
	found := helpEnding.FindStringSubmatch(out.String())
	if found == nil {
		return out.String(), "", nil, fmt.Errorf("the help of %v does not end with an example and exit codes", words)
	}
	for line := range strings.Lines(found[2]) {
		code, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			return out.String(), "", nil, err
		}
		codes = append(codes, code)
	}
	return out.String(), found[1], codes, nil
}

// TestHelp: the help of every command ends with an example, whose flags there
// are, and with the exit codes.
func TestHelp(t *testing.T) {
	known := []int{
		exitcode.OK, exitcode.Failed, exitcode.LeftOut, exitcode.Usage, exitcode.Data, exitcode.Unavailable,
		exitcode.Bug, exitcode.IO, exitcode.Stopped,
	}
	for _, app := range apps {
		for _, words := range commandsOf(app()) {
			name := strings.Join(words, " ")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				text, example, codes, err := helpOf(words)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				if codes[0] != exitcode.OK || !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
					t.Errorf("the exit codes are %v", codes)
				}
				for _, code := range codes {
					if !slices.Contains(known, code) {
						t.Errorf("%d is no exit code of ours", code)
					}
				}
				if strings.Contains(text, cmdline.NoDefault) || strings.Contains(text, "(default: false)") || strings.Contains(text, "; default: all (default") {
					t.Errorf("help has a default that says nothing:\n%s", text)
				}
				shown := false
				for line := range strings.Lines(example) {
					args := callOf(t, line)
					shown = shown || len(args) >= len(words) && slices.Equal(args[:len(words)], words)
					if err := parses(args); err != nil {
						t.Errorf("$ %s%v", strings.TrimSpace(line), err)
					}
				}
				if !shown {
					t.Errorf("the example does not show %s:\n%s", name, example)
				}
			})
		}
	}
}

// callOf lists the words with which a line of shell calls a binary.
func callOf(t *testing.T, line string) []string {
	t.Helper()
	var script strings.Builder
	for name := range apps {
		fmt.Fprintf(&script, "%s() { printf '%%s\\0' %s \"$@\"; }\n", name, name)
	}
	out, err := exec.Command("bash", "-c", script.String()+line).Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("$ %s: %v, it calls %q", line, err, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// parses reports what is wrong with a command line before anything is done.
func parses(args []string) error {
	app := apps[args[0]]()
	called := false
	var disarm func(commands []*cli.Command)
	disarm = func(commands []*cli.Command) {
		for _, c := range commands {
			c.Action = func(*cli.Context) error { called = true; return nil }
			disarm(c.Subcommands)
		}
	}
	disarm(app.Commands)
	if app.Name != "lathe" { // which does nothing without a command
		app.Action = func(*cli.Context) error { called = true; return nil }
	}
	if code := cmdline.Main(app, args); code != exitcode.OK || !called {
		return fmt.Errorf("exit code %d, called %v", code, called)
	}
	return nil
}

// declares reports whether the help of the command of a command line names an
// exit code.
func declares(app *cli.App, args []string, code int) bool {
	if apps[app.Name] == nil {
		return true // a program of the tests
	}
	words := []string{app.Name}
	for commands := app.Commands; len(args) > len(words); {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == args[len(words)] })
		if i < 0 {
			break
		}
		words, commands = append(words, commands[i].Name), commands[i].Subcommands
	}
	_, _, codes, err := helpOf(words)
	return err == nil && slices.Contains(codes, code)
}
