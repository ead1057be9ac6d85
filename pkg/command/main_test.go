package command_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
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
		"policy-server": servePolicy,
		"lathe-panics":  binary(panics),
		"lathe-deaf":    binary(deaf),
	})
}

// binary runs an application as a process. An exit code that its help does not
// name becomes another one, which no test expects.
func binary(app func() *cli.App) func() {
	return func() {
		code := cmdline.Main(app(), os.Args)
		if !declares(app(), os.Args, code) {
			fmt.Fprintf(os.Stderr, "exit code %d is not among those of --help\n", code)
			code = undeclared
		}
		os.Exit(code)
	}
}

const undeclared = 99

const smoke = "../../jobs/smoke.yaml"

// ended is how a process ended.
type ended struct {
	code           int
	stdout, stderr string
}

// execute runs a program with more variables in its environment.
func execute(t *testing.T, env []string, name string, args ...string) ended {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// lathe runs the operator's command and checks its exit code.
func lathe(t *testing.T, code int, args ...string) ended {
	t.Helper()
	e := execute(t, nil, "lathe", args...)
	if e.code != code {
		t.Fatalf("lathe %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), e.code, code, e.stdout, e.stderr)
	}
	return e
}

// runArgs is the command line that makes a run.
func runArgs(dir, recipe string, settings ...string) []string {
	args := []string{"run", recipe, "--run", dir}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}

// open opens a run in this process.
func open(t *testing.T, dir string) *rundir.Run {
	t.Helper()
	opened, err := rundir.Open(t.Context(), graph.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// essence digests what a run computed, by name: the content of every policy,
// optimizer, plan, state, batch and ledger, and the rows of the evaluations
// of each policy. How the work was cut into shards is not part of it.
func essence(t *testing.T, dir string) map[string]string {
	t.Helper()
	r := open(t, dir)
	digests := map[string]string{}
	for k := 0; k <= r.Recipe.Schedule.Iterations; k++ {
		for _, path := range []string{
			r.Dir.Policy(k), r.Dir.Optimizer(k), r.Dir.Reference(k), r.Dir.Plan(k), r.Dir.State(k), r.Dir.Batch(k), r.Dir.Ledger(k),
		} {
			if m, err := seal.Record(t.Context(), path); err == nil {
				digests[r.Dir.Rel(path)] = m.ContentSHA256
			}
		}
	}
	for _, version := range r.Graph.EvaluatedVersions() {
		h := sha256.New()
		for n := range r.Graph.Shards(graph.Node{Stage: graph.StageEvaluate, Iteration: version}) {
			rows, _, err := shard.Read[shard.EvaluationRow](t.Context(), r.Dir.Evaluation(version, n), seal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if err := json.NewEncoder(h).Encode(row); err != nil {
					t.Fatal(err)
				}
			}
		}
		digests[fmt.Sprintf("eval/v%06d", version)] = hex.EncodeToString(h.Sum(nil))
	}
	last := r.Recipe.Schedule.Iterations
	if digests[r.Dir.Rel(r.Dir.Policy(last))] == "" {
		t.Fatalf("run %s has no policy v%06d", dir, last)
	}
	return digests
}

// clean checks that lathe verify finds no fault, that every planned response
// has its fate, and that no unfinished work lies about.
func clean(t *testing.T, dir string) {
	t.Helper()
	var v verify.Verification
	e := execute(t, nil, "lathe", "verify", "--json", dir)
	if err := json.Unmarshal([]byte(e.stdout), &v); err != nil {
		t.Fatalf("lathe verify: %v\n%s%s", err, e.stdout, e.stderr)
	}
	if e.code != 0 || len(v.Faults) > 0 {
		t.Errorf("lathe verify ends with %d and finds\n%s", e.code, e.stdout)
	}
	fates := v.Ledger.Trained
	for _, n := range v.Ledger.Dropped {
		fates += n
	}
	if v.Ledger.Planned == 0 || v.Ledger.Planned != fates || v.Ledger.Pending != 0 || len(v.Ledger.Problems) > 0 {
		t.Errorf("the ledger is not exact: %+v", v.Ledger)
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") {
			t.Errorf("%s was left behind", path)
		}
		if !entry.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		if top, _, _ := strings.Cut(rel, "/"); top == "logs" || top == "jobs" || top == "report" {
			return nil // not sealed
		}
		if _, err := os.Stat(seal.ManifestPath(path)); err == nil {
			return fs.SkipDir // a sealed folder
		}
		orphans, err := seal.Orphans(path)
		if len(orphans) > 0 {
			t.Errorf("orphans in %s: %q", path, orphans)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// copyRun copies a run folder.
func copyRun(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}
