package worker

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// table seals rows as what a task of a run made, with inputs and how much waits.
func table[T shard.Row](t *testing.T, g graph.Graph, path string, rows []T, waiting float64, inputs ...seal.Input) seal.Manifest {
	t.Helper()
	task, made := g.TaskOf(path)
	if !made {
		t.Fatalf("nothing makes %q", path)
	}
	m := g.Expected(task)
	m.Inputs, m.Metrics = inputs, map[string]float64{shard.MetricWaiting: waiting}
	m, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), m)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// created is a run of jobs/smoke.yaml.
func created(t *testing.T, settings ...string) *rundir.Run {
	t.Helper()
	resolved, err := recipe.Load(sourcetree.Path("jobs", "smoke.yaml"), settings)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTakeScores: scores of another run are taken where they are of the same responses,
// with all that they were made from, and else made anew.
func TestTakeScores(t *testing.T) {
	t.Parallel()
	task := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}, Shard: 1}
	for _, c := range []struct {
		what                 string
		scored, taking, lost bool
		here                 string // response in this run
		earlier              bool   // the scores were made before a column was added to the plan
		taken                bool
		log                  string
	}{
		{"the same responses", true, true, false, "a", false, true, ""},
		{"the same, by a plan of an earlier version", true, true, false, "a", true, true, ""},
		{"other responses", true, true, false, "b", false, false, "is not that of"},
		{"no scores", false, true, false, "a", false, false, "has no scores of it"},
		{"a run that takes none", true, false, false, "a", false, false, ""},
		{"no responses here", true, true, true, "a", false, false, ""},
	} {
		from, to := created(t), created(t, "seed=1")
		response := func(text string) []shard.Rollout {
			return []shard.Rollout{{InstanceID: "i", Messages: []shard.Message{{Role: "assistant", Content: text}}}}
		}
		was := table(t, from.Graph, from.Dir.Rollout(1, 1), response("a"), 0)
		if !c.lost {
			table(t, to.Graph, to.Dir.Rollout(1, 1), response(c.here), 0)
		}
		rows := []shard.Score{{InstanceID: "i", Reward: 0.5, ExecuteSeconds: 3}}
		made := []seal.Input{{Path: "/elsewhere", ContentSHA256: "00"}, {Path: "iter/000001/rollout/00001.parquet", ContentSHA256: was.ContentSHA256}}
		if c.earlier {
			plan := []shard.Instance{{InstanceID: "i"}}
			digests, err := shard.EarlierDigests(plan)
			if err != nil {
				t.Fatal(err)
			}
			table(t, to.Graph, to.Dir.Plan(1), plan, 0)
			made = append(made, seal.Input{Path: "iter/000001/plan.parquet", ContentSHA256: digests[0]})
		}
		if c.scored {
			table(t, from.Graph, from.Dir.Score(1, 1), rows, 2, made...)
		}
		if c.taking {
			to.Identity.Scores = string(from.Dir)
		}
		said := ""
		w := New(to, seal.AttemptFromEnv(), "test", func(format string, args ...any) { said += fmt.Sprintf(format, args...) })
		job := w.job(task)
		job.EnvironmentInputs = []seal.Input{{Path: "read here", ContentSHA256: "11"}} // which made none of the scores
		taken, err := w.takeScores(t.Context(), job, task, to.Dir.Score(1, 1))
		if taken != c.taken || (err != nil) != c.lost || !strings.Contains(said, c.log) || (said == "") != (c.log == "") {
			t.Errorf("%s: taken %v, %v; said %q", c.what, taken, err, said)
		}
		if !c.taken {
			continue
		}
		if err := seal.Remove(to.Dir.Score(1, 1)); err != nil {
			t.Fatal(err)
		}
		if err := w.score(t.Context(), job, nil, task); err != nil { // asks no environment
			t.Error(err)
		}
		got, m, err := shard.Read[shard.Score](t.Context(), to.Dir.Score(1, 1), to.Graph.Reading(0))
		if diff := cmp.Diff(rows, got, cmpopts.EquateEmpty()); diff != "" || err != nil || m.Metrics[shard.MetricWaiting] != 2 || len(m.Inputs) != len(made) || m.Inputs[0].Path != from.Dir.Score(1, 1) || m.Inputs[1].Path != "iter/000001/rollout/00001.parquet" {
			t.Errorf("%s: %v, made from %+v, metrics %v (-want +got):\n%s", c.what, err, m.Inputs, m.Metrics, diff)
		}
	}
	w := New(created(t), seal.AttemptFromEnv(), "test", t.Logf)
	w.Run.Identity.Scores = t.TempDir()
	if _, err := w.takeScores(t.Context(), w.job(task), task, "x"); err == nil || !strings.Contains(err.Error(), "opening the run whose scores are taken") {
		t.Errorf("of no run: %v", err)
	}
}

