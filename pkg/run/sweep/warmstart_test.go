package sweep_test

import (
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

// A warm start of three checkpoints, of 4, 5 and 6 seconds in three hours of a day long
// ago: runs that begin with it, or with a copy of it, took 15 seconds for it, and what ran
// since is none of theirs.
func TestWarmStartTakesItsTime(t *testing.T) {
	t.Parallel()
	run := func(name string) *rundir.Run {
		t.Helper()
		resolved, err := recipe.Load("../../../jobs/smoke.yaml", []string{"warm_start.chunk=100", "name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		r, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), name)), resolved, seal.AttemptFromEnv(), "test")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, second, third := run("first"), run("second"), run("third")
	for chunk := 1; chunk <= 3; chunk++ {
		began := time.Date(2026, 1, 2, chunk, 0, 0, 0, time.UTC)
		task := graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: chunk}}
		for _, path := range first.Graph.Outputs(task) {
			w, err := seal.CreateFolder(path, seal.Attempt{Host: "a", Clock: func() time.Time { return began.Add(time.Duration(3+chunk) * time.Second) }})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(w.Path(), "weights"), []byte{byte(chunk)}, 0o666); err != nil {
				t.Fatal(err)
			}
			m := first.Graph.Expected(task)
			m.Started, m.Metrics = began, map[string]float64{"tokens": 10 * float64(chunk), "optimizer_steps": 100, "loss": 1 / float64(chunk)}
			if chunk == 3 {
				m.PolicyVersion = 0
			}
			if _, err := w.Commit(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, pair := range [][2]*rundir.Run{{second, first}, {third, second}} {
		to, from := pair[0], pair[1]
		if shared, err := sweep.ShareWarmStart(t.Context(), to, from, seal.AttemptFromEnv(), "test"); err != nil || !shared {
			t.Fatalf("%s of %s: shared %v, %v", to.Dir, from.Dir, shared, err)
		}
		m, err := seal.Read(t.Context(), to.Dir.Policy(0), to.Graph.Reading(0))
		if err != nil {
			t.Fatal(err)
		}
		if took := m.Ended.Sub(m.Started); took != 15*time.Second || time.Since(m.Ended) > time.Hour {
			t.Errorf("%s: the warm start took %v until %v, want 15 s until now", to.Dir, took, m.Ended)
		}
		if m.Metrics["tokens"] != 60 || m.Metrics["optimizer_steps"] != 300 || m.Metrics["loss"] != 1./3 {
			t.Errorf("%s: metrics %v, want 60 tokens, 300 steps and a loss of 1/3", to.Dir, m.Metrics)
		}
	}
	for _, r := range []*rundir.Run{first, second, third} {
		costs, err := measure.ReadCosts(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(*costs.Seconds-15) > 1e-6 {
			t.Errorf("%s took %v s, want 15", r.Dir, *costs.Seconds)
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
}
