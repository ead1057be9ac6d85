package survey_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// iterated is a run of which so many iterations are done.
func iterated(t *testing.T, iterations int, settings ...string) *runtest.Board {
	t.Helper()
	b := runtest.NewBoard(t, settings...)
	for _, n := range b.Nodes() {
		if n.Iteration <= iterations || n.Stage == graph.StageWarm {
			b.Seal(n)
			b.Close()
		}
	}
	return b
}

func value[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// TestMade: what was pruned has been made; a submission's task has done its work if what
// it made was pruned since, and not before.
func TestMade(t *testing.T) {
	t.Parallel()
	b := iterated(t, 1, "schedule.iterations=2")
	learned := graph.Task{Node: runtest.Node(graph.StageLearn, 1)}
	next := graph.Task{Node: runtest.Node(graph.StageLearn, 2)}
	is := value[bool](t)
	v := survey.NewInventory(b.Graph)
	if !is(v.Made(t.Context(), learned)) || is(v.Made(t.Context(), next)) || !is(v.Settled(t.Context(), learned, time.Now())) || is(v.Pruned(learned.Node)) || is(v.Pruned(next.Node)) || is(v.Pruned(runtest.Node(graph.StageBuffer, 1))) {
		t.Error("before pruning")
	}
	before := time.Now()
	for _, path := range b.Outputs(learned) {
		must.Get(seal.Prune(t.Context(), path))(t)
	}
	v.Forget(learned.Node)
	if !is(v.Made(t.Context(), learned)) || is(v.Sealed(t.Context(), learned)) || !is(v.Pruned(learned.Node)) || v.Done(learned.Node) {
		t.Error("it was pruned, and counts as not made")
	}
	if is(v.Settled(t.Context(), learned, before.Add(time.Hour))) || !is(v.Settled(t.Context(), learned, before.Add(-time.Hour))) {
		t.Error("a task that was submitted later makes it again")
	}
	// A half that is pruned is no whole.
	whole := iterated(t, 1, "schedule.iterations=2")
	must.Get(seal.Prune(t.Context(), whole.Dir.Optimizer(1)))(t)
	if v := survey.NewInventory(whole.Graph); is(v.Made(t.Context(), learned)) || is(v.Pruned(learned.Node)) {
		t.Error("half of it counts")
	}
}

// TestRecheck: a task that has just ended is looked at whatever was known, and others are
// after a refresh.
func TestRecheck(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=3")
	n := runtest.Node(graph.StageRollout, 1)
	v, is := survey.NewInventory(b.Graph), value[bool](t)
	first, second := graph.Task{Node: n}, graph.Task{Node: n, Shard: 1}
	if is(v.Sealed(t.Context(), first)) || v.Done(n) {
		t.Error("nothing is there")
	}
	b.Seal(n, 0, 1)
	if is(v.Sealed(t.Context(), first)) || !is(v.Recheck(t.Context(), first)) || !is(v.Recheck(t.Context(), first)) || is(v.Sealed(t.Context(), second)) {
		t.Error("after its end it is there, and the others are not looked at")
	}
	v.Refresh()
	if !is(v.Sealed(t.Context(), second)) || v.Done(n) || is(v.Recheck(t.Context(), graph.Task{Node: n, Shard: 2})) {
		t.Error("after a refresh")
	}
	b.Seal(n, 2)
	v.Refresh()
	if is(v.Sealed(t.Context(), graph.Task{Node: n, Shard: 2})); !v.Done(n) {
		t.Error("all are there")
	}
}

// TestAwait: what other nodes have sealed is waited for, until its time has come. Looks are
// 20 ms apart, then twice as long each time up to a second: at 0, .02, .06, .14, .3, .62,
// 1.26, 2.26 s.
func TestAwait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sealed, first, second, want time.Duration }{
		{200 * time.Millisecond, time.Hour, -time.Second, 300 * time.Millisecond},
		{0, time.Hour, 300 * time.Millisecond, 620 * time.Millisecond}, // until, and not before
		{time.Second, time.Hour, 0, 1260 * time.Millisecond},
		{time.Hour, 1500 * time.Millisecond, 0, 2260 * time.Millisecond},
	} {
		b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=3")
		n := runtest.Node(graph.StageRollout, 1)
		synctest.Test(t, func(t *testing.T) {
			began, v := time.Now(), survey.NewInventory(b.Graph)
			defer time.AfterFunc(c.sealed, func() { b.Seal(n, 0) }).Stop()
			until := map[graph.Task]time.Time{{Node: n}: began.Add(c.first), {Node: n, Shard: 1}: began.Add(c.second)}
			if err := v.Await(t.Context(), until); err != nil || len(until) != 0 || time.Since(began) != c.want {
				t.Errorf("%v: %v, left %v after %v", c, err, until, time.Since(began))
			}
		})
	}
	b := runtest.NewBoard(t, "schedule.iterations=1")
	v, task := survey.NewInventory(b.Graph), graph.Task{Node: runtest.Node(graph.StageRollout, 1)}
	over, cancel := context.WithCancelCause(t.Context())
	nobody := errors.New("nobody waits any more")
	cancel(nobody)
	if err := v.Await(over, map[graph.Task]time.Time{task: time.Now().Add(time.Hour)}); !errors.Is(err, nobody) {
		t.Errorf("%v, want %v", err, nobody)
	}
}

