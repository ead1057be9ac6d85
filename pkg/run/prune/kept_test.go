package prune_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/prune"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// learned is a run of which so many iterations are learned from.
func learned(t *testing.T, iterations int, settings ...string) *runtest.Board {
	t.Helper()
	b := runtest.NewBoard(t, settings...)
	for _, n := range b.Nodes() {
		if n.Iteration <= iterations || n.Stage == graph.StageWarm {
			b.Seal(n)
		}
		if n.Stage == graph.StageScore {
			b.Close()
		}
	}
	return b
}

// versions lists the policy versions that are there.
func versions(b *runtest.Board) (list []int) {
	for v := range b.Recipe.Schedule.Iterations + 1 {
		if _, err := os.Lstat(b.Dir.Policy(v)); err == nil {
			list = append(list, v)
		}
	}
	return list
}

// TestKept: version 0, every n-th and the last stay, with the references that are gone on
// with, and all that is still to be read.
func TestKept(t *testing.T) {
	t.Parallel()
	reference := []string{"loss.kl.coef=0.01", "loss.kl.ref_every=2"}
	for _, c := range []struct {
		learned  int
		settings []string
		every    int
		want     []int
	}{
		{6, nil, 3, []int{0, 3, 6}},
		{6, nil, 4, []int{0, 4, 6}},
		{6, nil, 1, []int{0, 1, 2, 3, 4, 5, 6}},
		{6, reference, 3, []int{0, 2, 3, 6}}, // 2 is the reference of iterations 3 and 4
		{6, reference, 6, []int{0, 6}},       // which is its own reference
		{6, []string{"advantage.teacher={coef: 1, version: 5}", "loss.kl.coef=0"}, 6, []int{0, 5, 6}},
		{4, nil, 5, []int{0, 4}}, // 4 is learned from next
		{4, []string{"schedule.staleness=1"}, 5, []int{0, 3, 4}},
	} {
		b := learned(t, c.learned, append([]string{"schedule.iterations=6"}, c.settings...)...)
		pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: c.every})
		if err != nil {
			t.Fatal(err)
		}
		if got := versions(b); !slices.Equal(got, c.want) {
			t.Errorf("%d learned, %v, every %d: kept are %v, want %v", c.learned, c.settings, c.every, got, c.want)
		}
		if (pruned.Bytes == 0) != (len(pruned.Paths) == 0) {
			t.Errorf("%d bytes of %q", pruned.Bytes, pruned.Paths)
		}
	}
	b := learned(t, 2, "schedule.iterations=2")
	if _, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("every 0-th: %v", err)
	}
}

