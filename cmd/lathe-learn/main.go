// Command lathe-learn carries out learn tasks of a run.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
)

func main() { os.Exit(command.Main(command.Learn(), os.Args)) }
