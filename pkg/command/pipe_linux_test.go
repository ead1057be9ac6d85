package command_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// soon runs the operator's command and returns its exit code and what it said. It
// kills a command that waits.
func soon(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lathe", args...)
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("lathe %s: it waits: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), string(said)
}

// pipe puts a pipe that nobody writes to in the place of a file.
func pipe(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// A pipe in the place of a file of a run is damage, and no command waits for
// somebody to write into it.
func TestPipeInARun(t *testing.T) {
	reference := filepath.Join(t.TempDir(), "reference")
	lathe(t, exitcode.OK, runArgs(reference, smoke, append([]string{"schedule.iterations=1"}, small...)...)...)
	r := open(t, reference)
	rollout := r.Graph.Outputs(graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}})[0]
	heartbeat := filepath.Join(r.Dir.Jobs(), "driver.json")
	for _, path := range []string{
		r.Dir.Identity(), seal.ManifestPath(r.Dir.Identity()), r.Dir.Recipe(), rollout, seal.ManifestPath(rollout), heartbeat,
	} {
		rel, err := filepath.Rel(reference, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(rel, func(t *testing.T) {
			t.Parallel()
			dir := copyRun(t, reference)
			pipe(t, filepath.Join(dir, rel))
			ofRun := strings.HasPrefix(rel, "run.json") || rel == "recipe.yaml"
			for _, command := range []string{"status", "verify", "report"} {
				code, said := soon(t, command, dir)
				if ofRun && code != exitcode.Data || code != exitcode.Data && code != exitcode.OK {
					t.Errorf("%s: exit code %d:\n%s", command, code, said)
				}
				if (ofRun || command == "verify" && path != heartbeat) && !strings.Contains(said, "found a pipe") {
					t.Errorf("%s does not tell of the pipe:\n%s", command, said)
				}
			}
		})
	}
}

// A recipe is a file.
func TestPipeAsRecipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	pipe(t, path)
	if code, said := soon(t, "recipe", "show", path); code != exitcode.Usage || !strings.Contains(said, "a pipe") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
