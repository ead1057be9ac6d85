package run_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/run"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// board is a run folder whose files are sealed by name alone: the planner
// reads manifests, never rows.
type board struct {
	t *testing.T
	run.Graph
	planner *run.Planner
}

func newBoard(t *testing.T, settings ...string) *board {
	g := run.Graph{Dir: run.Dir(t.TempDir()), Recipe: load(t, append([]string{"warm_start.chunk=300"}, settings...)...).Recipe}
	if !strings.Contains(strings.Join(settings, " "), "evaluation.") {
		g.Recipe.Evaluation.Problems = 0
	}
	return &board{t, g, run.NewPlanner(g)}
}

func node(stage run.Stage, k int) run.Node { return run.Node{Stage: stage, Iteration: k} }

// seal makes the outputs of shards of a node; of all when none is named.
func (b *board) seal(n run.Node, shards ...int) {
	b.t.Helper()
	if len(shards) == 0 {
		for shard := range b.Shards(n) {
			shards = append(shards, shard)
		}
	}
	for _, shard := range shards {
		for _, path := range b.Outputs(run.Task{Node: n, Shard: shard}) {
			if _, err := seal.WriteBytes(path, []byte(path), seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

func (b *board) survey() run.Survey {
	b.t.Helper()
	s, err := b.planner.Survey(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// close seals the closings that a survey found.
func (b *board) close() []run.Closing {
	b.t.Helper()
	closable := b.survey().Closable
	for _, c := range closable {
		if err := run.SealClosing(&run.Run{Dir: b.Dir, Recipe: b.Recipe}, c, seal.AttemptFromEnv(), "test"); err != nil {
			b.t.Fatal(err)
		}
	}
	return closable
}

func (b *board) ready(want ...string) {
	b.t.Helper()
	var got []string
	for _, task := range b.survey().Ready {
		got = append(got, task.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("ready (-want +got):\n%s", diff)
	}
}

// TestPlannerWalksARun follows one iteration from nothing to its end.
func TestPlannerWalksARun(t *testing.T) {
	b := newBoard(t, "schedule.iterations=1", "rollout.shards=3")
	b.ready("buffer-000000-00000", "warm-000001-00000")
	b.seal(node(run.StageBuffer, 0))
	b.ready("warm-000001-00000")
	b.seal(node(run.StageWarm, 1))
	b.ready("rollout-000001-00000", "rollout-000001-00001", "rollout-000001-00002")

	// A score waits for its own rollout only, and goes before rollouts.
	b.seal(node(run.StageRollout, 1), 2)
	b.ready("score-000001-00002", "rollout-000001-00000", "rollout-000001-00001")
	b.seal(node(run.StageScore, 1), 2)
	if closable := b.survey().Closable; len(closable) != 0 {
		t.Errorf("closable with one shard of three: %+v", closable)
	}
	b.seal(node(run.StageRollout, 1))
	b.seal(node(run.StageScore, 1))
	b.ready()
	want := []run.Closing{{Iteration: 1, Shards: 3, Included: []int{0, 1, 2}, Late: []int{}, LeftOut: []int{}, Carried: []run.CarriedRef{}}}
	if diff := cmp.Diff(want, b.close()); diff != "" {
		t.Errorf("closing (-want +got):\n%s", diff)
	}
	b.ready("buffer-000001-00000")
	b.seal(node(run.StageBuffer, 1))
	b.ready("learn-000001-00000")
	b.seal(node(run.StageLearn, 1))
	if s := b.survey(); !s.Done || len(s.Ready) != 0 {
		t.Errorf("everything is sealed, and the survey says %+v", s)
	}
}

// TestPlannerOverlapsIterations: with staleness 1 the rollouts of iteration 2
// may go while iteration 1 learns, and after everything of iteration 1.
func TestPlannerOverlapsIterations(t *testing.T) {
	for staleness, want := range map[string][]string{
		"0": {"rollout-000001-00001"},
		"1": {"rollout-000001-00001", "rollout-000002-00000", "rollout-000002-00001"},
	} {
		b := newBoard(t, "schedule.iterations=3", "schedule.staleness="+staleness)
		b.seal(node(run.StageBuffer, 0))
		b.seal(node(run.StageWarm, 1))
		b.seal(node(run.StageRollout, 1), 0)
		b.seal(node(run.StageScore, 1), 0)
		b.ready(want...)
	}
}

// TestUrgency: older iterations first, what is nearest to the learner first
// inside one, evaluations last.
func TestUrgency(t *testing.T) {
	b := newBoard(t, "schedule.iterations=3", "schedule.staleness=2", "rollout.shards=2", "evaluation.problems=16", "evaluation.shards=1")
	b.seal(node(run.StageBuffer, 0))
	b.seal(node(run.StageWarm, 1))
	for _, n := range []run.Node{node(run.StageRollout, 1), node(run.StageScore, 1)} {
		b.seal(n)
	}
	b.close()
	b.seal(node(run.StageBuffer, 1))
	b.seal(node(run.StageRollout, 2), 0)
	b.ready(
		"learn-000001-00000", "score-000002-00000", "rollout-000002-00001",
		"rollout-000003-00000", "rollout-000003-00001", "evaluate-000000-00000",
	)
}

// TestWhatIsGoneIsMadeAgain: the planner believes manifests, and a damaged
// file is as good as none.
func TestWhatIsGoneIsMadeAgain(t *testing.T) {
	b := newBoard(t, "schedule.iterations=1")
	b.seal(node(run.StageBuffer, 0))
	b.seal(node(run.StageWarm, 1))
	b.seal(node(run.StageRollout, 1))
	b.ready("score-000001-00000", "score-000001-00001")
	if err := os.Truncate(b.Dir.Rollout(1, 0), 1); err != nil {
		t.Fatal(err)
	}
	b.ready("score-000001-00000", "score-000001-00001") // sealed files do not change: they are looked at once
	b.planner = run.NewPlanner(b.Graph)
	b.ready("score-000001-00001", "rollout-000001-00000")
}

func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		quorum  string
		gaveUp  []int
		leftOut []int
		stuck   string
	}{
		{"1", nil, []int{}, ""},
		{"1", []int{2}, nil, "1 of 4 shards used up their attempts, more than schedule.quorum 1 allows"},
		{"0.75", []int{2}, []int{2}, ""},
		{"0.75", []int{2, 0}, nil, "2 of 4 shards used up their attempts, more than schedule.quorum 0.75 allows"},
		{"0.5", []int{2, 0}, []int{0, 2}, ""},
	} {
		b := newBoard(t, "schedule.iterations=1", "rollout.shards=4", "schedule.quorum="+c.quorum)
		b.seal(node(run.StageBuffer, 0))
		b.seal(node(run.StageWarm, 1))
		lost := map[int]bool{}
		for _, shard := range c.gaveUp {
			lost[shard] = true
		}
		for shard := range 4 {
			if !lost[shard] {
				b.seal(node(run.StageRollout, 1), shard)
				b.seal(node(run.StageScore, 1), shard)
			}
		}
		b.planner.GaveUp = func(task run.Task) bool { return task.Stage == run.StageRollout && lost[task.Shard] }
		s := b.survey()
		switch {
		case c.stuck != "":
			if len(s.Stuck) != 1 || s.Stuck[0].Reason != c.stuck || len(s.Closable) != 0 {
				t.Errorf("quorum %s without %v: stuck %+v, closable %+v", c.quorum, c.gaveUp, s.Stuck, s.Closable)
			}
		case len(s.Closable) != 1 || !cmp.Equal(s.Closable[0].LeftOut, c.leftOut):
			t.Errorf("quorum %s without %v: closable %+v, stuck %+v", c.quorum, c.gaveUp, s.Closable, s.Stuck)
		}
	}
}

// TestNoQuorumForDamage: a shard that failed because its input is damaged, or
// by our bug, is not left out, however low the quorum.
func TestNoQuorumForDamage(t *testing.T) {
	b := newBoard(t, "schedule.iterations=1", "rollout.shards=2", "schedule.quorum=0.1")
	b.seal(node(run.StageBuffer, 0))
	b.seal(node(run.StageWarm, 1))
	b.seal(node(run.StageRollout, 1), 0)
	b.seal(node(run.StageScore, 1), 0)
	b.planner.GaveUp = func(task run.Task) bool { return task.Shard == 1 }
	b.planner.Broken = b.planner.GaveUp
	if s := b.survey(); len(s.Closable) != 0 || len(s.Stuck) != 1 || !strings.Contains(s.Stuck[0].Reason, "would fail again") {
		t.Errorf("a broken shard: %+v", s)
	}
}

// TestGivenUpTasksAreStuck: everything but rollouts and scores is needed.
func TestGivenUpTasksAreStuck(t *testing.T) {
	b := newBoard(t, "schedule.iterations=1")
	b.planner.GaveUp = func(task run.Task) bool { return task.Stage == run.StageWarm }
	s := b.survey()
	if len(s.Stuck) != 1 || s.Stuck[0].Node != node(run.StageWarm, 1) || s.Stuck[0].Reason != "its attempts are used up" {
		t.Errorf("stuck %+v", s.Stuck)
	}
}

// TestOversampleClosesEarly: 8 of 16 planned rows are enough; what is late is
// still made, and carried into the iteration that finds it done.
func TestOversampleClosesEarly(t *testing.T) {
	b := newBoard(t, "schedule.iterations=2", "schedule.oversample=2", "rollout.shards=4")
	if got := b.PlanRows(); got != 16 {
		t.Fatalf("%d rows are planned, want 16", got)
	}
	b.seal(node(run.StageBuffer, 0))
	b.seal(node(run.StageWarm, 1))
	b.seal(node(run.StageRollout, 1), 1, 3)
	b.seal(node(run.StageScore, 1), 1)
	if closable := b.survey().Closable; len(closable) != 0 {
		t.Errorf("closable with 4 rows of 8: %+v", closable)
	}
	b.seal(node(run.StageScore, 1), 3)
	first := b.close()
	want := []run.Closing{{Iteration: 1, Shards: 4, Included: []int{1, 3}, Late: []int{0, 2}, LeftOut: []int{}, Carried: []run.CarriedRef{}}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first closing (-want +got):\n%s", diff)
	}
	// What is late goes before what is newer: else it would never be done.
	b.ready("buffer-000001-00000", "rollout-000001-00000", "rollout-000001-00002")
	b.seal(node(run.StageRollout, 1), 2)
	b.seal(node(run.StageScore, 1), 2)
	b.seal(node(run.StageBuffer, 1))
	b.seal(node(run.StageLearn, 1))
	b.seal(node(run.StageRollout, 2))
	b.seal(node(run.StageScore, 2), 0, 1)
	second := b.close()
	want = []run.Closing{{
		Iteration: 2, Shards: 4, Included: []int{0, 1}, Late: []int{2, 3}, LeftOut: []int{}, Carried: []run.CarriedRef{{Iteration: 1, Shard: 2}},
	}}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("the second closing (-want +got):\n%s", diff)
	}
	// The last iteration is closed: nothing is left to carry anything into.
	b.ready("buffer-000002-00000")
}

// TestJudge: what a failed attempt means for the next, by its cause.
func TestJudge(t *testing.T) {
	for cause, want := range map[executor.Cause]run.Retry{
		executor.CauseStopped: run.Again, executor.CausePreempted: run.Again, executor.CauseNodeFail: run.Again, executor.CauseCancelled: run.Again,
		executor.CauseUsage: run.Never, executor.CauseData: run.Never, executor.CauseUnavailable: run.Never, executor.CauseBug: run.Never,
		executor.CauseFailed: run.Counted, executor.CauseIO: run.Counted, executor.CauseTimeout: run.Counted,
		executor.CauseOutOfMemory: run.Counted, executor.CauseLaunchFailed: run.Counted, executor.CauseUnknown: run.Counted,
		executor.CauseOK: run.Counted, // it says that it is done, and its outputs are not there
	} {
		if got := run.Judge(cause); got != want {
			t.Errorf("after %s: %v, want %v", cause, got, want)
		}
	}
}

// TestSurveyReportsUnreadableManifests: a file that is there and cannot be
// read is not a file that is missing.
func TestSurveyReportsUnreadableManifests(t *testing.T) {
	b := newBoard(t, "schedule.iterations=1")
	b.seal(node(run.StageBuffer, 0))
	manifest := seal.ManifestPath(b.Dir.State(0))
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(manifest, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := b.planner.Survey(t.Context())
	if err == nil && len(s.Ready) == 0 {
		t.Errorf("a manifest that is a folder: no error, and nothing to do: %+v", s)
	}
}

// Two iterations that overlap become closable between two looks: a late shard
// is carried into the first of them alone.
func TestLateShardIsCarriedOnce(t *testing.T) {
	b := newBoard(t, "schedule.iterations=4", "schedule.staleness=1", "schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3")
	b.seal(node(run.StageBuffer, 0))
	b.seal(node(run.StageWarm, 1))
	b.seal(node(run.StageRollout, 1), 0, 2)
	b.seal(node(run.StageScore, 1), 0, 2)
	b.close()
	b.seal(node(run.StageBuffer, 1))
	b.seal(node(run.StageLearn, 1))
	b.seal(node(run.StageRollout, 1), 1)
	b.seal(node(run.StageScore, 1), 1)
	for k := 2; k <= 3; k++ {
		b.seal(node(run.StageRollout, k))
		b.seal(node(run.StageScore, k))
	}
	var carried []int
	for range 2 {
		for _, c := range b.close() {
			for range c.Carried {
				carried = append(carried, c.Iteration)
			}
		}
	}
	if !slices.Equal(carried, []int{2}) {
		t.Errorf("the late shard of iteration 1 is carried into %v", carried)
	}
	b.ready("buffer-000002-00000")
}

// The score of a late rollout that was given up is not to be done.
func TestLateRolloutThatGaveUp(t *testing.T) {
	b := newBoard(t, "schedule.iterations=4", "schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3")
	b.seal(node(run.StageBuffer, 0))
	b.seal(node(run.StageWarm, 1))
	b.seal(node(run.StageRollout, 1), 0, 2)
	b.seal(node(run.StageScore, 1), 0, 2)
	b.close()
	b.planner.GaveUp = func(t run.Task) bool { return t == run.Task{Node: node(run.StageRollout, 1), Shard: 1} }
	b.ready("buffer-000001-00000")
}
