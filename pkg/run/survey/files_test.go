package survey_test

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// A node that leaves no outputs, as a controller job, is never taken for done.
func TestNodeWithoutOutputs(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t)
	v := survey.NewInventory(b.Graph)
	task := graph.Task{Node: graph.Node{Stage: "gate"}}
	if done, err := v.Made(t.Context(), task); done || err != nil {
		t.Errorf("done %v, %v", done, err)
	}
}

// TestWhatIsNotLookedAt: what was seen is believed until it is forgotten, and a run that is
// told what is sealed believes no file.
func TestWhatIsNotLookedAt(t *testing.T) {
	t.Parallel()
	b, is := iterated(t, 1, "schedule.iterations=2"), value[bool](t)
	closed := func(v *survey.Inventory) bool {
		_, known, err := v.Closing(t.Context(), 1)
		return is(known, err)
	}
	learned, rollout := graph.Task{Node: runtest.Node(graph.StageLearn, 1)}, graph.Task{Node: runtest.Node(graph.StageRollout, 1)}
	closes, scores := graph.Task{Node: runtest.Node(graph.StageClose, 1)}, runtest.Node(graph.StageScore, 1)
	told := survey.NewTold(b.Graph)
	if is(told.Sealed(t.Context(), learned)) || is(told.Made(t.Context(), learned)) || closed(told) {
		t.Error("one that is told looks at files")
	}
	v, late := survey.NewInventory(b.Graph), survey.NewInventory(b.Graph)
	if !is(v.Sealed(t.Context(), learned)) || !is(v.Sealed(t.Context(), rollout)) || !is(late.Sealed(t.Context(), closes)) || !closed(v) {
		t.Fatal("it is there")
	}
	for _, path := range append(b.Outputs(learned), b.Outputs(rollout)[0], b.Dir.Close(1)) {
		must.Do(t, seal.Remove(path))
	}
	must.Do(t, os.RemoveAll(b.Dir.Join("iter/000001/score")))
	if !is(v.Recheck(t.Context(), learned)) || !closed(v) || closed(late) || is(late.Sealed(t.Context(), graph.Task{Node: scores})) {
		t.Error("after the removal: what was read is known, and what was listed is not there")
	}
	v.Forget(learned.Node)
	if is(v.Sealed(t.Context(), learned)) || is(v.Recheck(t.Context(), learned)) || v.Done(learned.Node) {
		t.Error("it was forgotten")
	}
	b.Seal(learned.Node)
	if v.Forget(runtest.Node(graph.StageWarm, 1)); !is(v.Recheck(t.Context(), learned)) {
		t.Error("it is there again")
	}
	// A batch whose data is gone says nothing of what it was made from: it is decided again.
	for _, remove := range []func() error{
		func() error { return os.Remove(b.Dir.Batch(1)) }, func() error { return seal.Remove(b.Dir.Ledger(1)) },
		func() error { return seal.Remove(b.Dir.State(1)) }, func() error { return os.RemoveAll(string(b.Dir.Policy(1))) },
	} {
		must.Do(t, remove())
	}
	b.Seal(rollout.Node)
	b.Seal(scores)
	b.Surveyor = survey.New(b.Graph)
	if got := b.Close(); len(got) != 1 || !slices.Equal(got[0].Included, []int{0, 1}) {
		t.Errorf("closed with %+v", got)
	}
}

// TestFoldersThatAreFiles: what cannot be listed is not what is missing, whatever is asked.
func TestFoldersThatAreFiles(t *testing.T) {
	t.Parallel()
	b := iterated(t, 0, "schedule.iterations=2", "warm_start.chunk=100", "schedule.oversample=2", "schedule.late=drop")
	for _, folder := range []string{"iter/000001", "eval", "policy"} {
		must.Do(t, errors.Join(os.RemoveAll(b.Dir.Join(folder)), os.WriteFile(b.Dir.Join(folder), nil, 0o666)))
	}
	task := func(stage graph.Stage) graph.Task { return graph.Task{Node: runtest.Node(stage, 1)} }
	score := task(graph.StageScore)
	for name, ask := range map[string]func(v *survey.Inventory) (bool, error){
		"sealed":  func(v *survey.Inventory) (bool, error) { return v.Sealed(t.Context(), score) },
		"recheck": func(v *survey.Inventory) (bool, error) { return v.Recheck(t.Context(), score) },
		"made":    func(v *survey.Inventory) (bool, error) { return v.Made(t.Context(), task(graph.StageLearn)) },
		"pruned":  func(v *survey.Inventory) (bool, error) { return v.Pruned(task(graph.StageLearn).Node) },
		"dropped": func(v *survey.Inventory) (bool, error) { return v.Dropped(t.Context(), score) },
		"exists": func(v *survey.Inventory) (bool, error) {
			return v.Exists(t.Context(), graph.Task{Node: score.InWave(1)})
		},
		"await": func(v *survey.Inventory) (bool, error) {
			return false, v.Await(t.Context(), map[graph.Task]time.Time{score: time.Now()})
		},
		"closed": func(v *survey.Inventory) (bool, error) {
			n, err := v.Closed(t.Context(), 2)
			return n > 0, err
		},
		"survey": func(v *survey.Inventory) (bool, error) {
			found, err := survey.Of(v).Survey(t.Context())
			return found.Done, err
		},
	} {
		if yes, err := ask(survey.NewInventory(b.Graph)); yes || err == nil {
			t.Errorf("%s: %v, %v", name, yes, err)
		}
	}
}

// TestNotes: what programs ran under and which prompts had no room is counted by stage, from
// each manifest once.
func TestNotes(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1")
	for i, under := range []string{"landlock", "bubblewrap"} {
		for stage, metrics := range map[graph.Stage]map[string]float64{graph.StageRollout: {shard.MetricAttempts: 8, shard.MetricNoRoom: float64(1 + i)}, graph.StageScore: nil} {
			task := graph.Task{Node: runtest.Node(stage, 1), Shard: i}
			m := b.Expected(task)
			m.Metrics, m.Usage = metrics, map[string]float64{shard.UsageSandbox + under: 4, "seconds": 1}
			must.Get(seal.WriteBytes(b.Outputs(task)[0], nil, seal.AttemptFromEnv(), m))(t)
		}
	}
	v, is := survey.NewInventory(b.Graph), value[bool](t)
	for range 2 {
		for _, stage := range []graph.Stage{graph.StageRollout, graph.StageScore} {
			if task := (graph.Task{Node: runtest.Node(stage, 1)}); !is(v.Sealed(t.Context(), task)) || !is(v.Recheck(t.Context(), task)) {
				t.Errorf("%s is sealed", task)
			}
		}
		v.Refresh()
	}
	if got := v.Sandboxes(); !slices.Equal(got, []string{"bubblewrap", "landlock"}) {
		t.Errorf("programs ran under %v", got)
	}
	if got := v.Room(graph.StageRollout); got != (shard.Room{Attempts: 16, NoRoom: 3}) || v.Room(graph.StageScore) != (shard.Room{}) {
		t.Errorf("no room for %+v", got)
	}
}
