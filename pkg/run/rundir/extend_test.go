package rundir_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// sealRows seals rows as the output of a task of a run.
func sealRows[T shard.Row](t *testing.T, r *rundir.Run, of graph.Task, path string, rows ...T) string {
	t.Helper()
	m, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), r.Graph.Expected(of))
	if err != nil {
		t.Fatal(err)
	}
	return m.ContentSHA256
}

// said is an error with its hints.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error() + "\n" + strings.Join(exitcode.Hints(err), "\n")
}

// TestChange: what an extension may change, and what it is refused for. Rates are linear
// from 1e-3: after step s of n, with w of warmup, 1e-3 (1 - (s-w)/(n-w)).
func TestChange(t *testing.T) {
	t.Parallel()
	linear := []string{"schedule.iterations=2", "optimizer.decay=linear", "optimizer.min_ratio=0", "optimizer.learning_rate=1e-3", "optimizer.warmup_steps=0"}
	constant := []string{"schedule.iterations=2", "optimizer.decay=constant"}
	for _, c := range []struct {
		made, change []string
		ledger       []string // reasons of the rows of iteration 2; nil where it is not closed
		want         string   // in the error and its hints; empty where the change is fine
		hint         string
	}{
		// Without more iterations the last one need not have ended.
		{made: constant, change: []string{"description=x", "schedule.keep_every=0", "schedule.max_attempts=9", "evaluation.every=1", "resources.threads=2", "schedule.decay_ends=[1,2]"}},
		{made: constant, change: []string{"rollout.group=2"}, want: "cannot be extended by rollout.group: was 4, now 2", hint: "evaluation.every, resources; to change more"},
		{made: constant, change: []string{"description=x", "seed=2"}, want: "cannot be extended by seed"},
		{made: constant, change: []string{"schedule.iterations=1"}, want: "schedule.iterations: got 1, and run"},
		{made: constant, change: []string{"schedule.iterations=x"}, want: "schedule.iterations"},
		{made: constant, change: []string{"schedule.iterations=3"}, want: "ledger.parquet"},
		{made: constant, change: []string{"schedule.iterations=3"}, ledger: []string{"", "constant_group"}},
		{made: constant, change: []string{"schedule.iterations=3"}, ledger: []string{"", "run_ended"}, want: "dropped 1 segment because", hint: "lathe run RECIPE --run NEW --from"},
		{made: constant, change: []string{"schedule.iterations=3"}, ledger: []string{"batch_not_full", "run_ended", "late", "batch_not_full"}, want: "dropped 3 segments because"},
		{made: constant, change: []string{"description=x"}, ledger: []string{"run_ended"}},
		{made: []string{"schedule.iterations=0"}, change: []string{"schedule.iterations=3"}},
		{made: linear, change: []string{"schedule.iterations=4", "schedule.decay_ends=[2]"}, ledger: []string{""}},
		{made: linear, change: []string{"schedule.iterations=4", "schedule.decay_ends=[2,4]"}, ledger: []string{""}},
		// 1 - 1/4, was 1 - 1/2; then 1 - 2/2, or 1 - 3/4.
		{
			made: linear, change: []string{"schedule.iterations=4"}, want: "schedule.decay_ends: got [], with which iteration 1 would have learned at rate 0.00075, and it learned at 0.0005",
			hint: "after iteration 2: --set schedule.decay_ends=[2] leaves it where it ended, at 0; --set schedule.decay_ends=[2,4] gives the rest the rates of a run of 4 iterations, from 0.00025 on",
		},
		{made: linear, change: []string{"schedule.iterations=4", "schedule.decay_ends=[3,4]"}, want: "got [3,4], with which iteration 1 would have learned at rate 0.000667, and it learned at 0.0005"},
		// A step of warmup: the first iteration learns at the full rate, the last at 1 - 1/3, was 1 - 1/1.
		{made: append(linear, "optimizer.warmup_steps=1"), change: []string{"schedule.iterations=4"}, want: "iteration 2 would have learned at rate 0.000667, and it learned at 0\n"},
		// The decay that ended at 2 ends at 3: 1 - 2/3, was 1 - 2/2.
		{
			made: append(linear, "schedule.decay_ends=[1,2]"), change: []string{"schedule.iterations=4", "schedule.decay_ends=[1,3]"}, want: "iteration 2 would have learned at rate 0.000333, and it learned at 0\n",
			hint: "schedule.decay_ends=[1,2] leaves it where it ended, at 0; --set schedule.decay_ends=[1,2,4] gives the rest the rates of a run of 4 iterations, from 0.00025 on",
		},
		// Six steps in each iteration: 1 - 5/23, was 1 - 5/11; then 1 - 17/23.
		{
			made: append(linear, "optimizer.warmup_steps=1", "loss.epochs=3", "loss.mini_batches=2"), change: []string{"schedule.iterations=4"},
			want: "iteration 1 would have learned at rate 0.000783, and it learned at 0.000545", hint: "at 0; --set schedule.decay_ends=[2,4] gives the rest the rates of a run of 4 iterations, from 0.000261 on",
		},
	} {
		r := runtest.Create(t, runtest.Smoke(), c.made...)
		if c.ledger != nil {
			var rows []shard.LedgerRow
			for _, reason := range c.ledger {
				rows = append(rows, shard.LedgerRow{Reason: reason})
			}
			sealRows(t, r, graph.Task{Node: runtest.Node(graph.StageBuffer, 2)}, r.Dir.Ledger(2), rows...)
		}
		changed, err := r.Change(t.Context(), c.change)
		text := said(err)
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) || !strings.Contains(text, c.hint) {
			t.Errorf("%v extended by %v: %s; want %q and %q", c.made, c.change, text, c.want, c.hint)
		}
		if err == nil && (changed == nil || changed.SHA256 == r.Identity.RecipeSHA256) {
			t.Errorf("%v extended by %v gives %+v", c.made, c.change, changed)
		}
	}
	r := runtest.Create(t, runtest.Smoke(), constant...)
	if changed, err := r.Change(t.Context(), constant); changed != nil || err != nil {
		t.Errorf("no change: %+v, %v", changed, err)
	}
}

