// Command lathe-buffer carries out buffer tasks of a run.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
)

func main() { os.Exit(command.Main(command.Buffer(), os.Args)) }
