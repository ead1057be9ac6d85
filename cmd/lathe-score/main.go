// Command lathe-score carries out score tasks of a run.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
)

func main() { os.Exit(command.Main(command.Score(), os.Args)) }