// TestDo: what is sealed is done already; what the run does not have is refused; and a
// later wave of a shard in which nothing waits is none.
func TestDo(t *testing.T) {
	t.Parallel()
	w := of(t, graph.Dir(t.TempDir()))
	w.Output = w.Run.Dir
	said := ""
	w.Log = func(format string, args ...any) { said += fmt.Sprintf(format, args...) }
	done := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}}
	table(t, w.Run.Graph, w.Run.Dir.Score(1, 0), []shard.Score{}, 1)
	table(t, w.Run.Graph, w.Run.Dir.Score(1, 1), []shard.Score{}, 0)
	if err := w.Do(t.Context(), done); err != nil || !strings.Contains(said, "score-000001-00000 is done already") {
		t.Errorf("what is sealed: %v, said %q", err, said)
	}
	for _, n := range []graph.Node{{Stage: graph.StageScore, Iteration: 3}, {Stage: graph.StageClose, Iteration: 1}} {
		if err := w.Do(t.Context(), graph.Task{Node: n}); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %v", n, err)
		}
	}
	next := done.InWave(1)
	for shard, code := range map[int]int{0: exitcode.OK, 1: exitcode.Usage} {
		for _, n := range []graph.Node{next, next.Sampling()} {
			if err := w.goesOn(t.Context(), graph.Task{Node: n, Shard: shard}, seal.Options{}); exitcode.Code(err) != code {
				t.Errorf("shard %d in its second wave: %v", shard, err)
			}
		}
	}
	if err := w.goesOn(t.Context(), graph.Task{Node: done.InWave(2)}, seal.Options{}); exitcode.Code(err) == exitcode.OK {
		t.Error("a wave before that is not scored")
	}
	if err := w.goesOn(t.Context(), graph.Task{Node: done.Node, Shard: 1}, seal.Options{}); err != nil {
		t.Errorf("the first wave: %v", err)
	}
	for _, c := range []struct{ own, recipe, want int }{{3, 2, 3}, {1, 2, 1}, {0, 2, 2}, {0, 1, 1}} {
		w.Threads, w.Run.Recipe.Resources.Threads = c.own, c.recipe
		if got := w.job(done).Threads; got != c.want {
			t.Errorf("%+v: %d threads", c, got)
		}
	}
	if w.Threads, w.Run.Recipe.Resources.Threads = 0, 0; w.threads() < 1 {
		t.Error("no threads")
	}
}

// TestReportWait: a slow program is logged and noted, and the note goes with the wait.
func TestReportWait(t *testing.T) {
	t.Parallel()
	w, said := of(t, graph.Dir(t.TempDir())), ""
	w.Output = w.Run.Dir
	w.Log = func(format string, args ...any) { said += fmt.Sprintf(format, args...) }
	report := w.reportWait(graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}})
	report(&env.Wait{Program: "slow", Request: "score"}, 25*time.Second)
	notes := rundir.ReadWaits(w.Output, time.Now())
	if len(notes) != 1 || notes[0].Task != "score-000001-00000" || notes[0].Message != said || !strings.Contains(said, "slow has not answered a request to score for 25s") {
		t.Errorf("notes %+v, said %q", notes, said)
	}
	if report(nil, 0); len(rundir.ReadWaits(w.Output, time.Now())) != 0 {
		t.Error("the note stays when nothing waits")
	}
}

// TestTasksOf: a shard reads the tasks of its own rows alone, and a stage that neither
// samples nor scores reads all.
func TestTasksOf(t *testing.T) {
	t.Parallel()
	w := of(t, graph.Dir(t.TempDir()))
	plan := make([]shard.Instance, 8)
	for i := range plan {
		plan[i] = shard.Instance{InstanceID: fmt.Sprint("i", i), TaskID: fmt.Sprint("t", i/2)}
	}
	table(t, w.Run.Graph, w.Run.Dir.Plan(1), plan, 0)
	for _, c := range []struct {
		stage graph.Stage
		shard int
		want  map[string]bool
	}{
		{graph.StageRollout, 0, map[string]bool{"t0": true, "t1": true}}, // rows 0 to 3
		{graph.StageScore, 1, map[string]bool{"t2": true, "t3": true}},
		{graph.StageBuffer, 0, nil},
	} {
		task := graph.Task{Node: graph.Node{Stage: c.stage, Iteration: 1}, Shard: c.shard}
		if got, err := w.tasksOf(t.Context(), w.job(task), task); !cmp.Equal(c.want, got) || err != nil {
			t.Errorf("%s reads the tasks %v, %v; want %v", task, got, err, c.want)
		}
	}
}

