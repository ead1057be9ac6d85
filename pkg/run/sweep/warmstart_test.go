package sweep_test

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A warm start of three checkpoints, in three hours of a day long ago: runs that begin with
// it, or with a copy of it, took the sum of their seconds for it, and what ran since is none
// of theirs. A checkpoint that ended before it began, by two clocks, took no time.
func TestWarmStartTakesItsTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seconds [3]int
		steps   float64 // of each; 0 for manifests that do not count them
		want    time.Duration
	}{{[3]int{4, 5, 6}, 100, 15 * time.Second}, {[3]int{-4, 5, 6}, 100, 11 * time.Second}, {[3]int{4, 5, -6}, 0, 9 * time.Second}} {
		run := func(name string) *rundir.Run {
			t.Helper()
			resolved := must.Get(recipe.Load("../../../jobs/smoke.yaml", []string{"warm_start.chunk=100", "name=" + name}))(t)
			return must.Get(rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), name)), resolved, seal.AttemptFromEnv(), "test"))(t)
		}
		first, second, third := run("first"), run("second"), run("third")
		share := func(to, from *rundir.Run, want bool) {
			t.Helper()
			if shared, err := sweep.ShareWarmStart(t.Context(), to, from, seal.AttemptFromEnv(), "copier"); err != nil || shared != want {
				t.Fatalf("%s of %s: shared %v, %v", to.Dir, from.Dir, shared, err)
			}
		}
		share(second, first, false) // it is not there yet
		for chunk := 1; chunk <= 3; chunk++ {
			began := time.Date(2026, 1, 2, chunk, 0, 0, 0, time.UTC)
			task := graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: chunk}}
			for _, path := range first.Graph.Outputs(task) {
				ended := began.Add(time.Duration(c.seconds[chunk-1]) * time.Second)
				w := must.Get(seal.CreateFolder(path, seal.Attempt{Host: "a", Clock: func() time.Time { return ended }}))(t)
				must.Do(t, os.WriteFile(filepath.Join(w.Path(), "weights"), []byte{byte(chunk)}, 0o666))
				m := first.Graph.Expected(task)
				m.Started, m.Metrics = began, map[string]float64{"tokens": 10 * float64(chunk), "loss": 1 / float64(chunk)}
				if c.steps > 0 {
					m.Metrics["optimizer_steps"] = c.steps
				}
				if chunk == 3 {
					m.PolicyVersion = 0
				}
				must.Get(w.Commit(m))(t)
			}
		}
		want := map[string]float64{"tokens": 60, "loss": 1. / 3}
		if c.steps > 0 {
			want["optimizer_steps"] = 3 * c.steps
		}
		for _, pair := range [][2]*rundir.Run{{second, first}, {third, second}} {
			to, from := pair[0], pair[1]
			share(to, from, true)
			share(to, from, false) // it has its own now
			m := must.Get(seal.Verify(t.Context(), to.Dir.Policy(0), to.Graph.Reading(0)))(t)
			was := must.Get(seal.Verify(t.Context(), from.Dir.Policy(0), from.Graph.Reading(0)))(t)
			if took := m.Ended.Sub(m.Started); took != c.want || time.Since(m.Ended) > time.Hour {
				t.Errorf("%s: the warm start took %v until %v, want %v until now", to.Dir, took, m.Ended, c.want)
			}
			if !maps.Equal(m.Metrics, want) {
				t.Errorf("%s: metrics %v, want %v", to.Dir, m.Metrics, want)
			}
			if m.ContentSHA256 != was.ContentSHA256 || m.PolicyVersion != 0 || m.BinaryVersion != "copier" || len(m.Inputs) != 1 || m.Inputs[0].ContentSHA256 != was.ContentSHA256 {
				t.Errorf("%s: the copy has %+v, of %+v", to.Dir, m, was)
			}
		}
		for _, r := range []*rundir.Run{first, second, third} {
			costs := must.Get(measure.ReadCosts(t.Context(), r))(t)
			if math.Abs(*costs.Seconds-c.want.Seconds()) > 1e-6 {
				t.Errorf("%s took %v s, want %v", r.Dir, *costs.Seconds, c.want)
			}
		}
		must.Do(t, os.Truncate(filepath.Join(third.Dir.Policy(0), "weights"), 0))
		if shared, err := sweep.ShareWarmStart(t.Context(), run("fourth"), third, seal.AttemptFromEnv(), "test"); shared || !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("a damaged one: shared %v, %v", shared, err)
		}
	}
}

// Recipes in two folders that name the same file have the same warm start; with another
// seed, or another file, they have not.
func TestSameWarmStartOfRecipesInTwoFolders(t *testing.T) {
	t.Parallel()
	own := must.Get(filepath.Abs("../../../jobs/tooluse-smoke.yaml"))(t)
	copied := t.TempDir()
	must.Do(t, os.CopyFS(copied, os.DirFS("../../../data/tooluse/small")))
	run := func(text string, settings ...string) *rundir.Run {
		t.Helper()
		path := filepath.Join(t.TempDir(), "recipe.yaml")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		resolved := must.Get(recipe.Load(path, settings))(t)
		return must.Get(rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, seal.AttemptFromEnv(), "test"))(t)
	}
	base := "base: " + own + "\n"
	first := run(base)
	for name, c := range map[string]struct {
		other *rundir.Run
		same  bool
	}{
		"another loss":   {run(base + "optimizer: {learning_rate: 5e-4}\n"), true},
		"another seed":   {run(base, "seed=2"), false},
		"another length": {run(base, "warm_start.steps=151"), false},
		"copied files":   {run(base + "env: {tooluse: {bfcl: \"" + copied + "\"}}\n"), false},
	} {
		if got := sweep.SameWarmStart(first, c.other); got != c.same {
			t.Errorf("%s: the same warm start: %v, want %v", name, got, c.same)
		}
	}
	// Of two runs that are the same but for this; where both have it, that is enough for some.
	for name, c := range map[string]struct {
		change func(r *rundir.Run)
		both   bool
	}{
		"tasks":     {func(r *rundir.Run) { r.Identity.TasksSHA256 = "x" }, true},
		"policy":    {func(r *rundir.Run) { r.Identity.PolicySource = "x" }, true},
		"pool":      {func(r *rundir.Run) { r.Identity.Pool = &rundir.DataFile{SHA256: "x"} }, true},
		"binary":    {func(r *rundir.Run) { r.Identity.BinaryVersion = "x" }, true},
		"adapters":  {func(r *rundir.Run) { r.Recipe.Policy.LoRA = &recipe.LoRA{Rank: 4, Alpha: 8} }, false},
		"optimizer": {func(r *rundir.Run) { r.Recipe.Start.Optimizer = recipe.StartKeep }, false},
	} {
		changed := func() *rundir.Run {
			r := *first
			c.change(&r)
			return &r
		}
		one, other := changed(), changed()
		if got := sweep.SameWarmStart(one, other); got != c.both || name != "optimizer" && sweep.SameWarmStart(first, other) {
			t.Errorf("%s: the same warm start: %v, want %v; and not of one with and one without", name, got, c.both)
		}
	}
}