// TestRepairQueue: what is queued is made again although everything later is there, with
// what it is made from first; what no task makes is nobody's.
func TestRepairQueue(t *testing.T) {
	t.Parallel()
	done := iterated(t, 3, "schedule.iterations=3")
	for _, c := range []struct {
		what       string
		lost, also []string // of them, and of what else is lost
		want       []string
	}{
		{"a fold", []string{"iter/000001/batch.arrow"}, nil, []string{"buffer-000001-00000"}},
		{"a score", []string{"iter/000001/score/00001.parquet"}, nil, []string{"score-000001-00001"}},
		{"a score, whose rollout is lost too", []string{"iter/000001/score/00001.parquet"}, []string{"iter/000001/rollout/00001.parquet"}, []string{"rollout-000001-00001"}},
		{"a rollout, whose plan is lost too", []string{"iter/000002/rollout/00000.parquet"}, []string{"iter/000002/plan.parquet"}, []string{"buffer-000001-00000"}},
		{"a plan, and what it goes on from", []string{"iter/000001/rollout/00000.parquet", "iter/000003/plan.parquet"}, nil, []string{"rollout-000001-00000"}},
		{"a score, beside a shard that was left out", []string{"iter/000001/score/00001.parquet"}, []string{"iter/000001/score/00000.parquet", "iter/000001/rollout/00000.parquet"}, []string{"score-000001-00001"}},
		{"a plan, and a score after it", []string{"iter/000002/score/00000.parquet", "iter/000002/plan.parquet"}, nil, []string{"buffer-000001-00000"}},
		{"metrics, and a file of nobody's", []string{"iter/000001/metrics.parquet", "notes"}, nil, nil},
		{"what is there", []string{"iter/000001/state.parquet"}, nil, nil},
	} {
		g := done.Graph
		g.Dir = graph.Dir(t.TempDir())
		must.Do(t, os.CopyFS(string(g.Dir), os.DirFS(string(done.Dir))))
		b := runtest.BoardOf(t, g)
		for _, rel := range append(c.also, c.lost...) {
			if c.what == "what is there" {
				continue
			}
			if _, err := os.Stat(b.Dir.Join(rel)); err != nil {
				continue
			}
			must.Do(t, seal.Remove(b.Dir.Join(rel)))
		}
		b.Survey() // before, nothing is queued
		must.Do(t, rundir.QueueRepairs(b.Dir, c.lost, seal.AttemptFromEnv()))
		found := b.Survey()
		var got []string
		for _, task := range found.Ready {
			got = append(got, task.String())
		}
		if !slices.Equal(got, c.want) || found.Done != (c.want == nil) {
			t.Errorf("%s: ready %q, done %v, want %q", c.what, got, found.Done, c.want)
		}
	}
	b := iterated(t, 1, "schedule.iterations=1")
	must.Do(t, errors.Join(os.MkdirAll(b.Dir.Jobs(), 0o777), os.WriteFile(b.Dir.Join("jobs", "repairs.json"), []byte("{"), 0o666)))
	if _, err := survey.New(b.Graph).Survey(t.Context()); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a queue that cannot be read: %v", err)
	}
}

// TestLostClosing: a close.json that is lost after its batch was made is found again by
// what the batch was made from, and by anything else that came of it.
func TestLostClosing(t *testing.T) {
	t.Parallel()
	for _, lost := range [][]func(graph.Dir) string{{}, {func(d graph.Dir) string { return d.Batch(1) }}, {func(d graph.Dir) string { return d.Batch(1) }, func(d graph.Dir) string { return d.Ledger(1) }}} {
		b := iterated(t, 1, "schedule.iterations=2", "schedule.oversample=2", "rollout.shards=2")
		for _, path := range append(lost, func(d graph.Dir) string { return d.Close(1) }) {
			must.Do(t, seal.Remove(path(b.Dir)))
		}
		must.Do(t, rundir.QueueRepairs(b.Dir, []string{"iter/000001/batch.arrow"}, seal.AttemptFromEnv()))
		must.Do(t, seal.Remove(b.Dir.Stats(1)))
		found := value[survey.Result](t)(survey.New(b.Graph).Survey(t.Context()))
		// By its names alone the batch was made from no shard.
		if len(found.Closable) != 1 || len(found.Closable[0].Included) != 0 || len(found.Closable[0].Late) != 2 {
			t.Errorf("closable %+v", found.Closable)
		}
	}
}

