// Command lathe-rollout carries out rollout tasks of a run.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func main() { os.Exit(cmdline.Main(command.Rollout(), os.Args)) }
