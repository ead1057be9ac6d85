package run_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

// declaredTime is a launcher whose clock stands still while tasks work. A score task
// takes as long as its scores say; once only such tasks run, the clock goes to the
// end of the first of them, or to when an iteration is due.
type declaredTime struct {
	runtest.InProcess
	cores   int
	now     time.Time
	began   map[int]time.Time // by iteration
	running int
	held    map[graph.Task]held
}

// held is a score task that waits for the clock.
type held struct {
	ctx     context.Context
	ends    time.Time
	release chan struct{}
}

func newDeclaredTime(t *testing.T, r *rundir.Run, cores int) *declaredTime {
	return &declaredTime{InProcess: runtest.InProcess{T: t, Run: r}, cores: cores, now: time.Unix(0, 0), began: map[int]time.Time{}, held: map[graph.Task]held{}}
}

func (d *declaredTime) Cores() int { return d.cores }

func (d *declaredTime) Launch(ctx context.Context, a executor.Array, done func(executor.Result)) error {
	task := graph.Task{Node: graph.Node{Stage: graph.Stage(a.Stage), Iteration: a.Iteration, Step: a.Step}, Shard: a.Shards[0]}
	switch task.Stage {
	case graph.StageRollout:
		if d.began[task.Iteration].IsZero() {
			d.began[task.Iteration] = d.now
		}
	case graph.StageScore:
		h := held{ctx, d.now.Add(d.seconds(task)), make(chan struct{})}
		d.held[task] = h
		go func() {
			select {
			case <-h.release:
				if err := d.InProcess.Launch(ctx, a, done); err != nil {
					d.T.Error(err)
				}
			case <-ctx.Done():
				done(executor.Result{Shard: task.Shard, Exit: -1, Cause: executor.CauseStopped})
			}
		}()
		return nil
	}
	return d.InProcess.Launch(ctx, a, done)
}

// seconds is how long a score task takes: its shard is one action.
func (d *declaredTime) seconds(task graph.Task) time.Duration {
	plan, _, err := shard.Read[shard.Instance](d.T.Context(), d.Run.Dir.Plan(task.Iteration), seal.Options{})
	if err != nil {
		d.T.Error(err)
		return 0
	}
	x := slices.Index(actions.ids, plan[task.Shard].TaskID)
	return time.Duration(actions.seconds[x]) * time.Second
}

// watch counts what runs.
func (d *declaredTime) watch(p drive.Progress) {
	switch p.Event {
	case "launched":
		d.running++
	case "done", "late":
		d.running--
		delete(d.held, p.Task)
	}
}

// wake is asked before the driver waits. It moves the clock when all that runs waits
// for it.
func (d *declaredTime) wake(due time.Time) <-chan time.Time {
	if d.running > len(d.held) {
		return nil
	}
	var first graph.Task
	for task, h := range d.held {
		if h.ctx.Err() != nil {
			return nil // it is being stopped
		}
		at, known := d.held[first]
		if !known || h.ends.Before(at.ends) || h.ends.Equal(at.ends) && task.Shard < first.Shard {
			first = task
		}
	}
	next, waits := d.held[first]
	if !due.IsZero() && (!waits || due.Before(next.ends)) {
		d.now = due
		fired := make(chan time.Time, 1)
		fired <- due
		return fired
	}
	d.now = next.ends
	delete(d.held, first)
	close(next.release)
	return nil
}