// TestBegan: an iteration is overdue so long after the first of its rollouts that were
// sealed began, once a shard of it is done.
func TestBegan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		began    [2]int64
		now      int64
		scored   bool
		closable bool
		due      int64
	}{
		{[2]int64{55, 50}, 59, true, false, 60},
		{[2]int64{50, 55}, 59, true, false, 60},
		{[2]int64{55, 50}, 60, true, true, 0},
		{[2]int64{55, 50}, 99, false, false, 0},
		{[2]int64{55, 50}, 50, false, false, 0},
	} {
		b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=3", "schedule.close_after_seconds=10")
		b.Seal(runtest.Node(graph.StageBuffer, 0))
		b.Seal(runtest.Node(graph.StageWarm, 1))
		for n, began := range c.began {
			task := graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: n}
			m := b.Expected(task)
			m.Started = time.Unix(began, 0)
			must.Get(seal.WriteBytes(b.Dir.Rollout(1, n), nil, seal.AttemptFromEnv(), m))(t)
		}
		if c.scored {
			b.Seal(runtest.Node(graph.StageScore, 1), 0)
		}
		b.Surveyor.Clock.Now = func() time.Time { return time.Unix(c.now, 0) }
		found := b.Survey()
		due := found.Due
		if (len(found.Closable) == 1) != c.closable || (c.due == 0) != due.IsZero() || c.due > 0 && due.Unix() != c.due {
			t.Errorf("at %d: closable %+v, due %v", c.now, found.Closable, due)
		}
		// What is sealed later began earlier, by a clock that is behind: it counts no more.
		m := b.Expected(graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 2})
		m.Started = time.Unix(20, 0)
		must.Get(seal.WriteBytes(b.Dir.Rollout(1, 2), nil, seal.AttemptFromEnv(), m))(t)
		if again := b.Survey(); c.scored && !again.Due.Equal(due) {
			t.Errorf("asked again: due %v, was %v", again.Due, due)
		}
	}
}

// TestDropped: only what late: drop leaves behind is dropped.
func TestDropped(t *testing.T) {
	t.Parallel()
	for late, want := range map[string]bool{"drop": true, "carry": false} {
		b := runtest.NewBoard(t, "schedule.iterations=2", "schedule.oversample=2", "schedule.late="+late)
		must.Do(t, closing.Seal(b.Run(), closing.Closing{Iteration: 1, Shards: 2, Included: []int{0}, Late: []int{1}}, seal.AttemptFromEnv(), "test"))
		v := survey.NewInventory(b.Graph)
		for task, of := range map[graph.Task]bool{
			{Node: runtest.Node(graph.StageScore, 1), Shard: 1}: true, {Node: runtest.Node(graph.StageRollout, 1), Shard: 1}: true,
			{Node: runtest.Node(graph.StageScore, 1)}: false, {Node: runtest.Node(graph.StageScore, 2), Shard: 1}: false,
			{Node: runtest.Node(graph.StageEvalScore, 1), Shard: 1}: false, {Node: runtest.Node(graph.StageLearn, 1), Shard: 1}: false,
		} {
			if got, err := v.Dropped(t.Context(), task); got != (want && of) || err != nil {
				t.Errorf("late: %s: %s is dropped: %v, %v", late, task, got, err)
			}
		}
	}
}

// TestSamplers: under a server the learner waits for the policies that sampled what was
// carried or has waited.
func TestSamplers(t *testing.T) {
	t.Parallel()
	remote := `rollout.remote.serve=[x, "{policy}", "{port}"]`
	for _, c := range []struct {
		settings []string
		sampled  int32 // iteration of a segment that waits; 0 where that cannot be read
		want     string
	}{
		{[]string{remote, "schedule.batch_segments=9"}, 1, "warm-000001-00000"}, // version 0 sampled it
		{[]string{remote, "schedule.batch_segments=9"}, 3, "learn-000003-00000"},
		{[]string{"schedule.batch_segments=9"}, 1, "learn-000003-00000"},
		{[]string{remote, "schedule.batch_segments=9"}, 0, "learn-000003-00000"}, // what waited is damaged
	} {
		b := runtest.NewBoard(t, append([]string{"schedule.iterations=4", "loss.kl.coef=0"}, c.settings...)...)
		b.Seal(runtest.Node(graph.StageBuffer, 0))
		b.Seal(runtest.Node(graph.StageWarm, 1))
		for k, rows := range [][]shard.Waiting{{}, {{IterationSampled: c.sampled}, {IterationSampled: c.sampled}}, {}} {
			k++
			b.Seal(runtest.Node(graph.StageRollout, k))
			b.Seal(runtest.Node(graph.StageScore, k))
			b.Close()
			must.Get(shard.Write(b.Dir.Waiting(k), rows, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, k)})))(t)
			b.Seal(runtest.Node(graph.StageBuffer, k))
			if k < 3 {
				b.Seal(runtest.Node(graph.StageLearn, k))
			}
		}
		if c.sampled == 0 {
			must.Do(t, os.Truncate(b.Dir.Waiting(2), 1))
		}
		must.Do(t, seal.Remove(b.Dir.Policy(0)))
		b.Surveyor = survey.New(b.Graph)
		b.Ready(c.want)
	}
}

