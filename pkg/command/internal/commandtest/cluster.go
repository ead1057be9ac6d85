package commandtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/devcluster"
	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
)

// Cluster is a real Slurm on this machine.
type Cluster struct {
	*devcluster.Cluster
	Bin string   // folder of the binaries
	Env []string // what points commands to it

	t    *testing.T
	root string // of the source tree
}

// StartCluster starts a Slurm that ends with the test, for the binaries in a
// folder.
func StartCluster(t *testing.T, bin string, options ...string) *Cluster {
	t.Helper()
	c := &Cluster{Cluster: devcluster.Start(t, options...), Bin: bin, t: t, root: sourcetree.Path()}
	c.Env = append(c.Environ(t), "LATHE_BIN="+bin)
	return c
}

// In is the same cluster for a subtest.
func (c Cluster) In(t *testing.T) *Cluster {
	c.t = t
	return &c
}

// Build builds the binaries that the nodes of a cluster need, once for all tests of a
// package. It skips tests that are to start no cluster. The folder is one that testscript
// removes with its own.
func Build(t *testing.T) (bin string) {
	t.Helper()
	devcluster.Wanted(t)
	built.once.Do(func() {
		ours, err := exec.LookPath("lathe")
		if err != nil {
			t.Fatal(err)
		}
		built.bin = filepath.Join(filepath.Dir(filepath.Dir(ours)), "nodes")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", built.bin+"/", "./cmd/lathe", "./cmd/lathe-rollout", "./cmd/lathe-score", "./cmd/lathe-buffer", "./cmd/lathe-learn")
		build.Dir, build.Env = sourcetree.Path(), append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the binaries: %v\n%s", err, out)
		}
	})
	return built.bin
}

var built struct {
	once sync.Once
	bin  string
}

// Command runs a program with the cluster's environment in the source tree.
func (c *Cluster) Command(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir, command.Env = c.root, c.Env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

func (c *Cluster) Must(name string, args ...string) string {
	c.t.Helper()
	out, err := c.Command(name, args...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Submit starts a run through the script that users submit, and waits until
// the first controller job has left.
func (c *Cluster) Submit(recipe, dir string, args ...string) {
	c.t.Helper()
	words := []string{"--wait", "--partition=high", "--output=" + filepath.Join(c.Dir(), "train-%j.log"), "slurm/train.sbatch", recipe, dir}
	if out, err := c.Command("sbatch", append(words, args...)...); err != nil {
		c.t.Fatalf("submitting %s: %v\n%s\n%s", recipe, err, out, tails(c.Dir(), "train-*.log"))
	}
}

// Await waits until a run is reported and done, and meanwhile lets other things happen.
// Status takes 50 ms of a core: without a report it is asked every ten seconds.
func (c *Cluster) Await(dir string, meanwhile func()) {
	c.t.Helper()
	var last string
	var asked time.Time
	began := time.Now()
	for ; time.Since(began) < await.Limit; time.Sleep(200 * time.Millisecond) {
		if meanwhile != nil {
			meanwhile()
		}
		done := reported(dir)
		if !done && time.Since(asked) < 10*time.Second {
			continue
		}
		asked = time.Now()
		out, err := c.Command(filepath.Join(c.Bin, "lathe"), "status", "--json", dir)
		last = out
		var status struct{ State, Evidence string }
		if err != nil || json.Unmarshal([]byte(out), &status) != nil {
			continue
		}
		if done && status.State == "done" {
			return
		}
		if status.State == "failed" {
			break
		}
	}
	queue, _ := c.Command("squeue", "-t", "all", "-o", "%i %j %T %r")
	c.t.Fatalf("run %s is not done after %v:\n%s\n%s\n%s%s", dir, time.Since(began).Round(time.Second), last, queue,
		tails(filepath.Join(dir, "logs"), "gate*"), tails(c.Dir(), "train-*.log"))
}

// Settle waits until nothing is left in the queue, so that no job writes into a test's
// folder any more: a controller job that met a full queue looks again after half a minute.
func (c *Cluster) Settle() {
	c.t.Helper()
	await.Until(c.t, "the queue is empty", func() bool { return strings.TrimSpace(c.Must("squeue", "-h")) == "" })
}

// tails are the last lines of the files of a folder whose names fit a pattern.
func tails(folder, pattern string) string {
	var said strings.Builder
	files, err := fs.Glob(os.DirFS(folder), pattern)
	if err != nil {
		return err.Error()
	}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(folder, name))
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&said, "%s, %v:\n%s\n", name, err, strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	return said.String()
}

// PolicySHA256 is the digest of the last policy, from the run's report.
func (c *Cluster) PolicySHA256(dir string) string {
	c.t.Helper()
	c.Must(filepath.Join(c.Bin, "lathe"), "verify", dir)
	var summary struct {
		SHA256 string `json:"policy_sha256"`
		Ledger struct{ Pending int }
	}
	out, err := exec.Command(filepath.Join(c.Bin, "lathe"), "report", "--json", dir).Output()
	if err != nil {
		c.t.Fatalf("report of %s: %v", dir, err)
	}
	if err := json.Unmarshal(out, &summary); err != nil {
		c.t.Fatal(err)
	}
	if summary.SHA256 == "" || summary.Ledger.Pending != 0 {
		c.t.Fatalf("report of %s: policy %q, %d responses pending", dir, summary.SHA256, summary.Ledger.Pending)
	}
	return summary.SHA256
}

// Reference is the digest of the same run on this machine alone.
func (c *Cluster) Reference(recipe string, settings ...string) string {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), "reference")
	args := []string{"run", recipe, "--run", dir}
	c.Must(filepath.Join(c.Bin, "lathe"), append(args, settings...)...)
	return c.PolicySHA256(dir)
}

// Set is the flags of settings of a recipe.
func Set(settings ...string) []string {
	var args []string
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}
