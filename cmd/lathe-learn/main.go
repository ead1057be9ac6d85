// Command lathe-learn carries out learn tasks of a run.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func main() { os.Exit(cmdline.Main(command.Learn(), os.Args)) }
