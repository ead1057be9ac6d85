// Command lathe-monitor shows the GPUs of this host. It is the only binary
// that needs cgo: go-nvml loads the driver's library when it starts.
package main

import (
	"os"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
)

func main() { os.Exit(cmdline.Main(command.Monitor(readGPUs), os.Args)) }
