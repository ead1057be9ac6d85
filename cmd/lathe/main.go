// Command lathe makes, advances, inspects and reports runs.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
)

func main() { os.Exit(command.Main(command.Lathe(), os.Args)) }
