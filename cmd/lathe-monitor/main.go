// Command lathe-monitor samples the GPUs, cores and memory of a task into its run.
// It is the only binary that needs cgo: go-nvml loads the driver's library when it
// starts. Without cgo it samples the host alone, and says so.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/monitor"
)

func main() { os.Exit(cmdline.Main(monitor.App(open), os.Args)) }