// TestRestorable: a task that fails since what it reads was pruned says how that comes back.
func TestRestorable(t *testing.T) {
	t.Parallel()
	w := of(t, graph.Dir(t.TempDir()), "loss.kl.coef=0", "schedule.gradient_shards=2", "loss.mini_batches=2")
	missing := fmt.Errorf("reading: %w", seal.ErrNotSealed)
	step := graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 2, Step: 1}}
	first := graph.Task{Node: graph.Node{Stage: graph.StageGradient, Iteration: 2}}
	if err := restorable(w.Run, first, missing); err != missing {
		t.Errorf("nothing was pruned: %v", err)
	}
	prune := func(path string) {
		if _, err := seal.WriteBytes(path, nil, w.Attempt, seal.Manifest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.Prune(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	prune(w.Run.Dir.Policy(1))
	prune(w.Run.Dir.Gradient(2, 1, 1))
	for _, c := range []struct {
		task graph.Task
		err  error
		want string
		hint string
	}{
		{first, missing, `it reads "policy/v000001", which was pruned`, "--restore 1"},
		{step, missing, `it reads "iter/000002/grad/step-001/00001.arrow", which was pruned`, "only whole policy versions can be restored"},
		{first, exitcode.Dataf("other"), "other", ""},
	} {
		err := restorable(w.Run, c.task, c.err)
		if err.Error() != c.want || exitcode.Code(err) != exitcode.Code(c.err) || !strings.Contains(strings.Join(exitcode.Hints(err), ""), c.hint) {
			t.Errorf("%s: %v with hints %q, want %q", c.task, err, exitcode.Hints(err), c.want)
		}
	}
	if _, err := seal.WriteBytes(w.Run.Dir.Policy(1), nil, w.Attempt, seal.Manifest{}); err != nil { // made again
		t.Fatal(err)
	}
	if err := restorable(w.Run, first, missing); err != missing {
		t.Errorf("it is there again: %v", err)
	}
}

// TestReplays: what a server said is not asked again; what was never done cannot be compared
// with; and times that are measured may differ.
func TestReplays(t *testing.T) {
	t.Parallel()
	w := of(t, graph.Dir(t.TempDir()))
	rollout := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}}
	if _, err := Replay(t.Context(), w, []graph.Task{rollout}); err == nil || !strings.Contains(strings.Join(exitcode.Hints(err), ""), "rollout-000001-00000 has not been done") {
		t.Errorf("what was never done: %v", err)
	}
	was := table(t, w.Run.Graph, w.Run.Dir.Rollout(1, 0), []shard.Rollout{{InstanceID: "i"}}, 0)
	w.Run.Recipe.Rollout.Remote = &recipe.Remote{}
	table(t, w.Run.Graph, w.Run.Dir.Rollout(1, 1), []shard.Rollout{{InstanceID: "i"}}, 0)
	second := rollout
	second.Shard = 1
	results, err := Replay(t.Context(), w, []graph.Task{rollout, second})
	if diff := cmp.Diff([]Replayed{
		{Path: "iter/000001/rollout/00000.parquet", Sealed: was.ContentSHA256, Remote: true}, {Path: "iter/000001/rollout/00001.parquet", Sealed: was.ContentSHA256, Remote: true},
	}, results); diff != "" || err != nil {
		t.Errorf("of a server: %v (-want +got):\n%s", err, diff)
	}
	scored := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}}
	for _, c := range []struct {
		remote    bool
		embedding string
		task      graph.Task
		want      bool
	}{
		{false, "none", rollout, false},
		{true, "none", rollout, true},
		{true, "none", scored, false},
		{false, recipe.EmbeddingEndpoint, scored, true},
		{false, recipe.EmbeddingEndpoint, rollout, false},
		{false, recipe.EmbeddingEndpoint, graph.Task{Node: graph.Node{Stage: graph.StageEvalScore}}, false},
	} {
		if w.Run.Recipe.Score.Embedding = c.embedding; !c.remote {
			w.Run.Recipe.Rollout.Remote = nil
		} else {
			w.Run.Recipe.Rollout.Remote = &recipe.Remote{}
		}
		if got := w.remote(c.task); got != c.want {
			t.Errorf("%+v asks a server: %v", c, got)
		}
	}
	file := func(name string, s shard.Score) string {
		path := filepath.Join(t.TempDir(), name)
		if _, err := shard.Write(path, []shard.Score{s}, nil, w.Attempt, seal.Manifest{}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := file("one", shard.Score{InstanceID: "i", Reward: 1, ExecuteSeconds: 2})
	for other, want := range map[string]bool{file("same", shard.Score{InstanceID: "i", Reward: 1, ExecuteSeconds: 3}): true, file("other", shard.Score{InstanceID: "i", Reward: 2, ExecuteSeconds: 2}): false} {
		if same, err := sameButMeasured(t.Context(), one, other); same != want || err != nil {
			t.Errorf("%s is the same but for what is measured: %v, %v", filepath.Base(other), same, err)
		}
	}
}
