// Command lathe-rollout carries out rollout tasks of a run.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
)

func main() { os.Exit(command.Main(command.Rollout(), os.Args)) }
