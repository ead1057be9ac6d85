package survey_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestPlannerWalksARun follows one iteration from nothing to its end.
func TestPlannerWalksARun(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=3")
	b.Ready("buffer-000000-00000", "warm-000001-00000")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Ready("warm-000001-00000")
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Ready("rollout-000001-00000", "rollout-000001-00001", "rollout-000001-00002")

	// A score waits for its own rollout only, and goes before rollouts.
	b.Seal(runtest.Node(graph.StageRollout, 1), 2)
	b.Ready("score-000001-00002", "rollout-000001-00000", "rollout-000001-00001")
	b.Seal(runtest.Node(graph.StageScore, 1), 2)
	if closable := b.Survey().Closable; len(closable) != 0 {
		t.Errorf("closable with one shard of three: %+v", closable)
	}
	b.Seal(runtest.Node(graph.StageRollout, 1))
	b.Seal(runtest.Node(graph.StageScore, 1))
	b.Ready()
	want := []closing.Closing{{Iteration: 1, Shards: 3, Included: []int{0, 1, 2}, Late: []int{}, LeftOut: []int{}, Carried: []closing.Ref{}}}
	if diff := cmp.Diff(want, b.Close()); diff != "" {
		t.Errorf("closing (-want +got):\n%s", diff)
	}
	b.Ready("buffer-000001-00000")
	b.Seal(runtest.Node(graph.StageBuffer, 1))
	b.Ready("learn-000001-00000")
	b.Seal(runtest.Node(graph.StageLearn, 1))
	if s := b.Survey(); !s.Done || len(s.Ready) != 0 {
		t.Errorf("everything is sealed, and the survey says %+v", s)
	}
}

// TestPlannerOverlapsIterations: with staleness 1 the rollouts of iteration 2
// may go while iteration 1 learns, and after everything of iteration 1.
func TestPlannerOverlapsIterations(t *testing.T) {
	t.Parallel()
	for staleness, want := range map[string][]string{
		"0": {"rollout-000001-00001"},
		"1": {"rollout-000001-00001", "rollout-000002-00000", "rollout-000002-00001"},
	} {
		b := runtest.NewBoard(t, "schedule.iterations=3", "schedule.staleness="+staleness)
		b.Seal(runtest.Node(graph.StageBuffer, 0))
		b.Seal(runtest.Node(graph.StageWarm, 1))
		b.Seal(runtest.Node(graph.StageRollout, 1), 0)
		b.Seal(runtest.Node(graph.StageScore, 1), 0)
		b.Ready(want...)
	}
}

// TestUrgency: older iterations first, what is nearest to the learner first
// inside one, the evaluation of a version before the second iteration after it.
func TestUrgency(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=3", "schedule.staleness=2", "rollout.shards=2", "evaluation.problems=16", "evaluation.shards=1")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	for _, n := range []graph.Node{runtest.Node(graph.StageRollout, 1), runtest.Node(graph.StageScore, 1)} {
		b.Seal(n)
	}
	b.Close()
	b.Seal(runtest.Node(graph.StageBuffer, 1))
	b.Seal(runtest.Node(graph.StageRollout, 2), 0)
	b.Ready(
		"learn-000001-00000", "evalplan-000000-00000", "score-000002-00000", "rollout-000002-00001",
		"rollout-000003-00000", "rollout-000003-00001",
	)
	b.Seal(runtest.Node(graph.StageEvalPlan, 0))
	b.Seal(runtest.Node(graph.StageLearn, 1))
	b.Seal(runtest.Node(graph.StageRollout, 2))
	b.Seal(runtest.Node(graph.StageScore, 2))
	b.Seal(runtest.Node(graph.StageRollout, 3))
	b.Seal(runtest.Node(graph.StageScore, 3))
	b.Ready("evalrollout-000000-00000")
}

// TestWhatIsGoneIsMadeAgain: the surveyor believes manifests, and a damaged
// file is as good as none.
func TestWhatIsGoneIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Seal(runtest.Node(graph.StageRollout, 1))
	b.Ready("score-000001-00000", "score-000001-00001")
	if err := os.Truncate(b.Dir.Rollout(1, 0), 1); err != nil {
		t.Fatal(err)
	}
	b.Ready("score-000001-00000", "score-000001-00001") // sealed files do not change: they are looked at once
	b.Surveyor = survey.New(b.Graph)
	b.Ready("score-000001-00001", "rollout-000001-00000")
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quorum  string
		gaveUp  []int
		leftOut []int
		stuck   string
	}{
		{"1", nil, []int{}, ""},
		{"1", []int{2}, nil, "1 of 4 shards used up all attempts, more than schedule.quorum 1 allows"},
		{"0.75", []int{2}, []int{2}, ""},
		{"0.75", []int{2, 0}, nil, "2 of 4 shards used up all attempts, more than schedule.quorum 0.75 allows"},
		{"0.5", []int{2, 0}, []int{0, 2}, ""},
	} {
		b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=4", "schedule.quorum="+c.quorum)
		b.Seal(runtest.Node(graph.StageBuffer, 0))
		b.Seal(runtest.Node(graph.StageWarm, 1))
		lost := map[int]bool{}
		for _, shard := range c.gaveUp {
			lost[shard] = true
		}
		for shard := range 4 {
			if !lost[shard] {
				b.Seal(runtest.Node(graph.StageRollout, 1), shard)
				b.Seal(runtest.Node(graph.StageScore, 1), shard)
			}
		}
		b.Surveyor.GaveUp = func(task graph.Task) bool { return task.Stage == graph.StageRollout && lost[task.Shard] }
		s := b.Survey()
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
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=2", "schedule.quorum=0.1")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Seal(runtest.Node(graph.StageRollout, 1), 0)
	b.Seal(runtest.Node(graph.StageScore, 1), 0)
	b.Surveyor.GaveUp = func(task graph.Task) bool { return task.Shard == 1 }
	b.Surveyor.Broken = b.Surveyor.GaveUp
	if s := b.Survey(); len(s.Closable) != 0 || len(s.Stuck) != 1 || !strings.Contains(s.Stuck[0].Reason, "would fail again") {
		t.Errorf("a broken shard: %+v", s)
	}
}

