package status

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestConclude: the evidence is weighed in order: what is sealed, what nobody could submit, a
// driver that lives, what Slurm says, and how the last driver ended. A pause is added to all
// but the end.
func TestConclude(t *testing.T) {
	t.Parallel()
	task := func(shard int, says string) map[graph.Task]string {
		return map[graph.Task]string{{Node: runtest.Node(graph.StageScore, 1), Shard: shard}: says}
	}
	now := time.Now().UTC()
	lives := &Heartbeat{Executor: "local", Host: "n9", Beat: now.Add(time.Hour)} // by a clock that is ahead
	silent := &Heartbeat{Executor: "local", Host: "n9", Beat: time.Unix(1000, 0).UTC()}
	failed := &Heartbeat{Executor: "local", Host: "n9", Beat: time.Unix(1000, 0).UTC(), Ended: true, Failure: "the disk burnt"}
	stopped := &Heartbeat{Executor: "local", Host: "n9", Beat: time.Unix(1000, 0).UTC(), Ended: true}
	stuck := &advance.Stuck{Message: "no such queue", Host: "n3", Time: time.Unix(2000, 0)}
	const words = "the last lathe advance, on n3, could not submit what is ready: no such queue"
	paused := &rundir.Pause{By: "me", Since: time.Unix(0, 0).UTC()}
	const resumes = "paused by me at 1970-01-01T00:00:00Z, the command that started the run resumes it"
	for _, c := range []struct {
		what      string
		beat      *Heartbeat
		stuck     *advance.Stuck
		submitted bool
		pause     *rundir.Pause
		done      bool
		seen      advance.Seen
		err       error
		want      State
		executor  string
		evidence  string // RUN stands for the folder
	}{
		{what: "nothing", want: StatePending, evidence: "nothing runs; resume with: lathe run --run RUN"},
		{what: "submitted, and nothing is left", submitted: true, want: StatePending, executor: "slurm", evidence: "nothing is in the queue; resume with: lathe advance RUN"},
		{what: "done", done: true, beat: lives, stuck: stuck, pause: paused, seen: advance.Seen{Running: task(0, "x")}, want: StateDone, executor: "local", evidence: "every goal is sealed"},
		{what: "stuck", stuck: stuck, want: StateStuck, evidence: words + "; when the cause is fixed: lathe advance RUN"},
		{what: "stuck, and a gate waits", stuck: stuck, seen: advance.Seen{Gates: 1}, want: StateStuck, evidence: words + "; 1 controller job waiting to try again; when the cause is fixed: lathe advance RUN"},
		{what: "stuck before Slurm fell silent", stuck: stuck, err: errors.New("x"), want: StateStuck, evidence: words + "; when the cause is fixed: lathe advance RUN"},
		{what: "stuck, with a task in the queue", stuck: stuck, seen: advance.Seen{Pending: task(0, "x")}, want: StatePending, evidence: "1 task and 0 controller jobs in the queue; " + words},
		{what: "stuck, with a task that runs", stuck: stuck, seen: advance.Seen{Running: task(0, "x")}, want: StateRunning, evidence: "1 task running, 0 in the queue; " + words},
		{what: "stuck until a driver went on", stuck: stuck, beat: lives, submitted: true, want: StateRunning, executor: "local", evidence: "the driver on n9 showed life 0s ago"},
		{what: "stuck after a driver had ended", stuck: stuck, beat: failed, want: StateStuck, executor: "local", evidence: words + "; when the cause is fixed: lathe advance RUN"},
		{what: "stuck when a driver beat last", stuck: &advance.Stuck{Message: "no such queue", Host: "n3", Time: time.Unix(1000, 0)}, beat: stopped, want: StateStuck, executor: "local", evidence: words + "; when the cause is fixed: lathe advance RUN"},
		{what: "stuck before a driver ended", stuck: &advance.Stuck{Message: "x", Time: time.Unix(999, 0)}, beat: failed, want: StateFailed, executor: "local", evidence: "the disk burnt"},
		{what: "Slurm is silent", err: errors.New("x"), seen: advance.Seen{Running: task(0, "x")}, want: StateUnknown, evidence: "Slurm was asked about the submitted jobs and did not answer: x"},
		{what: "some run", seen: advance.Seen{Running: task(0, "x"), Pending: task(1, "x"), Failed: task(2, "x")}, want: StateRunning, evidence: "1 task running, 1 in the queue"},
		{what: "a gate", seen: advance.Seen{Gates: 2, Failed: task(2, "x")}, want: StatePending, evidence: "0 tasks and 2 controller jobs in the queue"},
		{what: "failed", beat: stopped, submitted: true, seen: advance.Seen{Failed: task(2, "exit code 1"), Fallen: "x"}, want: StateFailed, executor: "slurm", evidence: "score-000001-00002: exit code 1"},
		{what: "a gate fell", seen: advance.Seen{Fallen: "job 8 ended", Unknown: task(0, "x")}, want: StateStuck, evidence: "job 8 ended; see lathe logs RUN --stage gate; when the cause is fixed: lathe advance RUN"},
		{what: "unknown", beat: failed, seen: advance.Seen{Unknown: task(3, "no job")}, want: StateUnknown, executor: "local", evidence: "score-000001-00003: no job"},
		{what: "silent", beat: silent, want: StateUnknown, executor: "local", evidence: "the driver on n9 was last seen 1970-01-01T00:16:40Z"},
		{what: "ended", beat: stopped, want: StatePending, executor: "local", evidence: "nothing runs; resume with: lathe run --run RUN"},
		{what: "paused", pause: paused, want: StatePending, evidence: "nothing runs; " + resumes},
		{what: "paused while tasks run", pause: paused, seen: advance.Seen{Running: task(0, "x")}, want: StateRunning, evidence: "1 task running, 0 in the queue; " + resumes},
	} {
		r := runtest.NewBoard(t, "schedule.iterations=1").Run()
		if err := os.MkdirAll(r.Dir.Join("jobs", "submitted"), 0o777); err != nil {
			t.Fatal(err)
		}
		leaves := func(name string, v any, there bool) {
			content, err := json.Marshal(v)
			if there && err == nil {
				err = os.WriteFile(filepath.Join(r.Dir.Jobs(), name), content, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		leaves("driver.json", c.beat, c.beat != nil)
		leaves("stuck.json", c.stuck, c.stuck != nil)
		leaves("paused.json", c.pause, c.pause != nil)
		leaves("submitted/rollout-000001.0.json", struct{}{}, c.submitted)
		var s Status
		s.conclude(r, survey.Result{Done: c.done}, &c.seen, c.err)
		evidence := strings.ReplaceAll(s.Evidence, string(r.Dir), "RUN")
		if s.State != c.want || evidence != c.evidence || s.Executor != c.executor || (s.Paused != "") != (c.pause != nil && !c.done) {
			t.Errorf("%s: %s by %q, %q, paused %q; want %s by %q, %q", c.what, s.State, s.Executor, evidence, s.Paused, c.want, c.executor, c.evidence)
		}
	}
}

// TestStages: how the tasks of a stage are counted, of a run of one iteration with four
// shards of rollouts, and none of what the run has not.
func TestStages(t *testing.T) {
	t.Parallel()
	rollout := runtest.Node(graph.StageRollout, 1)
	of := func(shards ...int) map[graph.Task]string {
		says := map[graph.Task]string{}
		for _, shard := range shards {
			says[graph.Task{Node: rollout, Shard: shard}] = "says"
		}
		return says
	}
	for _, c := range []struct {
		what   string
		sealed []int
		left   []int // of these the iteration was closed without
		late   []int
		seen   advance.Seen
		done   bool
		want   StageStatus
	}{
		{what: "nothing", want: StageStatus{State: StatePending, Evidence: "0 of 4 sealed", Pending: 4}},
		{what: "one of each", sealed: []int{0}, seen: advance.Seen{Running: of(1), Failed: of(2), Unknown: of(3)}, want: StageStatus{State: StateFailed, Evidence: "says", Done: 1, Running: 1, Failed: 1, Unknown: 1}},
		{what: "failed counts before running", seen: advance.Seen{Running: of(1, 2), Failed: of(1)}, want: StageStatus{State: StateFailed, Evidence: "says", Running: 1, Failed: 1, Pending: 2}},
		{what: "running counts before unknown", sealed: []int{0, 1}, seen: advance.Seen{Running: of(2), Unknown: of(2, 3)}, want: StageStatus{State: StateRunning, Evidence: "says", Done: 2, Running: 1, Unknown: 1}},
		{what: "unknown", seen: advance.Seen{Unknown: of(3), Pending: of(1)}, want: StageStatus{State: StateUnknown, Evidence: "says", Unknown: 1, Pending: 3}},
		{what: "pending counts before unknown", seen: advance.Seen{Unknown: of(1), Pending: of(1)}, want: StageStatus{State: StatePending, Evidence: "says", Pending: 4}},
		{what: "sealed counts before all", sealed: []int{0, 1, 2, 3}, seen: advance.Seen{Unknown: of(0), Running: of(2)}, want: StageStatus{State: StateDone, Evidence: "every output is sealed", Done: 4}},
		{what: "left out and late", sealed: []int{1}, left: []int{0}, late: []int{2}, seen: advance.Seen{Running: of(2)}, want: StageStatus{State: StatePending, Evidence: "1 of 4 sealed", Done: 3, Pending: 1}},
		{what: "missing of a run that is done", sealed: []int{0}, done: true, seen: advance.Seen{Failed: of(3)}, want: StageStatus{State: StateDone, Evidence: "every output is sealed", Done: 4}},
	} {
		b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=4", "schedule.oversample=2", "schedule.late=drop", "schedule.quorum=0.25")
		if len(c.sealed) > 0 {
			b.Seal(rollout, c.sealed...)
		}
		if c.left != nil {
			closed := closing.Closing{Iteration: 1, Shards: 4, Included: c.sealed, Late: c.late, LeftOut: c.left, Carried: []closing.Ref{}}
			if err := closing.Seal(b.Run(), closed, seal.AttemptFromEnv(), "test"); err != nil {
				t.Fatal(err)
			}
			c.want.Evidence = "3 of 4 sealed"
			// No other stage is left out.
			if st, _ := stageStatus(t.Context(), b.Run(), b.Surveyor.Inventory, survey.Result{}, graph.StageBuffer, &c.seen); st.Done != 0 || st.Pending != 2 {
				t.Errorf("%s: plans %+v", c.what, st)
			}
		}
		c.want.Stage, c.want.Total = graph.StageRollout, 4
		got, ok := stageStatus(t.Context(), b.Run(), b.Surveyor.Inventory, survey.Result{Done: c.done}, graph.StageRollout, &c.seen)
		if diff := cmp.Diff(c.want, got); diff != "" || !ok {
			t.Errorf("%s: %v (-want +got):\n%s", c.what, ok, diff)
		}
		if st, ok := stageStatus(t.Context(), b.Run(), b.Surveyor.Inventory, survey.Result{}, graph.StageGradient, &c.seen); ok {
			t.Errorf("%s: of no gradients: %+v", c.what, st)
		}
	}
	// Of a run that is done one output of learning is lost: whatever needs it was made.
	b := runtest.NewBoard(t, "schedule.iterations=3")
	b.Seal(runtest.Node(graph.StageLearn, 1))
	b.Seal(runtest.Node(graph.StageLearn, 3))
	want := StageStatus{Stage: graph.StageLearn, State: StateDone, Evidence: "2 of 3 sealed; nothing still to be done needs what is missing: see lathe verify", Total: 3, Done: 2}
	got, _ := stageStatus(t.Context(), b.Run(), b.Surveyor.Inventory, survey.Result{Done: true}, graph.StageLearn, &advance.Seen{Failed: map[graph.Task]string{{Node: runtest.Node(graph.StageLearn, 2)}: "x"}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a lost version (-want +got):\n%s", diff)
	}
	// Of two shards the traces of the first go on in a second wave, and the run has no third.
	b = runtest.NewBoard(t, "schedule.iterations=1")
	waves := runtest.LoadOf(t, "mle-smoke", "env.max_turns=3").Recipe
	b.Recipe.Env, b.Recipe.Data = waves.Env, waves.Data
	b.Surveyor = survey.New(b.Graph)
	b.Seal(rollout)
	for n := range 2 {
		task := graph.Task{Node: rollout.Judging(), Shard: n}
		m := b.Expected(task)
		m.Metrics = map[string]float64{shard.MetricWaiting: float64(1 - n)}
		if _, err := seal.WriteBytes(b.Outputs(task)[0], nil, seal.AttemptFromEnv(), m); err != nil {
			t.Fatal(err)
		}
	}
	want = StageStatus{Stage: graph.StageRollout, State: StatePending, Evidence: "2 of 3 sealed", Total: 3, Done: 2, Pending: 1}
	if got, _ := stageStatus(t.Context(), b.Run(), b.Surveyor.Inventory, survey.Result{}, graph.StageRollout, &advance.Seen{}); got != want {
		t.Errorf("waves: %+v, want %+v", got, want)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if st, ok := stageStatus(over, b.Run(), b.Surveyor.Inventory, survey.Result{}, graph.StageLearn, &advance.Seen{}); ok {
		t.Errorf("counted although nobody waits: %+v", st)
	}
}

// TestReadCounts: how many iterations are learned, which stages the run has, and who waits,
// which nobody does once the run is done.
func TestReadCounts(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=2", "loss.kl.coef=0")
	read := func() Status {
		t.Helper()
		s, err := Read(t.Context(), b.Run(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stages := func(s Status) (names []string) {
		for _, st := range s.Stages {
			names = append(names, string(st.Stage))
		}
		return names
	}
	rundir.WriteWait(b.Dir, graph.Task{Node: runtest.Node(graph.StageScore, 1)}, seal.Attempt{Host: "n1"}, rundir.Wait{Message: "slow", Time: time.Now()})
	s := read()
	if diff := cmp.Diff([]string{"warm", "buffer", "rollout", "score", "learn"}, stages(s)); diff != "" || s.Learned != 0 || len(s.Waits) != 1 || s.Mix != "" {
		t.Errorf("%+v; stages (-want +got):\n%s", s, diff)
	}
	for k := 0; k <= 2; k++ {
		for _, n := range b.Nodes() {
			if n.Iteration <= k || n.Stage == graph.StageWarm {
				b.Seal(n)
				b.Close()
			}
		}
		if s := read(); s.Learned != k || len(s.Waits) != map[bool]int{false: 1, true: 0}[k == 2] || (s.State == StateDone) != (k == 2) {
			t.Errorf("%d learned: %+v", k, s)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(over, b.Run(), nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for it: %v", err)
	}
}

// TestPrint: the whole table.
func TestPrint(t *testing.T) {
	t.Parallel()
	s := Status{
		Run: "/run", RunID: "run-1", State: StateRunning, Evidence: "it lives", Iterations: 2, Learned: 1, Lineage: []string{"started from x"}, Mix: "a, b",
		Stages: []StageStatus{{Stage: graph.StageScore, State: StateFailed, Evidence: "damaged", Total: 21, Done: 1, Running: 2, Pending: 3, Failed: 4, Unknown: 5}},
		Waits:  []rundir.Wait{{Task: "score-000001-00000", Host: "n1", Message: "slow"}}, Sandboxes: []string{"bubblewrap"}, Warnings: []string{"no room"},
	}
	want := `/run (run-1): running, 1 of 2 iterations learned
  it lives
  started from x
  environments: a, b
STAGE  STATE   DONE  RUNNING  PENDING  FAILED  UNKNOWN  EVIDENCE
score  failed  1/21  2        3        4       5        damaged
score-000001-00000 waits on n1: slow
programs ran under: bubblewrap
warning: no room
`
	var got strings.Builder
	if err := s.Print(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