// TestExtend: a run that is extended twice keeps the recipes that it had, and says so.
func TestExtend(t *testing.T) {
	t.Parallel()
	r := runtest.Create(t, runtest.Smoke(), "schedule.iterations=0")
	extend := func(r *rundir.Run, iterations string) *rundir.Run {
		t.Helper()
		changed, err := r.Change(t.Context(), []string{"schedule.iterations=" + iterations})
		if err != nil {
			t.Fatal(err)
		}
		extended, err := r.Extend(t.Context(), changed, seal.AttemptFromEnv(), "later")
		if err != nil {
			t.Fatal(err)
		}
		if extended.Graph.RecipeSHA256 != changed.SHA256 || string(extended.RecipeBytes) != string(changed.YAML) {
			t.Errorf("the run has the recipe %s, want %s", extended.Graph.RecipeSHA256, changed.SHA256)
		}
		return extended
	}
	once := extend(r, "1")
	// None of its iterations was made yet: another description is no other run.
	changed, err := once.Change(t.Context(), []string{"description=again"})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := once.Extend(t.Context(), changed, seal.AttemptFromEnv(), "later still")
	if err != nil {
		t.Fatal(err)
	}
	var manifests []seal.Manifest
	for n := range 3 {
		m, err := seal.Verify(t.Context(), r.Dir.Extension(n), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, m)
	}
	want := []graph.Extended{{Iterations: 0, RecipeSHA256: r.Identity.RecipeSHA256, At: manifests[1].Ended}, {Iterations: 1, RecipeSHA256: once.Graph.RecipeSHA256, At: manifests[2].Ended}}
	if diff := cmp.Diff(want, twice.Graph.Extended); diff != "" || twice.Recipe.Schedule.Iterations != 1 || twice.Recipe.Description != "again" || twice.Identity.RecipeSHA256 != r.Identity.RecipeSHA256 {
		t.Errorf("recipe %+v, made from %s; extended (-want +got):\n%s", twice.Recipe.Description, twice.Identity.RecipeSHA256, diff)
	}
	m := manifests[2]
	if diff := cmp.Diff([]seal.Input{{Path: "recipe.1.yaml", ContentSHA256: manifests[1].ContentSHA256}}, m.Inputs); diff != "" || m.RecipeSHA256 != changed.SHA256 || m.BinaryVersion != "later still" || m.Run != r.Identity.RunID || m.Stage != "create" {
		t.Errorf("manifest %+v; inputs (-want +got):\n%s", m, diff)
	}
	twice.Recipe.Schedule.Iterations, twice.Graph.Extended[1].Iterations = 4, 2
	twice.Identity.Origin = &rundir.Origin{Run: "/b", RunID: "b-1", Version: 7, OptimizerSHA256: "o", StateSHA256: "s", From: &rundir.Origin{Run: "/a", RunID: "a-1"}}
	lines := []string{
		"extended from 2 to 4 iterations", "extended from 0 to 2 iterations",
		"started from v000007 of /b (b-1): policy, optimizer state, curriculum state", "started from v000000 of /a (a-1): policy",
	}
	if diff := cmp.Diff(lines, twice.Lineage()); diff != "" {
		t.Errorf("lineage (-want +got):\n%s", diff)
	}
	for times, there := range []bool{true, true, true, false} {
		if err := rundir.AwaitExtension(t.Context(), r.Dir, times); (err == nil) != there || !there && !errors.Is(err, seal.ErrNotSealed) {
			t.Errorf("extended %d times: %v", times, err)
		}
	}
	if err := rundir.AwaitExtension(t.Context(), graph.Dir(t.TempDir()), 0); err != nil {
		t.Errorf("a run that nobody extended is waited for: %v", err)
	}
	// What is in the place of an extension and is none.
	cited := seal.Input{Path: "recipe.1.yaml", ContentSHA256: manifests[1].SHA256}
	for what, other := range map[string]seal.Manifest{
		"another run's":         {Run: "other", Inputs: []seal.Input{cited}},
		"of no recipe":          {Run: r.Identity.RunID},
		"of two":                {Run: r.Identity.RunID, Inputs: []seal.Input{cited, cited}},
		"of the one before the": {Run: r.Identity.RunID, Inputs: []seal.Input{{Path: "recipe.yaml", ContentSHA256: manifests[0].SHA256}}},
	} {
		err := seal.Remove(r.Dir.Extension(2))
		if err == nil {
			_, err = seal.WriteBytes(r.Dir.Extension(2), changed.YAML, seal.AttemptFromEnv(), other)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rundir.Open(t.Context(), r.Dir); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "does not extend this run: it is of run") {
			t.Errorf("a recipe %s: %v", what, err)
		}
	}
	once.Dir = graph.Dir(r.Dir.Tasks())
	if _, err := once.Extend(t.Context(), changed, seal.AttemptFromEnv(), "x"); err == nil || !strings.Contains(err.Error(), "extending run") {
		t.Errorf("extended where there is no folder: %v", err)
	}
}