// TestGivenUpTasksAreStuck: everything but rollouts and scores is needed.
func TestGivenUpTasksAreStuck(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1")
	b.Surveyor.GaveUp = func(task graph.Task) bool { return task.Stage == graph.StageWarm }
	s := b.Survey()
	if len(s.Stuck) != 1 || s.Stuck[0].Node != runtest.Node(graph.StageWarm, 1) || s.Stuck[0].Reason != "its attempts are used up" {
		t.Errorf("stuck %+v", s.Stuck)
	}
}

// TestOversampleClosesEarly: 8 of 16 planned rows are enough; what is late is
// still made, and carried into the iteration that finds it done.
func TestOversampleClosesEarly(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=2", "schedule.oversample=2", "rollout.shards=4")
	if got := b.PlanRows(); got != 16 {
		t.Fatalf("%d rows are planned, want 16", got)
	}
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Seal(runtest.Node(graph.StageRollout, 1), 1, 3)
	b.Seal(runtest.Node(graph.StageScore, 1), 1)
	if closable := b.Survey().Closable; len(closable) != 0 {
		t.Errorf("closable with 4 rows of 8: %+v", closable)
	}
	b.Seal(runtest.Node(graph.StageScore, 1), 3)
	first := b.Close()
	want := []closing.Closing{{Iteration: 1, Shards: 4, Included: []int{1, 3}, Late: []int{0, 2}, LeftOut: []int{}, Carried: []closing.Ref{}}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first closing (-want +got):\n%s", diff)
	}
	// What is late goes before what is newer: else it would never be done.
	b.Ready("buffer-000001-00000", "rollout-000001-00000", "rollout-000001-00002")
	b.Seal(runtest.Node(graph.StageRollout, 1), 2)
	b.Seal(runtest.Node(graph.StageScore, 1), 2)
	b.Seal(runtest.Node(graph.StageBuffer, 1))
	b.Seal(runtest.Node(graph.StageLearn, 1))
	b.Seal(runtest.Node(graph.StageRollout, 2))
	b.Seal(runtest.Node(graph.StageScore, 2), 0, 1)
	second := b.Close()
	want = []closing.Closing{{
		Iteration: 2, Shards: 4, Included: []int{0, 1}, Late: []int{2, 3}, LeftOut: []int{}, Carried: []closing.Ref{{Iteration: 1, Shard: 2}},
	}}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("the second closing (-want +got):\n%s", diff)
	}
	// The last iteration is closed: nothing is left to carry anything into.
	b.Ready("buffer-000002-00000")
}

// TestSurveyReportsUnreadableManifests: a file that is there and cannot be
// read is not a file that is missing.
func TestSurveyReportsUnreadableManifests(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	manifest := seal.ManifestPath(b.Dir.State(0))
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(manifest, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := b.Surveyor.Survey(t.Context())
	if err == nil && len(s.Ready) == 0 {
		t.Errorf("a manifest that is a folder: no error, and nothing to do: %+v", s)
	}
}

// Two iterations that overlap become closable between two looks: a late shard
// is carried into the first of them alone.
func TestLateShardIsCarriedOnce(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=4", "schedule.staleness=1", "schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Seal(runtest.Node(graph.StageRollout, 1), 0, 2)
	b.Seal(runtest.Node(graph.StageScore, 1), 0, 2)
	b.Close()
	b.Seal(runtest.Node(graph.StageBuffer, 1))
	b.Seal(runtest.Node(graph.StageLearn, 1))
	b.Seal(runtest.Node(graph.StageRollout, 1), 1)
	b.Seal(runtest.Node(graph.StageScore, 1), 1)
	for k := 2; k <= 3; k++ {
		b.Seal(runtest.Node(graph.StageRollout, k))
		b.Seal(runtest.Node(graph.StageScore, k))
	}
	var carried []int
	for range 2 {
		for _, c := range b.Close() {
			for range c.Carried {
				carried = append(carried, c.Iteration)
			}
		}
	}
	if !slices.Equal(carried, []int{2}) {
		t.Errorf("the late shard of iteration 1 is carried into %v", carried)
	}
	b.Ready("buffer-000002-00000")
}

// The score of a late rollout that was given up is not to be done.
func TestLateRolloutThatGaveUp(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=4", "schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Seal(runtest.Node(graph.StageRollout, 1), 0, 2)
	b.Seal(runtest.Node(graph.StageScore, 1), 0, 2)
	b.Close()
	b.Surveyor.GaveUp = func(t graph.Task) bool { return t == graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 1} }
	b.Ready("buffer-000001-00000")
}