// actionRun makes a run over the actions, with a shard for each.
func actionRun(t *testing.T, settings ...string) *rundir.Run {
	t.Helper()
	path := filepath.Join(t.TempDir(), "actions.yaml")
	text := `policy: {backend: cpu, new: {hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 1, num_key_value_heads: 1, max_position_embeddings: 16}}
env: {name: test-actions}
curriculum: {name: test-actions}
warm_start: {steps: 1, batch: 1, chunk: 1, improve: 0, diverge: 0}
preset: reinforce
segments: trajectory
reward: {name: verdict}
advantage: {name: none}
factors: [duration]
select: []
rollout: {group: 1, max_new_tokens: 1}
optimizer: {learning_rate: 1e-9}
score: {embedding: none}
evaluation: {problems: 1, samples: 1, steps: 0, greedy: false}
`
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	resolved, err := recipe.Load(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// observed is what the batches of a run show of each action: how often it was
// observed, in the iteration that sampled it and in all, and the sum of its factors
// (RL-MLE Eq. 3).
type observed struct{ own, all, factors []float64 }

func observe(t *testing.T, r *rundir.Run) observed {
	t.Helper()
	o := observed{make([]float64, 4), make([]float64, 4), make([]float64, 4)}
	tasks := map[string]string{}
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
		plan, _, err := shard.Read[shard.Instance](t.Context(), r.Dir.Plan(k), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range plan {
			tasks[row.InstanceID] = row.TaskID
		}
		batch, _, err := arrowfile.ReadBatch(t.Context(), r.Dir.Batch(k), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range batch {
			x := slices.Index(actions.ids, tasks[s.InstanceID])
			o.all[x]++
			o.factors[x] += s.TurnFactors[0]
			if int(s.IterationSampled) == k {
				o.own[x]++
			}
		}
	}
	return o
}

// gradient is Σ weight·A(x)·∇log π(x) by the logits of the policy over actions.
func gradient(weights []float64) []float64 {
	value := 0.0
	for x, p := range actions.policy {
		value += p * actions.reward[x]
	}
	g := make([]float64, len(weights))
	for x, w := range weights {
		for j, p := range actions.policy {
			score := -p
			if j == x {
				score++
			}
			g[j] += w * (actions.reward[x] - value) * score
		}
	}
	return g
}

// gradientOf is A(x)·∂log π(x) by the j-th logit, for each action.
func gradientOf(j int) []float64 {
	slopes := make([]float64, len(actions.ids))
	for x := range slopes {
		alone := make([]float64, len(slopes))
		alone[x] = 1
		slopes[x] = gradient(alone)[j]
	}
	return slopes
}

// mean is Σ share·value^power.
func mean(shares, values []float64, power float64) float64 {
	total := 0.0
	for i, v := range values {
		total += shares[i] * math.Pow(v, power)
	}
	return total
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}

func shares(counts []float64) []float64 {
	out := make([]float64, len(counts))
	for x := range counts {
		out[x] = counts[x] / sum(counts)
	}
	return out
}

func words(values []float64) string {
	var parts []string
	for _, v := range values {
		parts = append(parts, fmt.Sprintf("%.3f", v))
	}
	return strings.Join(parts, " ")
}

// completed is the expected number of each action that a worker completes in a
// budget of whole seconds, when it takes the next whenever it is free: it starts one
// at second t with probability m(t) = Σ π(x)·m(t - Δt), m(0) = 1.
func completed(budget int) []float64 {
	starts, expected := make([]float64, budget+1), make([]float64, len(actions.ids))
	starts[0] = 1
	for t := range budget + 1 {
		for x, p := range actions.policy {
			if seconds := int(actions.seconds[x]); t >= seconds {
				starts[t] += p * starts[t-seconds]
				expected[x] += p * starts[t-seconds]
			}
		}
	}
	return expected
}

// TestCloseAfterByDeclaredTime: iterations that are closed after 20 s, on four
// workers, observe short actions more often (RL-MLE §3.1), as often as theory has it of actions
// that are lost when they are late. What is late and carried is observed in the end,
// and the shares of the run are the policy's. All within four standard errors.
//
// go test ./pkg/run -run TestCloseAfter -v prints the numbers.
func TestCloseAfterByDeclaredTime(t *testing.T) {
	const workers, budget = 4, 20
	truth := gradient(actions.policy)
	for _, c := range []struct {
		late                string
		prompts, iterations int
		want                []float64 // shares of the run
	}{
		{recipe.LateDrop, 64, 12, shares(completed(budget))},
		{recipe.LateCarry, 20, 20, actions.policy},
	} {
		r := actionRun(t, fmt.Sprintf("rollout.prompts=%d", c.prompts), fmt.Sprintf("rollout.shards=%d", c.prompts), fmt.Sprintf("schedule.iterations=%d", c.iterations),
			fmt.Sprintf("schedule.close_after_seconds=%d.5", budget), "schedule.late="+c.late)
		launcher := newDeclaredTime(t, r, workers)
		driver := &drive.Driver{
			Run: r, Launcher: launcher, Attempt: seal.AttemptFromEnv(), Version: "test", Watch: launcher.watch, Wake: launcher.wake,
			Clock: survey.Clock{
				Now:   func() time.Time { return launcher.now },
				Began: func(_ context.Context, k int) (time.Time, error) { return launcher.began[k], nil },
			},
		}
		if err := driver.Drive(t.Context()); err != nil {
			t.Fatal(err)
		}
		ledger := runtest.Exact(t, r)
		o := observe(t, r)
		got := shares(o.all)
		for x, want := range c.want {
			deviation := math.Sqrt(want * (1 - want) / sum(o.all))
			slack := 4 * deviation
			if c.late == recipe.LateCarry {
				slack += float64(ledger.Dropped["run_ended"]) / sum(o.all)
			}
			if math.Abs(got[x]-want) > slack {
				t.Errorf("%s: share of action %d: %.4f, want %.4f within %.4f", c.late, x, got[x], want, slack)
			}
		}
		for j, want := range gradient(c.want) {
			slopes := gradientOf(j)
			deviation := math.Sqrt(max(0, mean(c.want, slopes, 2)-want*want) / sum(o.all))
			if g := gradient(got)[j]; c.late == recipe.LateDrop && math.Abs(g-want) > 4*deviation {
				t.Errorf("gradient %d: %.5f, want %.5f within %.5f", j, g, want, 4*deviation)
			}
		}
		if fast := shares(o.own)[0]; fast < actions.policy[0]+.05 {
			t.Errorf("%s: of what iterations observe of their own actions %.3f are fast: no bias", c.late, fast)
		}
		t.Logf("late: %s: %d of %d actions observed, clock %v\n  shares           %s  expected %s\n  of own iteration %s\n  cosine of the gradient with the true one: %.4f, with equation 3 %.4f",
			c.late, int(sum(o.all)), ledger.Planned, launcher.now.Sub(time.Unix(0, 0)), words(got), words(c.want), words(shares(o.own)),
			cosine(gradient(o.all), truth), cosine(gradient(o.factors), truth))
	}
}

// TestCloseAfterByRealTime: scores that really take their time. Those of 20 s at a
// twentieth of the pace never come within 0.6 s; with late: drop they are stopped,
// and every planned response has a disposition.
func TestCloseAfterByRealTime(t *testing.T) {
	r := actionRun(t, "env.sleep=0.05", "rollout.prompts=24", "rollout.shards=24", "schedule.iterations=4", "schedule.close_after_seconds=0.6", "schedule.late=drop")
	launcher := runtest.LauncherOf(t, r)
	late := 0
	if err := launcher.Drive(func(p drive.Progress) {
		if p.Event == "late" {
			late++
		}
		if p.Event != "done" || p.Task.Node != runtest.Node(graph.StageLearn, 1) {
			return
		}
		s, err := status.Read(t.Context(), r, &advance.Seen{}, nil)
		if err != nil {
			t.Error(err)
		}
		for _, stage := range s.Stages { // of one iteration nothing waits, of three everything
			if stage.Stage == graph.StageRollout && stage.Pending != 3*24 {
				t.Errorf("once iteration 1 is closed and learned from, %d rollouts wait, want 72", stage.Pending)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	ledger, o := runtest.Exact(t, r), observe(t, r)
	if o.all[3] != 0 || o.all[0] == 0 || late == 0 || ledger.Dropped["late"] == 0 || ledger.Planned != ledger.Trained+ledger.Dropped["late"] {
		t.Errorf("observed %v, %d tasks stopped, ledger %+v", o.all, late, ledger)
	}
	t.Logf("shares %s of %d, policy %s", words(shares(o.all)), int(sum(o.all)), words(actions.policy))
}

// TestClosingsStay: what was decided is not decided again, also when its record is
// lost, and a run whose process ends between goes on to its end.
func TestClosingsStay(t *testing.T) {
	for _, late := range []string{recipe.LateDrop, recipe.LateCarry} {
		r := actionRun(t, "env.sleep=0.02", "rollout.prompts=12", "rollout.shards=12", "schedule.iterations=3", "schedule.close_after_seconds=0.15", "schedule.late="+late)
		launcher := runtest.LauncherOf(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		driver := &drive.Driver{Run: r, Launcher: launcher, Attempt: seal.AttemptFromEnv(), Version: "test", Watch: func(p drive.Progress) {
			if p.Task.Iteration == 2 && p.Task.Stage == graph.StageScore && p.Event == "done" {
				cancel()
			}
		}}
		if err := driver.Drive(ctx); err == nil {
			t.Fatal("the driver was not stopped")
		}
		before, err := closing.Read(t.Context(), r.Dir, 1, seal.Options{})
		if err != nil || len(before.Late) == 0 {
			t.Fatalf("iteration 1 was closed with %+v (%v)", before, err)
		}
		if err := seal.Remove(r.Dir.Close(1)); err != nil {
			t.Fatal(err)
		}
		runtest.Repair(t, r, launcher)
		runtest.Exact(t, r)
		after, err := closing.Read(t.Context(), r.Dir, 1, seal.Options{})
		if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("late: %s: iteration 1 was closed with %+v, and now with %+v (%v)", late, before, after, err)
		}
		result, err := verify.Verify(t.Context(), r)
		if err != nil || len(result.Faults) > 0 {
			t.Errorf("late: %s: %+v (%v)", late, result.Faults, err)
		}
	}
}
