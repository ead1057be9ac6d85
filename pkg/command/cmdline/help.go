package cmdline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Help is what the help of a command ends with.
type Help struct {
	Example string         // command lines that work as they stand in a fresh clone after make quickstart
	Exits   map[int]string // the exit codes beyond those of every command, with what they mean here; empty means what it means everywhere
}

// meanings are the exit codes of every binary.
var meanings = map[int]string{
	exitcode.OK:          "success, or nothing was left to do",
	exitcode.Failed:      "any other failure",
	exitcode.LeftOut:     "done, but some shards were left out",
	exitcode.Usage:       "invalid command line or recipe",
	exitcode.Data:        "a file is damaged, foreign or missing; the message names it",
	exitcode.Unavailable: "something required is missing on this machine",
	exitcode.Bug:         "a bug in Lathe",
	exitcode.IO:          "I/O error",
	exitcode.Stopped:     "stopped by a signal; run the same command again to resume",
}

// always are the exit codes of every command.
var always = []int{exitcode.OK, exitcode.Failed, exitcode.Usage, exitcode.Bug, exitcode.IO}

// Exits are exit codes that mean what they mean everywhere.
func Exits(codes ...int) map[int]string {
	exits := map[int]string{}
	for _, code := range codes {
		exits[code] = ""
	}
	return exits
}

// Command puts the ending under the help of a command.
func (h Help) Command(c *cli.Command) *cli.Command {
	c.CustomHelpTemplate = cli.CommandHelpTemplate
	if len(c.Subcommands) > 0 {
		c.CustomHelpTemplate = cli.SubcommandHelpTemplate
	}
	c.CustomHelpTemplate += h.ending()
	return c
}

// App puts the ending under the help of an application.
func (h Help) App(app *cli.App) *cli.App {
	app.CustomAppHelpTemplate = cli.AppHelpTemplate + h.ending()
	return app
}

// ending is text for the help template: it holds no action of text/template.
func (h Help) ending() string {
	var b strings.Builder
	b.WriteString("\nEXAMPLE:\n")
	for line := range strings.Lines(strings.TrimSpace(h.Example)) {
		b.WriteString("   " + strings.TrimSpace(line) + "\n")
	}
	b.WriteString("\nEXIT CODES:\n")
	codes := slices.Concat(always, slices.Collect(maps.Keys(h.Exits)))
	slices.Sort(codes)
	for _, code := range slices.Compact(codes) {
		fmt.Fprintf(&b, "   %-3d %s\n", code, cmp.Or(h.Exits[code], meanings[code]))
	}
	return b.String()
}
