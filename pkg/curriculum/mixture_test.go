package curriculum_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/ace"
	"github.com/lathe-rl/lathe/pkg/curriculum/exit"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
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
	if _, err := m.Next(curriculum.State{}, 1, 7, []string{"c/0"}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("tasks of no part: %v", err)
	}
	if _, err := m.Explain(curriculum.State{}, 1, 7, curriculum.Selection{TaskID: "c/0"}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a selection of no part: %v", err)
	}
	// A part without training tasks has no share.
	only, err := m.Next(curriculum.State{}, 1, 3, []string{"b/0", "b/1"})
	if err != nil || len(only) != 3 {
		t.Errorf("only tasks of b: %+v, %v", only, err)
	}
}

// TestMixtureOfExit: entries of both environments share one buffer, in which the lowest
// score is replaced wherever it is from; prompts are drawn from the entries of their own
// environment.
func TestMixtureOfExit(t *testing.T) {
	t.Parallel()
	spec := exit.Settings{
		BufferSize: 3, MinBufferSize: 1, SelectProbability: 1, InverseTemperature: 8, DivergeProbability: .2, Improve: true,
		Expand: exit.ExpandOne, Learnability: exit.OfReward, BaseTasks: uniform.Epochs,
	}
	m, err := curriculum.NewMixture([]string{"a", "b"}, []float64{1, 1}, 3, func(seed uint64) (curriculum.Curriculum, error) { return exit.New(spec, seed), nil })
	if err != nil {
		t.Fatal(err)
	}
	entry := func(id, task string, score float64) shard.Entry {
		return shard.Entry{EntryID: id, TaskID: task, Kind: "improve", Depth: 1, Turn: 1, Ref: shard.Ref{Iteration: 1, Messages: 2}, Potential: score}
	}
	state := curriculum.State{Iteration: 1, Entries: []shard.Entry{entry("x", "a/0", .05), entry("y", "b/0", .2), entry("z", "b/1", .1)}}
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
	group := curriculum.Group{Instance: shard.Instance{InstanceID: "new", GroupID: "new", TaskID: "b/2", Kind: "initial", Origin: "base", Iteration: 2}}
	for i, quality := range []float64{0, 1} { // variance 1/4
		group.Responses = append(group.Responses, curriculum.Response{
			Sample: i, Ref: shard.Ref{Iteration: 2, Sample: int32(i), Messages: 2}, PromptMessages: 1, Turns: 1, Roles: []string{"user", "assistant"},
			Score: shard.Score{Outcome: string(shard.OutcomeOK), NormalizedScore: quality}, Reward: quality,
		})
	}
	next, err := curriculum.Update(m, state, 2, []curriculum.Group{group}, mixtureTasks())
	if err != nil {
		t.Fatal(err)
	}
	var scores []float64
	for _, e := range next.Entries {
		scores = append(scores, e.Potential)
	}
	if got := fmt.Sprint(scores); got != "[0.2 0.1 0.25]" {
		t.Errorf("scores %s after an entry of b, want those of a's only entry replaced", got)
	}
}

// TestMixtureMetrics: they are those of all entries, whatever their environment.
func TestMixtureMetrics(t *testing.T) {
	t.Parallel()
	metrics := func(of func(uint64) (curriculum.Curriculum, error)) map[string]float64 {
		m, err := curriculum.NewMixture([]string{"a", "b"}, []float64{1, 1}, 3, of)
		if err != nil {
			t.Fatal(err)
		}
		return m.Metrics(curriculum.State{Entries: []shard.Entry{{TaskID: "a/0"}, {TaskID: "b/0"}, {TaskID: "b/1"}}})
	}
	if got := metrics(func(seed uint64) (curriculum.Curriculum, error) { return ace.New(*ace.DefaultSettings(), seed), nil })["states"]; got != 3 {
		t.Errorf("%v states, want 3", got)
	}
	if got := metrics(func(seed uint64) (curriculum.Curriculum, error) { return uniform.New(uniform.Settings{}, seed), nil }); got != nil {
		t.Errorf("%v of a curriculum that measures nothing", got)
	}
}