// TestWavesThatNobodyPromised: traces that go on beyond the last wave are our bug.
func TestWavesThatNobodyPromised(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1")
	task := graph.Task{Node: runtest.Node(graph.StageScore, 1)}
	m := b.Expected(task)
	m.Metrics = map[string]float64{shard.MetricWaiting: 1}
	must.Get(seal.WriteBytes(b.Dir.Score(1, 0), nil, seal.AttemptFromEnv(), m))(t)
	if _, err := survey.NewInventory(b.Graph).Sealed(t.Context(), task); exitcode.Code(err) != exitcode.Bug || !strings.Contains(err.Error(), "promise 1 waves") {
		t.Errorf("%v", err)
	}
}

// TestWavesOfAShard: a shard goes through its waves by itself, and the iteration is closed
// when all have ended.
func TestWavesOfAShard(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1")
	waves := runtest.LoadOf(t, "mle-smoke", "env.max_turns=3").Recipe
	b.Recipe.Env, b.Recipe.Data = waves.Env, waves.Data
	b.Surveyor = survey.New(b.Graph)
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	scored := func(shardOf, wave int, waiting float64) {
		task := graph.Task{Node: runtest.Node(graph.StageScore, 1).InWave(wave), Shard: shardOf}
		m := b.Expected(task)
		m.Metrics = map[string]float64{shard.MetricWaiting: waiting}
		must.Get(seal.WriteBytes(b.Outputs(task)[0], nil, seal.AttemptFromEnv(), m))(t)
	}
	first := runtest.Node(graph.StageRollout, 1)
	b.Seal(first)
	scored(0, 0, 1)
	b.Ready("score-000001-00001", "rollout-000001-w01-00000")
	b.Seal(first.InWave(1), 0)
	b.Ready("score-000001-w01-00000", "score-000001-00001")
	scored(1, 0, 0)
	b.Ready("score-000001-w01-00000")
	v := survey.NewInventory(b.Graph)
	for task, want := range map[graph.Task]bool{{Node: first.InWave(1)}: true, {Node: first.InWave(1), Shard: 1}: false, {Node: first.InWave(2)}: false, {Node: first}: true} {
		if got, err := v.Exists(t.Context(), task); got != want || err != nil {
			t.Errorf("%s exists: %v, %v", task, got, err)
		}
	}
	if count := b.Survey().Counts[first.InWave(1)]; count != (survey.Count{Sealed: 1, Total: 1}) {
		t.Errorf("of the second wave: %+v", count)
	}
	scored(0, 1, 0)
	if closed := b.Close(); len(closed) != 1 || !slices.Equal(closed[0].Included, []int{0, 1}) {
		t.Errorf("closed with %+v", closed)
	}
	// A score of the second wave that is made again reads both waves.
	b.Seal(runtest.Node(graph.StageBuffer, 1))
	b.Seal(runtest.Node(graph.StageLearn, 1))
	last := graph.Task{Node: runtest.Node(graph.StageScore, 1).InWave(1)}
	must.Do(t, rundir.QueueRepairs(b.Dir, []string{b.Dir.Rel(b.Outputs(last)[0])}, seal.AttemptFromEnv()))
	for _, c := range []struct {
		lost graph.Node
		want []string
	}{
		{last.Node, []string{"score-000001-w01-00000"}},
		{first, []string{"rollout-000001-00000"}},
		{first.Judging(), []string{"rollout-000001-00000"}},
		{first.InWave(1), []string{"rollout-000001-00000"}},
	} {
		must.Do(t, seal.Remove(b.Outputs(graph.Task{Node: c.lost})[0]))
		b.Surveyor = survey.New(b.Graph)
		b.Ready(c.want...)
	}
	b.Seal(first, 0)
	b.Ready("score-000001-00000")
}