// TestSamplersStay: what sampled the responses of an iteration stays until it is learned
// from, for a learner whose engine is another than the sampler's: with staleness, between
// synchronizations, and of shards that come late.
func TestSamplersStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings []string
		late     int // iteration before the one that is learned from next of which a shard is late; 0 for none
		want     []int
	}{
		{"fresh", nil, 0, []int{0, 4}},
		{"stale by 1", []string{"schedule.staleness=1"}, 0, []int{0, 3, 4}}, // 3 sampled iteration 5
		{"stale by 2", []string{"schedule.staleness=2"}, 0, []int{0, 2, 3, 4}},
		{"every third", []string{"schedule.sync_every=3"}, 0, []int{0, 3, 4}},
		{"a late shard of iteration 3", []string{"schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3"}, 3, []int{0, 2, 4}},
		{"no late shard", []string{"schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3"}, 0, []int{0, 4}},
	} {
		b := runtest.NewBoard(t, append([]string{"schedule.iterations=7", "loss.kl.coef=0"}, c.settings...)...)
		b.Seal(runtest.Node(graph.StageBuffer, 0))
		b.Seal(runtest.Node(graph.StageWarm, 1))
		for k := 1; k <= 5; k++ {
			for n := range b.Shards(runtest.Node(graph.StageRollout, k)) {
				if k != c.late || n != 1 {
					b.Seal(runtest.Node(graph.StageRollout, k), n)
					b.Seal(runtest.Node(graph.StageScore, k), n)
				}
			}
			b.Close()
			b.Seal(runtest.Node(graph.StageBuffer, k))
			if k < 5 {
				b.Seal(runtest.Node(graph.StageLearn, k))
			}
		}
		if _, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: 7}); err != nil {
			t.Fatal(err)
		}
		if got := versions(b); !slices.Equal(got, c.want) {
			t.Errorf("%s: kept are %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAsScheduled: what schedule.keep_every says is done.
func TestAsScheduled(t *testing.T) {
	t.Parallel()
	for every, want := range map[string][]int{"0": {0, 1, 2, 3}, "2": {0, 2, 3}} {
		b := learned(t, 3, "schedule.iterations=3", "schedule.keep_every="+every)
		if err := prune.AsScheduled(t.Context(), b.Surveyor.Inventory, b.Survey()); err != nil {
			t.Fatal(err)
		}
		if got := versions(b); !slices.Equal(got, want) {
			t.Errorf("keep_every %s: kept are %v, want %v", every, got, want)
		}
	}
}

// TestDry: a dry run says what the next one removes, and removes nothing; what a pruning
// left when it was killed is ended by the next; what is under way is left alone.
func TestDry(t *testing.T) {
	t.Parallel()
	b := learned(t, 3, "schedule.iterations=3", "warm_start.chunk=150")
	do := func(dry bool) prune.Pruned {
		t.Helper()
		pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: 3, Dry: dry, Deltas: true})
		if err != nil {
			t.Fatal(err)
		}
		return pruned
	}
	would := do(true)
	want := []string{"warm/000001", "warm/000001.optim", "policy/v000001", "policy/v000001.optim", "policy/v000002", "policy/v000002.optim"}
	if diff := cmp.Diff(want, would.Paths); diff != "" || would.Bytes == 0 || !slices.Equal(versions(b), []int{0, 1, 2, 3}) {
		t.Errorf("it would remove %d bytes (-want +got):\n%s", would.Bytes, diff)
	}
	if err := os.Rename(seal.ManifestPath(b.Dir.Policy(1)), seal.PrunedPath(b.Dir.Policy(1))); err != nil { // killed
		t.Fatal(err)
	}
	b.Surveyor = survey.New(b.Graph)
	if diff := cmp.Diff(would, do(true)); diff != "" {
		t.Errorf("it removes something else than it said (-said +does):\n%s", diff)
	}
	if err := os.Remove(seal.ManifestPath(b.Dir.Policy(2))); err != nil { // being made again
		t.Fatal(err)
	}
	b.Surveyor = survey.New(b.Graph)
	if got := do(true); !slices.Equal(got.Paths, want[:4]) {
		t.Errorf("of what is under way it would remove %q", got.Paths)
	}
}

// weigh seals the policy versions of a run of four iterations, and all else by name. It gives
// the digests of the versions.
func weigh(t *testing.T, b *runtest.Board) map[int]string {
	t.Helper()
	digests := map[int]string{}
	for k := range 5 {
		folder, err := seal.CreateFolder(b.Dir.Policy(k), seal.AttemptFromEnv())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder.Path(), "weights"), []byte(fmt.Sprintf("%d and the rest", k)), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := folder.Commit(b.Expected(graph.Task{Node: b.LastLearn(k)})); err != nil {
			t.Fatal(err)
		}
		digests[k] = runtest.Digest(t, b.Dir.Policy(k))
	}
	for _, n := range b.Nodes() {
		if b.Seal(n); n.Stage == graph.StageScore {
			b.Close()
		}
	}
	return digests
}

