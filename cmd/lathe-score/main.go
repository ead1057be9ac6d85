// Command lathe-score runs score tasks of a run.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/task"
)

func main() { os.Exit(cmdline.Main(task.Score(), os.Args)) }
