package uniform

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func taskIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("task-%03d", i)
	}
	return ids
}

func TestConform(t *testing.T) {
	t.Parallel()
	for _, baseTasks := range []string{Epochs, Independent} {
		curriculumtest.Conform(t, curriculumtest.Subject{
			New:  func(seed uint64) curriculum.Curriculum { return New(Settings{baseTasks}, seed) },
			Rows: func(int) int { return 0 },
		})
	}
}

// Whatever the number of prompts, the slots of all iterations cut into runs
// of the number of tasks hold every task once each.
func TestEpochsHoldEveryTaskOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := taskIDs(rapid.IntRange(1, 20).Draw(t, "tasks"))
		n := rapid.IntRange(1, 50).Draw(t, "prompts")
		u := New(Settings{Epochs}, rapid.Uint64().Draw(t, "seed"))
		var drawn []string
		for iteration := 1; len(drawn) < 4*len(ids); iteration++ {
			selections, err := u.Next(curriculum.State{}, iteration, n, ids)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range selections {
				drawn = append(drawn, s.TaskID)
			}
		}
		for start := 0; start+len(ids) <= len(drawn); start += len(ids) {
			epoch := slices.Sorted(slices.Values(drawn[start : start+len(ids)]))
			if !slices.Equal(epoch, ids) {
				t.Fatalf("slots %d and on hold %v, want every task once", start, epoch)
			}
		}
	})
}

func TestSelectionIsAFirstAttempt(t *testing.T) {
	t.Parallel()
	got, err := New(Settings{Epochs}, 3).Next(curriculum.State{}, 1, 1, []string{"only"})
	if err != nil {
		t.Fatal(err)
	}
	want := []curriculum.Selection{{TaskID: "only", Kind: shard.KindInitial, Origin: shard.OriginBase, Probability: 1, SelectedBy: "base"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("selections (-want +got):\n%s", diff)
	}
}

// Epochs and seeds differ: of 100 tasks two permutations agree in one place
// on average, and in 20 or more hardly ever.
func TestEpochsAndSeedsDiffer(t *testing.T) {
	t.Parallel()
	ids := taskIDs(100)
	draw := func(seed uint64, iteration int) []string {
		return Tasks(Epochs, seed, curriculum.State{}, iteration, 100, ids)
	}
	first := draw(1, 1)
	for name, other := range map[string][]string{"second epoch": draw(1, 2), "second seed": draw(2, 1)} {
		same := 0
		for i := range first {
			if first[i] == other[i] {
				same++
			}
		}
		if same >= 20 {
			t.Errorf("%s has %d of 100 tasks at the same place", name, same)
		}
	}
	if !slices.Equal(first, draw(1, 1)) {
		t.Error("the same seed and iteration draw other tasks")
	}
}

// What is sampled does not depend on the state, and the state stays empty.
func TestStateDoesNotMatter(t *testing.T) {
	t.Parallel()
	u := New(Settings{Epochs}, 7)
	state, err := u.Update(curriculum.State{Iteration: 2, Entries: []shard.Entry{{EntryID: "x"}}}, 3, []curriculum.Group{{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if state.Iteration != 3 || len(state.Entries) != 0 {
		t.Errorf("state %+v, want iteration 3 and no entries", state)
	}
	empty, err := u.Next(curriculum.State{}, 4, 5, taskIDs(3))
	if err != nil {
		t.Fatal(err)
	}
	full, err := u.Next(curriculum.State{Entries: make([]shard.Entry, 9)}, 4, 5, taskIDs(3))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(empty, full); diff != "" {
		t.Errorf("the state changed the selections:\n%s", diff)
	}
}

// Every prompt is a base task, so each of 20000 states the probability 1 of
// being one; which task it is was not drawn for it. Over epochs every task has
// the same share to a fraction of one draw each.
func TestStatedProbabilities(t *testing.T) {
	t.Parallel()
	u, ids := New(Settings{Epochs}, 5), taskIDs(7)
	const prompts = 20000
	selections, err := u.Next(curriculum.State{}, 1, prompts, ids)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, s := range selections {
		if s.Probability != 1 || s.SelectedBy != "base" || s.Origin != shard.OriginBase {
			t.Fatalf("selection %+v, want a base task of probability 1", s)
		}
		counts[s.TaskID]++
	}
	for _, id := range ids {
		if n := counts[id]; n != prompts/len(ids) && n != prompts/len(ids)+1 {
			t.Errorf("task %q: %d of %d prompts", id, n, prompts)
		}
	}
	terms, err := u.Explain(curriculum.State{}, 1, len(selections), selections[0])
	if diff := cmp.Diff([]curriculum.Term{{Name: "probability", Value: 1}}, terms); diff != "" || err != nil {
		t.Errorf("error %v, terms (-want +got):\n%s", err, diff)
	}
}

// Independent draws of 20,000 prompts among four tasks: each is drawn 5,000
// times to five standard deviations (of 61), and a task follows itself as often
// as chance has it, where in epochs it does so once in 16 at most.
func TestIndependentTasks(t *testing.T) {
	t.Parallel()
	ids := taskIDs(4)
	const n, iterations = 2000, 10
	counts, repeats, last := map[string]int{}, 0, ""
	for iteration := 1; iteration <= iterations; iteration++ {
		selections, err := New(Settings{Independent}, 5).Next(curriculum.State{}, iteration, n, ids)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range selections {
			counts[s.TaskID]++
			if s.TaskID == last {
				repeats++
			}
			last = s.TaskID
		}
	}
	for _, id := range ids {
		if counts[id] < 5000-5*61 || counts[id] > 5000+5*61 {
			t.Errorf("%s drawn %d times of 20000, want about 5000", id, counts[id])
		}
	}
	if repeats < 5000-5*61 || repeats > 5000+5*61 {
		t.Errorf("%d of 20000 draws repeat the one before, want about 5000", repeats)
	}
}

// What a seed draws never changes, or a run could not be repeated.
func TestDrawsStay(t *testing.T) {
	t.Parallel()
	for baseTasks, want := range map[string][]string{Epochs: {"c", "e", "a", "f", "c", "d", "e", "b"}, Independent: {"b", "f", "f", "c", "c", "b", "c", "d"}} {
		if got := Tasks(baseTasks, 7, curriculum.State{}, 2, 8, []string{"a", "b", "c", "d", "e", "f"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", baseTasks, got, want)
		}
	}
}

// In a mixture an environment's slots before an iteration are those that it had, not n of each.
func TestSlotsBefore(t *testing.T) {
	t.Parallel()
	ids, before := taskIDs(6), 7
	all := Tasks(Epochs, 7, curriculum.State{}, 1, 20, ids)
	if got := Tasks(Epochs, 7, curriculum.State{Before: &before}, 2, 3, ids); !slices.Equal(got, all[7:10]) {
		t.Errorf("%q, want %q, the eighth slot and on", got, all[7:10])
	}
}