// TestOpenSays: what is wrong with the documents of a run, and how to get on.
func TestOpenSays(t *testing.T) {
	t.Parallel()
	made := func(r *rundir.Run, text string) error { // from a recipe of that text
		r.Identity.RecipeSHA256 = ""
		for _, path := range []string{r.Dir.Recipe(), r.Dir.Identity()} {
			if err := seal.Remove(path); err != nil {
				return err
			}
		}
		m, err := seal.WriteBytes(r.Dir.Recipe(), []byte(text), seal.AttemptFromEnv(), seal.Manifest{Run: r.Identity.RunID})
		if err == nil {
			r.Identity.RecipeSHA256, r.Identity.BinaryVersion = m.SHA256, "9.1"
			_, err = seal.WriteJSON(r.Dir.Identity(), r.Identity, seal.AttemptFromEnv(), seal.Manifest{})
		}
		return err
	}
	for _, c := range []struct {
		what   string
		spoil  func(r *rundir.Run) error
		open   string // of what Open says
		graph  string // of what ReadGraph says, which needs the recipe alone
		create string // of what Create says
	}{
		{"a damaged identity", func(r *rundir.Run) error { return os.Truncate(r.Dir.Identity(), 9) }, "run.json and its manifest", "", "run.json and its manifest"},
		{"a damaged recipe", func(r *rundir.Run) error { return os.Truncate(r.Dir.Recipe(), 9) }, "recipe.yaml and its manifest", "recipe.yaml and its manifest", "recipe.yaml and its manifest"},
		{"no recipe", func(r *rundir.Run) error { return seal.Remove(r.Dir.Recipe()) }, "have it made again with the recipe", "have it made again with the recipe", ""},
		{"a damaged recipe alone", func(r *rundir.Run) error {
			return errors.Join(seal.Remove(r.Dir.Identity()), os.Truncate(r.Dir.Recipe(), 9))
		}, "is not a run", "recipe.yaml and its manifest", "recipe.yaml and its manifest"},
		{"a recipe of later settings", func(r *rundir.Run) error { return made(r, "later: 1\n") }, "was made by version 9.1 of lathe", "recipe of run ", "was made by version 9.1 of lathe"},
	} {
		r := runtest.Create(t, runtest.Smoke())
		if err := c.spoil(r); err != nil {
			t.Fatal(err)
		}
		_, errOpen := rundir.Open(t.Context(), r.Dir)
		_, errGraph := rundir.ReadGraph(t.Context(), r.Dir)
		_, errCreate := rundir.Create(t.Context(), r.Dir, runtest.Load(t), seal.AttemptFromEnv(), "test")
		for _, got := range []struct {
			by   string
			err  error
			want string
		}{{"Open", errOpen, c.open}, {"ReadGraph", errGraph, c.graph}, {"Create", errCreate, c.create}} {
			if (got.err == nil) != (got.want == "") || !strings.Contains(said(got.err), got.want) || got.err != nil && exitcode.Code(got.err) != exitcode.Data {
				t.Errorf("%s: %s: %s; want %q", c.what, got.by, said(got.err), got.want)
			}
		}
	}
}