// TestDeltas: versions that are stored as their difference from a kept one come back to
// the byte, and are pruned and queued where there is none.
func TestDeltas(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=4")
	attempt := seal.AttemptFromEnv()
	digests := weigh(t, b)
	options := prune.Options{KeepEvery: 3, Deltas: true, Attempt: attempt}
	pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), options)
	if err != nil || !slices.Equal(versions(b), []int{0, 3, 4}) || pruned.DeltaBytes == 0 {
		t.Fatalf("%+v, versions %v: %v", pruned, versions(b), err)
	}
	var stored int64
	for k, there := range []bool{false, true, true, false, false} {
		info, err := os.Stat(b.Dir.Delta(k))
		if (err == nil) != there {
			t.Errorf("delta of version %d: %v", k, err)
		}
		if there {
			stored += info.Size()
		}
	}
	if pruned.DeltaBytes != stored {
		t.Errorf("%d bytes of deltas are said, %d stored", pruned.DeltaBytes, stored)
	}
	r := b.Run()
	restored, err := prune.Restore(t.Context(), r, []int{0, 2}, attempt)
	if want := (prune.Restored{Versions: []int{0, 2}, Now: []int{0, 2}, Paths: []string{}}); err != nil || cmp.Diff(want, restored) != "" || runtest.Digest(t, b.Dir.Policy(2)) != digests[2] {
		t.Errorf("restored %+v, want %+v: %v", restored, want, err)
	}
	if _, err := os.Stat(filepath.Join(b.Dir.Jobs(), "repairs.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a queue is written: %v", err)
	}
	for _, version := range []int{-1, 5} {
		if _, err := prune.Restore(t.Context(), r, []int{version}, attempt); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), fmt.Sprintf("policy version %d: the run has versions 0 to 4", version)) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	// Without its delta a version is made again by training.
	if err := seal.Remove(b.Dir.Delta(1)); err != nil {
		t.Fatal(err)
	}
	restored, err = prune.Restore(t.Context(), r, []int{1}, attempt)
	want := []string{"policy/v000001", "policy/v000001.optim"}
	queue, errQueue := rundir.ReadRepairs(b.Dir)
	if err := errors.Join(err, errQueue); err != nil || !slices.Equal(restored.Paths, want) || !slices.Equal(queue, want) || len(restored.Now) > 0 {
		t.Errorf("restored %+v, queued %q: %v", restored, queue, err)
	}
	// A delta of what is gone itself cannot be applied.
	if _, err := seal.Prune(t.Context(), b.Dir.Policy(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.Prune(t.Context(), b.Dir.Policy(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := prune.Restore(t.Context(), r, []int{2}, attempt); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "is the difference from policy version 0, which was pruned without one") {
		t.Errorf("without what it is the difference from: %v", err)
	}
	for what, inputs := range map[string][]seal.Input{
		"does not say what it is the difference from": {{Path: "policy/v000000"}},
		"which is no policy before it":                {{Path: "policy/v000003"}, {Path: "policy/v000002"}},
	} {
		if err := seal.Remove(b.Dir.Delta(2)); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.WriteBytes(b.Dir.Delta(2), nil, attempt, seal.Manifest{Inputs: inputs}); err != nil {
			t.Fatal(err)
		}
		if _, err := prune.Restore(t.Context(), r, []int{2}, attempt); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// TestDeltaChains: a version that is stored as the difference from one that is stored so
// itself brings that back too; a delta that cannot be applied restores nothing.
func TestDeltaChains(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=4")
	digests, attempt := weigh(t, b), seal.AttemptFromEnv()
	var sizes []int64
	for _, every := range []int{2, 4} { // 1 and 3 from 0 and 2; then 2 from 0
		b.Surveyor = survey.New(b.Graph)
		pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: every, Deltas: true, Attempt: attempt})
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, pruned.DeltaBytes)
	}
	size := func(k int) int64 {
		info, err := os.Stat(b.Dir.Delta(k))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if want := []int64{size(1) + size(3), size(2)}; !slices.Equal(sizes, want) || !slices.Equal(versions(b), []int{0, 4}) {
		t.Errorf("deltas of %d bytes, want %d; versions %v", sizes, want, versions(b))
	}
	m, err := seal.Verify(t.Context(), b.Dir.Delta(3), seal.Options{})
	if inputs := []seal.Input{{Path: "policy/v000002", ContentSHA256: digests[2]}, {Path: "policy/v000003", ContentSHA256: digests[3]}}; err != nil || !slices.Equal(m.Inputs, inputs) || m.Stage != "learn" || m.Iteration != 3 {
		t.Errorf("manifest %+v: %v", m, err)
	}
	r := b.Run()
	restored, err := prune.Restore(t.Context(), r, []int{3}, attempt)
	if err != nil || !slices.Equal(restored.Now, []int{3}) || !slices.Equal(versions(b), []int{0, 2, 3, 4}) || runtest.Digest(t, b.Dir.Policy(2)) != digests[2] || runtest.Digest(t, b.Dir.Policy(3)) != digests[3] {
		t.Errorf("restored %+v, versions %v: %v", restored, versions(b), err)
	}
	// Pruned again, its delta is there: none is written.
	b.Surveyor = survey.New(b.Graph)
	if pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: 4, Deltas: true, Attempt: attempt}); err != nil || !slices.Equal(pruned.Paths, []string{"policy/v000002", "policy/v000003"}) || pruned.DeltaBytes != size(2)+size(3) {
		t.Errorf("pruned %+v: %v", pruned, err)
	}
	other := seal.Manifest{Inputs: []seal.Input{{Path: "policy/v000000"}, {Path: "policy/v000001"}}}
	for _, c := range []struct {
		what  string
		spoil func() error
		want  string
	}{
		{"another's delta", func() error {
			text, err := os.ReadFile(b.Dir.Delta(2))
			if err = errors.Join(err, seal.Remove(b.Dir.Delta(1))); err == nil {
				_, err = seal.WriteBytes(b.Dir.Delta(1), text, attempt, other)
			}
			return err
		}, "sha256"},
		{"a damaged delta", func() error { return os.Truncate(b.Dir.Delta(1), 3) }, ".delta"},
		{"bytes that are none", func() error {
			err := seal.Remove(b.Dir.Delta(1))
			if err == nil {
				_, err = seal.WriteBytes(b.Dir.Delta(1), []byte("x"), attempt, other)
			}
			return err
		}, "then the run makes the version again by training, with lathe prune --restore 1"},
		{"no record of what was pruned", func() error { return os.Remove(seal.PrunedPath(b.Dir.Policy(1))) }, "nor was it pruned"},
	} {
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		restored, err := prune.Restore(t.Context(), r, []int{1}, attempt)
		text := fmt.Sprint(err, exitcode.Hints(err))
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) || len(restored.Now) > 0 || slices.Contains(versions(b), 1) {
			t.Errorf("%s: %+v: %s; want %q", c.what, restored, text, c.want)
		}
	}
}

