package exit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// mixtureTasks are five tasks of environment a and seven of b, in turn where both have some.
func mixtureTasks() (ids []string) {
	for i := range 7 {
		if i < 5 {
			ids = append(ids, fmt.Sprintf("a/%d", i))
		}
		ids = append(ids, fmt.Sprintf("b/%d", i))
	}
	return ids
}

// TestMixtureEpochs: a weight of 2 to 1 of plans of 7 is 14 and 7 prompts in three plans, in
// which each of seven tasks of b comes once, and each of the five of a twice before any
// comes three times.
func TestMixtureEpochs(t *testing.T) {
	t.Parallel()
	m, err := curriculum.NewMixture([]string{"a", "b"}, []float64{2, 1}, 3, func(seed uint64) (curriculum.Curriculum, error) {
		return uniform.New(uniform.Settings{BaseTasks: uniform.Epochs}, seed), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count, of := map[string]int{}, map[string]int{}
	for iteration := range 3 {
		selections, err := curriculum.Next(m, curriculum.State{Iteration: iteration}, iteration+1, 7, mixtureTasks())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range selections {
			count[s.TaskID]++
			name, _, _ := strings.Cut(s.TaskID, "/")
			of[name]++
			if most := 1 + (of["a"]-1)/5; name == "a" && count[s.TaskID] > most {
				t.Errorf("prompt %d of a is %s again", of["a"], s.TaskID)
			}
		}
	}
	if of["a"] != 14 || of["b"] != 7 {
		t.Errorf("prompts %v, want 14 of a and 7 of b", of)
	}
	for i := range 7 {
		if id := fmt.Sprintf("b/%d", i); count[id] != 1 {
			t.Errorf("%s is in the first epoch %d times", id, count[id])
		}
	}
}

// TestMixtureOfExit: entries of both environments share one buffer, in which the lowest
// score is replaced wherever it is from; prompts are drawn from the entries of their own
// environment.
func TestMixtureOfExit(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.SelectProbability, spec.BufferSize, spec.Expand = 1, 3, ExpandOne
	m, err := curriculum.NewMixture([]string{"a", "b"}, []float64{1, 1}, 3, func(seed uint64) (curriculum.Curriculum, error) { return New(spec, seed), nil })
	if err != nil {
		t.Fatal(err)
	}
	entry := func(id, task string, score float64) shard.Entry {
		return shard.Entry{EntryID: id, TaskID: task, Kind: "improve", Depth: 1, Turn: 1, Ref: shard.Ref{Iteration: 1, Messages: 2}, Potential: score}
	}
	state := stateOf(entry("x", "a/0", .05), entry("y", "b/0", .2), entry("z", "b/1", .1))
	selections, err := curriculum.Next(m, state, 2, 8, mixtureTasks())
	if err != nil {
		t.Fatal(err)
	}
	for row, s := range selections {
		name, _, _ := strings.Cut(s.TaskID, "/")
		if want := []string{"a", "b"}[row%2]; name != want || s.Origin != shard.OriginBuffer || want == "a" && s.ParentID != "x" {
			t.Errorf("prompt %d: %+v, want an entry of %s", row, s, want)
		}
		terms, err := m.Explain(state, 2, 8, s)
		if err != nil || terms[len(terms)-1].Value != s.Probability || terms[0].Value != float64(1+row%2) {
			t.Errorf("prompt %d: %+v, %v, want the probability %v among the entries of its environment", row, terms, err, s.Probability)
		}
	}
	group := baseGroup("i000002-000000", 0, 1) // variance 1/4
	group.Instance.TaskID = "b/2"
	next, err := curriculum.Update(m, state, 2, []curriculum.Group{group}, mixtureTasks())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(scores(next)); got != "[0.2 0.1 0.25]" {
		t.Errorf("scores %s after an entry of b, want those of a's only entry replaced", got)
	}
}
