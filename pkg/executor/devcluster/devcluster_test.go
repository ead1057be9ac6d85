package devcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
			c.env = []string{"PATH=" + folder + string(filepath.ListSeparator) + os.Getenv("PATH"), "TMPDIR=" + folder}
			if code, said := c.up(t, "--nodes", "1"); code != test.exit {
				t.Errorf("devcluster up ended with %d, want %d\n%s", code, test.exit, said)
			}
		})
	}
}
