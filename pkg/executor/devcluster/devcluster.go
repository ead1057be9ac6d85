// Package devcluster starts the loopback Slurm of slurm/devcluster for tests.
package devcluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
)

// Cluster is a running loopback Slurm.
type Cluster struct {
	dir    string
	script string
	env    []string // of the script, beside that of this process
}

// Wanted skips the test unless LATHE_TEST_SLURM is 1.
func Wanted(t *testing.T) {
	t.Helper()
	if os.Getenv("LATHE_TEST_SLURM") != "1" {
		t.Skip("this test starts a Slurm cluster on this machine; set LATHE_TEST_SLURM=1 to run it")
	}
}

// Start starts a cluster that ends with the test, with options of
// slurm/devcluster up. It skips the test unless LATHE_TEST_SLURM is 1.
func Start(t *testing.T, options ...string) *Cluster {
	t.Helper()
	c := newCluster(t)
	if code, said := c.up(t, options...); code != 0 {
		t.Fatalf("devcluster up ended with %d\n%s", code, said)
	}
	return c
}

// up starts the cluster, and gives the exit code and what was said. It skips the test
// where packages are missing.
func (c *Cluster) up(t *testing.T, options ...string) (code int, said string) {
	t.Helper()
	said, err := c.command(append([]string{"up"}, options...)...)
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		code = ended.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	if code == exitcode.Unavailable {
		t.Skipf("this test needs more packages: %s", said)
	}
	return code, said
}

// newCluster is a folder for a cluster that ends with the test.
func newCluster(t *testing.T) *Cluster {
	t.Helper()
	Wanted(t)
	// Not t.TempDir: its paths are too long for sockets below them.
	dir, err := os.MkdirTemp("/tmp", "lathe-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{dir: dir, script: sourcetree.Path("slurm", "devcluster")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of slurmctld.log:\n%s", c.logTail())
		}
		c.Do(t, "down")
	})
	return c
}

// Conf is the path of slurm.conf, for SLURM_CONF.
func (c *Cluster) Conf() string { return filepath.Join(c.dir, "slurm.conf") }

// Dir is the cluster's folder.
func (c *Cluster) Dir() string { return c.dir }

// Environ is the environment of this process and what points Slurm's commands,
// and ours, to the cluster.
func (c *Cluster) Environ(t *testing.T) []string {
	t.Helper()
	out, err := c.command("env")
	if err != nil {
		t.Fatalf("devcluster env: %v\n%s", err, out)
	}
	environ := os.Environ()
	for line := range strings.Lines(out) {
		if assignment, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			environ = append(environ, strings.NewReplacer(`"`, "", "'", "").Replace(assignment))
		}
	}
	return environ
}

// Do runs a command of slurm/devcluster on the cluster.
func (c *Cluster) Do(t *testing.T, command ...string) {
	t.Helper()
	if out, err := c.command(command...); err != nil {
		t.Errorf("devcluster %s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

func (c *Cluster) command(words ...string) (string, error) {
	cmd := exec.Command(c.script, append(words, "--dir", c.dir)...)
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *Cluster) logTail() string {
	content, err := os.ReadFile(filepath.Join(c.dir, "log", "slurmctld.log"))
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-4000):])
}