// TestPruningWithoutABase: a version whose kept one is not there is pruned without a delta,
// and what is there of a version is not queued.
func TestPruningWithoutABase(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=4")
	weigh(t, b)
	attempt := seal.AttemptFromEnv()
	if _, err := seal.Prune(t.Context(), b.Dir.Policy(0)); err != nil {
		t.Fatal(err)
	}
	b.Surveyor = survey.New(b.Graph)
	pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: 3, Deltas: true, Attempt: attempt})
	if err != nil || pruned.DeltaBytes != 0 || !slices.Equal(versions(b), []int{3, 4}) {
		t.Errorf("%+v, versions %v: %v", pruned, versions(b), err)
	}
	if _, err := seal.Prune(t.Context(), b.Dir.Policy(3)); err != nil {
		t.Fatal(err)
	}
	restored, err := prune.Restore(t.Context(), b.Run(), []int{3}, attempt)
	queue, errQueue := rundir.ReadRepairs(b.Dir)
	if want := []string{"policy/v000003"}; err != nil || errQueue != nil || !slices.Equal(restored.Paths, want) || !slices.Equal(queue, want) {
		t.Errorf("restored %+v, queued %q: %v", restored, queue, err)
	}
	// A version is not removed for its difference from a damaged one.
	later := runtest.NewBoard(t, "schedule.iterations=4")
	weigh(t, later)
	if err := os.WriteFile(filepath.Join(later.Dir.Policy(0), "weights"), []byte("9 and the rest"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := prune.Prune(t.Context(), later.Surveyor.Inventory, later.Survey(), prune.Options{KeepEvery: 3, Deltas: true, Attempt: attempt}); err == nil || !strings.Contains(err.Error(), "pruning learn-000001: ") || !slices.Equal(versions(later), []int{0, 1, 2, 3, 4}) {
		t.Errorf("from a damaged version: versions %v: %v", versions(later), err)
	}
}

// TestWarmStartAfterItsVersion: the checkpoints of a warm start go, though the version of
// the iteration with their number is gone.
func TestWarmStartAfterItsVersion(t *testing.T) {
	t.Parallel()
	b := learned(t, 3, "schedule.iterations=3", "warm_start.chunk=150")
	for _, path := range []string{b.Dir.Policy(1), b.Dir.Optimizer(1)} {
		if _, err := seal.Prune(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	b.Surveyor = survey.New(b.Graph)
	pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: 3})
	if want := []string{"warm/000001", "warm/000001.optim", "policy/v000002", "policy/v000002.optim"}; err != nil || !slices.Equal(pruned.Paths, want) {
		t.Errorf("removed are %q, want %q: %v", pruned.Paths, want, err)
	}
}
