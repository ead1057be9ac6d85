// Package commandtest holds what tests of whole runs, by their commands, share:
// what a run computed, processes that are killed at random, and a real Slurm.
// The binaries are those that the test's TestMain puts on PATH.
package commandtest

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

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Open opens a run in this process.
func Open(t *testing.T, dir string) *rundir.Run {
	t.Helper()
	opened, err := rundir.Open(t.Context(), graph.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// Essence digests what a run computed, by name: the content of every policy,
// optimizer, plan, state, batch and ledger, and the rows of the evaluations
// of each policy but for the seconds that programs took. How the work was cut
// into shards is not part of it.
func Essence(t *testing.T, dir string) map[string]string {
	t.Helper()
	r := Open(t, dir)
	digests := map[string]string{}
	for k := 0; k <= r.Recipe.Schedule.Iterations; k++ {
		for _, path := range []string{
			r.Dir.Policy(k), r.Dir.Optimizer(k), r.Dir.Critic(k), graph.OptimizerOf(r.Dir.Critic(k)), r.Dir.Reference(k), r.Dir.Plan(k), r.Dir.State(k), r.Dir.Stats(k), r.Dir.Batch(k), r.Dir.Waiting(k), r.Dir.Ledger(k),
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
				row.ExecuteSeconds = 0
				for i := range row.EarlierTurns {
					row.EarlierTurns[i].ExecuteSeconds = 0
				}
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

// Clean checks that lathe verify finds no fault, that every planned response
// has its disposition, and that no unfinished work lies about.
func Clean(t *testing.T, dir string) {
	t.Helper()
	var v verify.Verification
	command := exec.Command("lathe", "verify", "--json", dir)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, failed := command.Output()
	if err := json.Unmarshal(stdout, &v); err != nil {
		t.Fatalf("lathe verify: %v, %v\n%s%s", failed, err, stdout, stderr.String())
	}
	if failed != nil || len(v.Faults) > 0 {
		t.Errorf("lathe verify ends with %v and finds\n%s", failed, stdout)
	}
	fates := v.Ledger.Trained
	for _, n := range v.Ledger.Dropped {
		fates += n
	}
	if v.Ledger.Planned == 0 || v.Ledger.Segments != fates || fates < v.Ledger.Planned || v.Ledger.Pending != 0 || len(v.Ledger.Problems) > 0 {
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
