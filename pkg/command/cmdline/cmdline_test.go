package cmdline

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// tool is an application with flags, arguments and a group of commands.
func tool(action cli.ActionFunc) *cli.App {
	app := NewApp("tool", "for tests")
	Group(app,
		&cli.Command{Name: "cut", Flags: []cli.Flag{
			&cli.IntFlag{Name: "depth"}, &cli.BoolFlag{Name: "dry"},
		}, Action: action},
		&cli.Command{Name: "many", Subcommands: []*cli.Command{{Name: "one", Action: action}}},
	)
	return app
}

func TestPermute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want, command string }{
		{"tool", "tool", "tool"},
		{"tool cut wood --depth 3", "tool cut --depth 3 wood", "tool cut"},
		{"tool cut wood --depth=3 stone", "tool cut --depth=3 wood stone", "tool cut"},
		{"tool cut wood --dry stone", "tool cut --dry wood stone", "tool cut"},   // a switch takes no value
		{"tool cut wood --depth", "tool cut --depth wood", "tool cut"},           // whose value is missing
		{"tool cut wood -- --depth 3", "tool cut -- wood --depth 3", "tool cut"}, // what follows is arguments
		{"tool cut - --dry", "tool cut --dry -", "tool cut"},                     // standard input
		{"tool many one --depth 3", "tool many one --depth 3", "tool many one"},  // of no flag that is known
		{"tool nothing --depth 3 cut", "tool --depth nothing 3 cut", "tool"},     // no such command
	} {
		command, got := permute(tool(nil), strings.Fields(c.in))
		if want := strings.Fields(c.want); command != c.command || !slices.Equal(got, want) {
			t.Errorf("%q becomes %q of %q, want %q of %q", c.in, got, command, want, c.command)
		}
	}
}

// Alone: Main sets the umask of the process.
func TestMainEndsWithTheErrorsCode(t *testing.T) {
	for _, c := range []struct {
		args string
		err  error
		want int
	}{
		{"tool cut wood", nil, exitcode.OK},
		{"tool cut wood", exitcode.Dataf("rotten"), exitcode.Data},
		{"tool cut wood", Misusef("which end?"), exitcode.Usage},
		{"tool cut --frob", nil, exitcode.Usage},
		{"tool", nil, exitcode.Usage},
		{"tool many", nil, exitcode.Usage},
	} {
		app := tool(func(*cli.Context) error { return c.err })
		if got := Main(app, strings.Fields(c.args)); got != c.want {
			t.Errorf("%q with %v ends with %d, want %d", c.args, c.err, got, c.want)
		}
	}
}

func TestHelpEnding(t *testing.T) {
	t.Parallel()
	got := Help{Example: "tool cut wood\ntool cut stone", Exits: map[int]string{exitcode.Stopped: "", exitcode.Failed: "it broke"}}.ending()
	const want = `
EXAMPLE:
   tool cut wood
   tool cut stone

EXIT CODES:
   0   success, or nothing was left to do
   1   it broke
   64  invalid command line or recipe
   70  a bug in Lathe
   74  I/O error
   75  stopped by a signal; run the same command again to resume
`
	if got != want {
		t.Errorf("got%s, want%s", got, want)
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string // empty for no error
	}{
		{Required("a", "x", "b", "y"), ""},
		{Required("a", "x", "b", ""), "--b is missing"},
		{AtLeast(1, "samples", 1), ""},
		{AtLeast(1, "samples", 0), "--samples: got 0, want 1 or more"},
	} {
		if (c.err == nil) != (c.want == "") || c.err != nil && (c.err.Error() != c.want || exitcode.Code(c.err) != exitcode.Usage) {
			t.Errorf("got %v, want %q", c.err, c.want)
		}
	}
}
