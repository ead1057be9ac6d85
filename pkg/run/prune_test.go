package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/prune"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// versions lists the policy versions of which the bytes are there.
func versions(t *testing.T, r *rundir.Run) (list []int) {
	t.Helper()
	for v := range r.Recipe.Schedule.Iterations + 1 {
		_, err := os.Lstat(r.Dir.Policy(v))
		if err == nil {
			list = append(list, v)
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if _, optimizer := os.Lstat(r.Dir.Optimizer(v)); v > 0 && (optimizer == nil) != (err == nil) {
			t.Errorf("version %d: policy and optimizer state do not go together: %v, %v", v, err, optimizer)
		}
	}
	return list
}

// below counts the files below folders of a run that are not manifests.
func below(t *testing.T, r *rundir.Run, pattern string) (count int) {
	t.Helper()
	paths, err := filepath.Glob(r.Dir.Join(pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, ".json") {
			count++
		}
	}
	return count
}

// With most versions removed as the run goes, it comes to the same bytes, its
// report knows all it knew, and whatever is lost is made again.
func TestPruning(t *testing.T) {
	settings := []string{
		"schedule.iterations=6", "schedule.staleness=1", "schedule.gradient_shards=2", "loss.mini_batches=2", "evaluation.every=2",
		"loss.kl.coef=0.01", "loss.kl.ref_every=2", "warm_start.chunk=100",
	}
	whole := runtest.Finish(t, runtest.Smoke(), settings...)
	pruned := runtest.Finish(t, runtest.Smoke(), append(settings, "schedule.keep_every=3")...)
	if want, got := runtest.Digest(t, whole.Dir.Policy(6)), runtest.Digest(t, pruned.Dir.Policy(6)); want != got {
		t.Errorf("pruning changes the policy: %s, without %s", got, want)
	}
	if got := versions(t, whole); len(got) != 7 {
		t.Errorf("without pruning there are versions %v", got)
	}
	// 2 is there for the reference that version 3 resumes, and 6 needs 6's.
	if got, want := versions(t, pruned), []int{0, 2, 3, 6}; !slices.Equal(got, want) {
		t.Errorf("kept are %v, want %v", got, want)
	}
	for _, pattern := range []string{"warm/*", "iter/*/grad/*/*", "iter/*/step/*"} {
		if n := below(t, whole, pattern); n == 0 {
			t.Errorf("%s is empty without pruning", pattern)
		}
		if n := below(t, pruned, pattern); n > 0 {
			t.Errorf("%d of %s are left", n, pattern)
		}
	}
	runtest.Exact(t, pruned)
	names := func(r *rundir.Run) (list []string) {
		for k := range r.Recipe.Schedule.Iterations + 1 {
			metrics, usage, err := measure.Metrics(t.Context(), r, k)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range metrics {
				list = append(list, row.Stage+"/"+row.Name)
			}
			for _, row := range usage {
				list = append(list, row.Stage+"/"+row.Name)
			}
		}
		return list
	}
	if difference := cmp.Diff(names(whole), names(pruned)); difference != "" {
		t.Errorf("metrics are lost: %s", difference)
	}
	s, err := status.Read(t.Context(), pruned, nil, nil)
	if err != nil || s.Learned != 6 {
		t.Errorf("status counts %d iterations: %v", s.Learned, err)
	}

	// A damaged evaluation needs a version that is gone.
	was := runtest.Digest(t, pruned.Dir.Evaluation(4, 0))
	if err := os.Truncate(pruned.Dir.Evaluation(4, 0), 10); err != nil {
		t.Fatal(err)
	}
	v, err := verify.Verify(t.Context(), pruned)
	if err != nil || len(v.Faults) != 1 {
		t.Fatalf("%d faults: %v", len(v.Faults), err)
	}
	if _, err := verify.Repair(pruned, v, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	runtest.Drive(t, pruned)
	if now := runtest.Digest(t, pruned.Dir.Evaluation(4, 0)); now != was {
		t.Errorf("the evaluation is made again to %s, was %s", now, was)
	}
	if got, want := versions(t, pruned), []int{0, 2, 3, 6}; !slices.Equal(got, want) {
		t.Errorf("after the repair, kept are %v, want %v", got, want)
	}
	runtest.Exact(t, pruned)

	// What is restored stays, and is what it was.
	if _, err := prune.Restore(t.Context(), pruned, []int{5}, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	runtest.Drive(t, pruned)
	if want, got := runtest.Digest(t, whole.Dir.Policy(5)), runtest.Digest(t, pruned.Dir.Policy(5)); want != got {
		t.Errorf("version 5 is restored to %s, was %s", got, want)
	}
	runtest.Drive(t, pruned)
	if got, want := versions(t, pruned), []int{0, 2, 3, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("with 5 restored, kept are %v, want %v", got, want)
	}
	runtest.Exact(t, pruned)
	if _, err := prune.Restore(t.Context(), pruned, []int{7}, seal.AttemptFromEnv()); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("restoring a version that the run has not: %v", err)
	}

	// What was made again to other bytes is found.
	path := pruned.Dir.Policy(5)
	if err := errors.Join(os.RemoveAll(path), os.Remove(seal.ManifestPath(path))); err != nil {
		t.Fatal(err)
	}
	folder, err := seal.CreateFolder(path, seal.AttemptFromEnv())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(folder.Path(), os.DirFS(pruned.Dir.Policy(6))); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Commit(pruned.Graph.Expected(graph.Task{Node: pruned.Graph.LastLearn(5)})); err != nil {
		t.Fatal(err)
	}
	v, err = verify.Verify(t.Context(), pruned)
	if err != nil || !slices.ContainsFunc(v.Faults, func(f verify.Fault) bool { return strings.Contains(f.Problem, "made again, to other bytes") }) {
		t.Errorf("faults %v: %v", v.Faults, err)
	}
}
