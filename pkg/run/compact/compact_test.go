package compact_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/compact"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// sampled is a run of two iterations of 3 shards, of which the first is done: rollouts
// and scores are tables, and all but the first shard of rollouts have a log, one two.
func sampled(t *testing.T, settings ...string) *runtest.Board {
	t.Helper()
	b := runtest.NewBoard(t, append([]string{"schedule.iterations=2", "rollout.shards=3", "evaluation.problems=3", "evaluation.shards=3"}, settings...)...)
	for k := 1; k <= 2; k++ {
		for n := range 3 {
			for _, task := range []graph.Task{{Node: runtest.Node(graph.StageRollout, k), Shard: n}, {Node: runtest.Node(graph.StageScore, k), Shard: n}} {
				var err error
				if path := b.Outputs(task)[0]; task.Judges() {
					_, err = shard.Write(path, []shard.Score{{Sample: int32(n)}}, nil, seal.AttemptFromEnv(), b.Expected(task))
				} else {
					_, err = shard.Write(path, []shard.Rollout{{Sample: int32(n)}}, nil, seal.AttemptFromEnv(), b.Expected(task))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for n := range 3 { // the evaluations of versions 0, which is gathered, and 2
		for _, version := range []int{0, 2} {
			task := graph.Task{Node: runtest.Node(graph.StageEvalRollout, version), Shard: n}
			_, err := shard.Write(b.Outputs(task)[0], []shard.Rollout{{Sample: int32(n)}}, nil, seal.AttemptFromEnv(), b.Expected(task))
			task.Node = task.Judging()
			_, errScore := shard.Write(b.Outputs(task)[0], []shard.Score{{Sample: int32(n)}}, nil, seal.AttemptFromEnv(), b.Expected(task))
			task.Node = runtest.Node(graph.StageEvaluate, version)
			var errRows error
			if version == 0 {
				_, errRows = shard.Write(b.Outputs(task)[0], []shard.EvaluationRow{{}}, nil, seal.AttemptFromEnv(), b.Expected(task))
			}
			if err := errors.Join(err, errScore, errRows); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range b.Nodes() {
		if n.Iteration < 2 && !n.OfTraces() {
			b.Seal(n)
			b.Close()
		}
	}
	for _, name := range []string{"rollout-000001-00001.0", "rollout-000001-00001.1", "rollout-000001-00002.0", "rollout-000002-00001.0", "rollout-000002-00002.0", "learn-000001-00000.0", "learn-000001-00000.1", "score-000001-00002.0", "evalscore-000000-00001.0", "evalscore-000000-00001.1", "evalscore-000000-00002.0"} {
		if err := errors.Join(os.MkdirAll(b.Dir.Logs(), 0o777), os.WriteFile(filepath.Join(b.Dir.Logs(), name+".log"), []byte(name), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// files counts the files below a folder of the run.
func files(t *testing.T, b *runtest.Board, folder string) int {
	t.Helper()
	entries, err := os.ReadDir(b.Dir.Join(folder))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestCompact: what has been learned from goes into a pack a folder, each shard with its
// bytes; a dry run says so and does nothing; undoing gives every file back.
func TestCompact(t *testing.T) {
	t.Parallel()
	b := sampled(t)
	attempt := seal.AttemptFromEnv()
	was := runtest.Digest(t, b.Dir.Score(1, 2))
	// Of rollouts, scores and the evaluation 3 files and manifests each become 1; of 3 logs
	// of two arrays 1. A log by itself, and those of a learner, stay.
	want := compact.Compacted{Shards: 15, Packs: 5, Fewer: 5*(6-2) + 2*2}
	do := func(finished, dry bool) compact.Compacted {
		t.Helper()
		got, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), finished, dry, attempt)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	counts := func() string {
		return fmt.Sprint(files(t, b, "iter/000001/rollout"), files(t, b, "iter/000001/score"), files(t, b, "iter/000002/rollout"), files(t, b, "logs"))
	}
	if diff := cmp.Diff(want, do(false, true)); diff != "" || counts() != "6 6 6 11" {
		t.Errorf("a dry run: files %s (-want +got):\n%s", counts(), diff)
	}
	if diff := cmp.Diff(want, do(false, false)); diff != "" || counts() != "2 2 6 7" {
		t.Errorf("files %s (-want +got):\n%s", counts(), diff)
	}
	if runtest.Digest(t, b.Dir.Score(1, 2)) != was {
		t.Error("a shard has other bytes")
	}
	if got := do(false, false); got != (compact.Compacted{}) {
		t.Errorf("again: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(b.Dir.Logs(), "score-000001-00002.0.log")); err != nil {
		t.Error(err)
	}
	b.Ready("buffer-000002-00000", "evaluate-000002-00000", "evaluate-000002-00001", "evaluate-000002-00002") // no shard of iteration 1 is missed
	undone, err := compact.Undo(t.Context(), b.Run(), attempt)
	if diff := cmp.Diff(compact.Compacted{Shards: 15, Packs: 5, Fewer: -want.Fewer}, undone); diff != "" || err != nil || counts() != "6 6 6 11" || runtest.Digest(t, b.Dir.Score(1, 2)) != was {
		t.Errorf("undone: %v, files %s (-want +got):\n%s", err, counts(), diff)
	}
}

// TestDue: a folder of which a shard is still to come is left alone unless the run is
// finished, and so is one shard that is not sealed.
func TestDue(t *testing.T) {
	t.Parallel()
	for _, finished := range []bool{false, true} {
		b := sampled(t)
		if err := seal.Remove(b.Dir.Rollout(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(seal.ManifestPath(b.Dir.Score(1, 0))); err != nil {
			t.Fatal(err)
		}
		want := compact.Compacted{Shards: 9, Packs: 3, Fewer: 3*4 + 2} // of the evaluation
		if finished {                                                  // two of each; with the logs
			want = compact.Compacted{Shards: 4 + 9, Packs: 2 + 3, Fewer: 2*2 + 2 + 3*4 + 2}
		}
		got, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), finished, false, seal.AttemptFromEnv())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("finished %v: %v (-want +got):\n%s", finished, err, diff)
		}
	}
	// A single shard would take as many names as before.
	b := sampled(t)
	for _, path := range []string{b.Dir.Rollout(1, 0), b.Dir.Rollout(1, 1), b.Dir.Score(1, 0), b.Dir.Score(1, 1)} {
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), true, false, seal.AttemptFromEnv()); err != nil || got.Packs != 3 {
		t.Errorf("of one shard: %+v, %v", got, err)
	}
}

// TestUndoDamaged: a shard of a pack that is damaged is named.
func TestUndoDamaged(t *testing.T) {
	t.Parallel()
	b := sampled(t)
	second, err := os.ReadFile(b.Dir.Score(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), false, false, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	pack, _ := seal.PackOf(b.Dir.Score(1, 1))
	content, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(content), string(second)) + len(second)/2
	content[at]++
	if err := os.WriteFile(pack, content, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := compact.Undo(t.Context(), b.Run(), seal.AttemptFromEnv()); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "00001.parquet") || len(exitcode.Hints(err)) == 0 {
		t.Errorf("a damaged pack: %v", err)
	}
}
