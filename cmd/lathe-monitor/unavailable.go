//go:build !cgo

package main

import (
	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// readGPUs explains what this build cannot do.
func readGPUs() ([]command.GPU, error) {
	return nil, exitcode.WithHint(exitcode.Unavailablef("this lathe-monitor was built without cgo and cannot read GPUs"),
		"install a C compiler and build it with: CGO_ENABLED=1 go build ./cmd/lathe-monitor")
}
