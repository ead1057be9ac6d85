// Command lathe makes, advances, inspects and reports runs.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func main() { os.Exit(cmdline.Main(command.Lathe(), os.Args)) }
