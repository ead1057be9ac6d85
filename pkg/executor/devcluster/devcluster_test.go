package devcluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// A program may take a port between the moment that slurm/devcluster finds it
// free and the moment that its daemon listens there. So the controller, or a
// node, says when it ends, and the start is made again with other ports; three
// times in all, for a port that never comes free is not waited for.
func TestSlurmStartsAgainWhenAPortIsTaken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, daemon string
		taken        int // starts of the daemon that find its port taken
		exit         int
	}{
		{"controller", "slurmctld", 2, 0},
		{"node", "slurmd", 1, 0},
		{"never free", "slurmctld", 3, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			folder := t.TempDir()
			count := filepath.Join(folder, "count")
			daemon := fmt.Sprintf(`#!/bin/bash
echo >>%[2]s
(($(wc -l <%[2]s) > %[3]d)) && PATH=${PATH#*:} exec %[1]s "$@"
echo "error: Error binding slurm stream socket: Address already in use"
exit 1
`, test.daemon, count, test.taken)
			if err := os.WriteFile(filepath.Join(folder, test.daemon), []byte(daemon), 0o755); err != nil {
				t.Fatal(err)
			}
			up := exec.Command(c.script, "up", "--nodes", "1", "--dir", c.dir)
			up.Env = append(os.Environ(), "PATH="+folder+string(filepath.ListSeparator)+os.Getenv("PATH"), "TMPDIR="+folder)
			out, err := up.CombinedOutput()
			if code := up.ProcessState.ExitCode(); code == exitcode.Unavailable {
				t.Skipf("this test needs more packages: %s", out)
			} else if code != test.exit {
				t.Errorf("devcluster up: %v\n%s", err, out)
			}
		})
	}
}
