package compact_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

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

// TestCompactAgain: a folder that is compacted is not read again, and hides none behind it;
// what lies beside a pack that holds it is removed and counts as nothing; and two logs are
// enough to be joined.
func TestCompactAgain(t *testing.T) {
	t.Parallel()
	b := sampled(t)
	attempt := seal.AttemptFromEnv()
	v := survey.NewInventory(b.Graph)
	rollouts := runtest.Node(graph.StageRollout, 1)
	left := map[string][]byte{} // the first rollouts, as a kill in between leaves them
	for _, path := range []string{b.Dir.Rollout(1, 0), seal.ManifestPath(b.Dir.Rollout(1, 0))} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		left[path] = content
	}
	put := func() {
		t.Helper()
		for path, content := range left {
			if err := os.WriteFile(path, content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dry := range []bool{true, false} { // what is packed is looked at anew
		if _, err := compact.Compact(t.Context(), v, false, dry, attempt); err != nil || v.Done(rollouts) != dry {
			t.Errorf("dry %v: rollouts are known to be done: %v; %v", dry, v.Done(rollouts), err)
		}
	}
	opens := runtest.CountOpens(t, filepath.Dir(b.Outputs(graph.Task{Node: runtest.Node(graph.StageEvalScore, 0)})[0]))
	for _, n := range []graph.Node{runtest.Node(graph.StageBuffer, 2), b.LastLearn(2)} {
		b.Seal(n)
	}
	put()
	for _, name := range []string{"evalscore-000000-00000.0.log", "score-000001-00001.0.log"} {
		if err := os.WriteFile(filepath.Join(b.Dir.Logs(), name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// Of iteration 2, 3 rollouts and 3 scores and their manifests become 2 packs with
	// manifests, and the two logs of rollouts one; so do those of the scores of iteration 1.
	// The one log of the evaluation's scores that is not joined stays.
	want := compact.Compacted{Shards: 6, Packs: 2, Fewer: 2*(6-2) + 1 + 1}
	for _, dry := range []bool{true, false} {
		got, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), false, dry, attempt)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || (files(t, b, "iter/000001/rollout") == 2) == dry {
			t.Errorf("dry %v: %d files, %v (-want +got):\n%s", dry, files(t, b, "iter/000001/rollout"), err, diff)
		}
	}
	if _, read := opens.Counts(); len(read) > 0 {
		t.Errorf("files that nothing is to be done with are read: %v", read)
	}
}

// TestCompactWaits: of two that compact a run the second waits, but a dry run does not.
func TestCompactWaits(t *testing.T) {
	t.Parallel()
	b := sampled(t)
	folder, err := os.Open(string(b.Dir))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), false, false, seal.AttemptFromEnv())
		done <- err
	}()
	for range 5 {
		got, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), false, true, seal.AttemptFromEnv())
		if err != nil || got.Shards != 15 {
			t.Errorf("while another compacts the run, a dry run says %+v, %v", got, err)
		}
	}
	if err := errors.Join(unix.Flock(int(folder.Fd()), unix.LOCK_UN), <-done); err != nil {
		t.Error(err)
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
		b.Seal(runtest.Node(graph.StageBuffer, 2))
		b.Seal(b.LastLearn(2))
		// Of the evaluation, and of iteration 2, which has two logs of rollouts.
		want := compact.Compacted{Shards: 9 + 6, Packs: 3 + 2, Fewer: 3*4 + 2 + 2*4 + 1}
		if finished { // and two rollouts and scores of iteration 1, with the logs
			want = compact.Compacted{Shards: 4 + 9 + 6, Packs: 2 + 3 + 2, Fewer: 2*2 + 2 + 3*4 + 2 + 2*4 + 1}
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

// TestDueInWaves: a shard that does not go on to a later wave is not missed there. Of 3
// shards 2 go on: 3 rollouts and scores of wave 0 and 2 of wave 1 become a pack each.
func TestDueInWaves(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=3")
	waves := runtest.LoadOf(t, "mle-smoke", "env.max_turns=2").Recipe
	b.Recipe.Env, b.Recipe.Data = waves.Env, waves.Data
	rollouts, scores := runtest.Node(graph.StageRollout, 1), runtest.Node(graph.StageScore, 1)
	for shardOf, waiting := range []float64{1, 1, 0} {
		task := graph.Task{Node: scores, Shard: shardOf}
		m := b.Expected(task)
		m.Metrics = map[string]float64{shard.MetricWaiting: waiting}
		if _, err := seal.WriteBytes(b.Outputs(task)[0], nil, seal.AttemptFromEnv(), m); err != nil {
			t.Fatal(err)
		}
	}
	b.Seal(rollouts)
	b.Seal(rollouts.InWave(1), 0, 1)
	b.Seal(scores.InWave(1), 0)
	b.Seal(b.LastLearn(1))
	for _, want := range []compact.Compacted{{Shards: 3 + 3 + 2, Packs: 3, Fewer: 4 + 4 + 2}, {Shards: 3 + 3 + 2 + 2, Packs: 4, Fewer: 4 + 4 + 2 + 2}} {
		got, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), false, true, seal.AttemptFromEnv())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		b.Seal(scores.InWave(1), 1) // the last
	}
}

// TestCompactFails: what cannot be read is named, and a run in which nothing is done yet
// is no failure.
func TestCompactFails(t *testing.T) {
	t.Parallel()
	attempt := seal.AttemptFromEnv()
	file := func(path string) error {
		return errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte("{"), 0o666))
	}
	for name, c := range map[string]struct {
		breaks func(*runtest.Board) error
		says   string // of compacting
		undo   string // of undoing
	}{
		"no run":               {func(b *runtest.Board) error { return os.RemoveAll(string(b.Dir)) }, "no such file", "no such file"},
		"logs":                 {func(b *runtest.Board) error { return file(b.Dir.Logs()) }, "logs", "logs"},
		"a folder of rollouts": {func(b *runtest.Board) error { return file(b.Dir.Join("iter/000001/rollout")) }, "compacting rollout-000001: ", ""},
		"a table": {func(b *runtest.Board) error {
			content, err := os.ReadFile(b.Dir.Rollout(1, 1))
			content[len(content)/2]++
			return errors.Join(err, os.WriteFile(b.Dir.Rollout(1, 1), content, 0o666))
		}, "compacting rollout-000001: ", ""},
		"a joined log": {func(b *runtest.Board) error { return file(filepath.Join(b.Dir.Logs(), "rollout-000001.log")) }, "compacting rollout-000001: ", "no log begins at byte 0"},
	} {
		b := sampled(t)
		if err := c.breaks(b); err != nil {
			t.Fatal(err)
		}
		_, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), false, false, attempt)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		_, err = compact.Undo(t.Context(), b.Run(), attempt)
		if (err == nil) != (c.undo == "") || err != nil && !strings.Contains(err.Error(), c.undo) {
			t.Errorf("%s, undone: %v, want %q", name, err, c.undo)
		}
	}
	b := runtest.NewBoard(t)
	if got, err := compact.Compact(t.Context(), survey.NewInventory(b.Graph), false, false, attempt); err != nil || got != (compact.Compacted{}) {
		t.Errorf("where nothing is done: %+v, %v", got, err)
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
