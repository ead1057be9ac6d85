package run_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	ensure "github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/prune"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A run whose updates are applied in parts comes to the bytes of one whose are not:
// whole, stopped after each task, pruned as it goes and restored, extended; and every
// task of an update makes the same again.
func TestRunInParts(t *testing.T) {
	first := runtest.Finished(t, "schedule.iterations=1", "evaluation.problems=2")
	folder := t.TempDir()
	ensure.Do(t, checkpoint.Convert(first.Dir.Policy(1), folder, "", 20000))
	settings := []string{
		"policy.new=null", "policy.path=" + folder, "warm_start.steps=0", "loss.mini_batches=2", "loss.kl.coef=0.01", "loss.kl.ref_every=2", "loss.kl.ref_alpha=0.5",
		"evaluation.problems=2", "schedule.iterations=2",
	}
	whole := runtest.Finish(t, runtest.Smoke(), settings...)
	files := ensure.Get(filepath.Glob(whole.Dir.Policy(2) + "/model-*.safetensors"))(t)
	if len(files) < 3 {
		t.Fatalf("the policy is in %d files: the test shows nothing", len(files))
	}
	settings = append(settings, "schedule.apply_shards=2", "schedule.gradient_shards=2")
	same := func(t *testing.T, r *rundir.Run, versions ...int) {
		t.Helper()
		runtest.Verified(t, r)
		for _, version := range versions {
			if want, got := runtest.Digest(t, whole.Dir.Policy(version)), runtest.Digest(t, r.Dir.Policy(version)); want != got {
				t.Errorf("in parts version %d is %s, want %s", version, got, want)
			}
		}
	}
	t.Run("stopped and replayed", func(t *testing.T) {
		r := stopped(t, settings, 4)
		same(t, r, 1, 2)
		if want, got := runtest.Digest(t, whole.Dir.Reference(2)), runtest.Digest(t, r.Dir.Reference(2)); want != got {
			t.Errorf("in parts the refreshed reference is %s, want %s", got, want)
		}
		var tasks []graph.Task
		for _, stage := range []graph.Stage{graph.StageGradient, graph.StageSum, graph.StageApply, graph.StageLearn} {
			n := graph.Node{Stage: stage, Iteration: 2, Step: 1}
			for shard := range r.Graph.Shards(n) {
				tasks = append(tasks, graph.Task{Node: n, Shard: shard})
			}
		}
		replayed, err := worker.Replay(t.Context(), worker.New(r, seal.AttemptFromEnv(), "test", t.Logf), tasks)
		ensure.Do(t, err)
		if len(replayed) != 9 {
			t.Errorf("%d outputs are replayed, want 6 of arrays, a policy, its state and a reference", len(replayed))
		}
		for _, one := range replayed {
			if !one.Same {
				t.Errorf("%s is another when made again", one.Path)
			}
		}
	})
	t.Run("auto", func(t *testing.T) {
		auto := append(settings[:len(settings):len(settings)], "schedule.apply_shards=auto", "schedule.gradient_shards=1", "resources.stages.learn.memory_gb=0.0001")
		r := runtest.Finish(t, runtest.Smoke(), auto...)
		same(t, r, 1, 2)
		if got := int(r.Recipe.Schedule.ApplyShards); got != min(len(files), 16) {
			t.Errorf("a policy in %d files is applied by %d tasks", len(files), got)
		}
		again := ensure.Get(recipe.Load(runtest.Smoke(), auto))(t)
		if _, err := rundir.Create(t.Context(), r.Dir, again, seal.AttemptFromEnv(), "test"); err != nil {
			t.Errorf("resumed: %v", err)
		}
	})
	t.Run("adapter", func(t *testing.T) {
		adapted := []string{
			"policy.new=null", "policy.path=" + folder, "warm_start.steps=0", "policy.lora={rank: 2, alpha: 4}", "loss.kl.ref_every=0", "evaluation.problems=2",
			"schedule.iterations=2",
		}
		one := runtest.Finish(t, runtest.Smoke(), adapted...)
		r := runtest.Finish(t, runtest.Smoke(), append(adapted, "schedule.apply_shards=2", "schedule.gradient_shards=2")...)
		runtest.Verified(t, r)
		for version := 1; version <= 2; version++ {
			if want, got := runtest.Digest(t, one.Dir.Policy(version)), runtest.Digest(t, r.Dir.Policy(version)); want != got {
				t.Errorf("in parts adapter %d is %s, want %s", version, got, want)
			}
		}
	})
	t.Run("pruned, restored", func(t *testing.T) {
		r := runtest.Finish(t, runtest.Smoke(), append(settings, "schedule.keep_every=2")...)
		same(t, r, 2)
		if _, err := os.Stat(r.Dir.Policy(1)); err == nil {
			t.Error("version 1 is not pruned")
		}
		left := ensure.Get(filepath.Glob(r.Dir.Join("policy", "*.parts", "*", "*")))(t)
		if len(left) > 0 {
			t.Errorf("parts are left: %q", left)
		}
		_, err := prune.Restore(t.Context(), r, []int{1}, seal.AttemptFromEnv())
		ensure.Do(t, err)
		runtest.Drive(t, r)
		same(t, r, 1, 2)
	})
}

// stopped finishes a run that is stopped whenever so many tasks were launched.
func stopped(t *testing.T, settings []string, tasks int) *rundir.Run {
	t.Helper()
	resolved := ensure.Get(recipe.Load(runtest.Smoke(), settings))(t)
	dir := graph.Dir(filepath.Join(t.TempDir(), "run"))
	for {
		opened, err := rundir.Create(t.Context(), dir, resolved, seal.AttemptFromEnv(), "test")
		ensure.Do(t, err)
		ctx, stop := context.WithCancel(t.Context())
		launcher := &stopping{runtest.InProcess{T: t, Run: opened}, tasks, stop}
		err = (&drive.Driver{Run: opened, Launcher: launcher, Attempt: seal.AttemptFromEnv(), Version: "test"}).Drive(ctx)
		stop()
		if err == nil {
			return opened
		}
		if exitcode.Code(err) != exitcode.Stopped {
			t.Fatal(err)
		}
	}
}
