// Package command holds the commands of Lathe's binaries. Each has a file of
// its own: the options that it takes, the function of a context and those
// options that carries it out, and the flags that fill the options. What the
// functions do lives in other packages; what the command lines have in common
// is package cmdline.
package command

import (
	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// Version is the version of the binaries, set by the linker.
var Version = "development"

func newApp(name, usage string) *cli.App { return cmdline.NewApp(name, usage, Version) }
