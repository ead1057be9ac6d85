package command_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command"
)

// TestMain puts the binaries of Lathe on PATH, all of them this test binary
// under another name, so that tests start real processes: lathe finds the
// task binaries beside itself.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lathe":         binary(command.Lathe),
		"lathe-rollout": binary(command.Rollout),
		"lathe-score":   binary(command.Score),
		"lathe-buffer":  binary(command.Buffer),
		"lathe-learn":   binary(command.Learn),
	})
}

func binary(app func() *cli.App) func() {
	return func() { os.Exit(command.Main(app(), os.Args)) }
}
