package command

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

// What follows is for the commands whose actions take a command line yet.

var (
	stdout    = cmdline.Stdout
	arguments = cmdline.Arguments
	exclusive = cmdline.Exclusive
	writeJSON = cmdline.WriteJSON
	talk      = cmdline.Log
)

func withHelp(_ *cli.Context, err error) error { return cmdline.Misusef("%w", err) }

func isTerminal(f *os.File) bool { return cmdline.IsTerminal(f) }

func atLeast(c *cli.Context, least int, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) {
			if err := cmdline.AtLeast(least, name, c.Int(name)); err != nil {
				return err
			}
		}
	}
	return nil
}