// TestSameRecipe: a run goes on with its own recipe, and with one that says auto where runs
// once kept every version, or measured the first and the last alone; others are refused,
// with twenty differences at most.
func TestSameRecipe(t *testing.T) {
	t.Parallel()
	other := runtest.LoadOf(t, "gsm8k").YAML
	for _, c := range []struct {
		made []string
		with *recipe.Resolved
		want string
	}{
		{nil, runtest.Load(t), ""},
		{[]string{"evaluation.every=0"}, runtest.Load(t), ""},
		{[]string{"evaluation.every=0", "schedule.keep_every=0"}, runtest.Load(t), ""},
		{[]string{"schedule.keep_every=0"}, runtest.Load(t), "schedule.keep_every"},
		{[]string{"seed=2"}, runtest.Load(t), "seed"},
		{nil, &recipe.Resolved{YAML: other}, " more"},
	} {
		r := runtest.Create(t, runtest.Smoke(), c.made...)
		_, err := rundir.Rehearse(t.Context(), r.Dir, c.with)
		if (err == nil) != (c.want == "") || err != nil && (exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "was made from another recipe") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("made with %v: %v; want %q", c.made, err, c.want)
		}
		if c.want != " more" {
			continue
		}
		lines := strings.Split(err.Error(), "\n  ")
		if len(lines) != 1+20+1 || !strings.HasPrefix(lines[21], "… and ") {
			t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
		}
	}
}
