package exit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/shard"
	"pgregory.net/rapid"
)

// drawSettings draws any settings that New accepts.
func drawSettings(t *rapid.T) Settings {
	size := rapid.IntRange(1, 6).Draw(t, "N")
	return Settings{
		BufferSize: size, MinBufferSize: rapid.IntRange(1, size).Draw(t, "min"),
		SelectProbability:  rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "p"),
		InverseTemperature: rapid.SampledFrom([]float64{0, 8, 1e300}).Draw(t, "κ"),
		DivergeProbability: rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "p_div"),
		Improve:            rapid.Bool().Draw(t, "improve"),
		Expand:             rapid.SampledFrom([]string{ExpandOne, ExpandAll}).Draw(t, "expand"),
		Learnability:       rapid.SampledFrom([]string{OfReward, OfQuality}).Draw(t, "learnability"),
		BaseTasks:          rapid.SampledFrom([]string{uniform.Epochs, uniform.Independent}).Draw(t, "base tasks"),
	}
}

// roles are those of messages.
func roles(messages []shard.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Role)
	}
	return out
}

// plan turns selections into groups with drawn outcomes.
func plan(t *rapid.T, iteration int, selections []curriculum.Selection) []curriculum.Group {
	groups := make([]curriculum.Group, len(selections))
	for i, s := range selections {
		// As long as the history and one message more.
		prompt := append(make([]shard.Message, s.Ref.Messages), user("go on"))
		groups[i].Instance = shard.Instance{
			InstanceID: fmt.Sprintf("i%d-%d", iteration, i), TaskID: s.TaskID, Kind: string(s.Kind), ParentID: s.ParentID,
			Depth: int32(s.Depth), Turn: int32(s.Turn), Messages: prompt, Origin: string(s.Origin),
		}
		for sample := range 3 {
			score := shard.Score{Outcome: "ok", NormalizedScore: rapid.SampledFrom([]float64{0, .3, .7, 1}).Draw(t, "quality")}
			if rapid.IntRange(0, 4).Draw(t, "infra is 0") == 0 {
				score.Outcome = "infra"
			}
			groups[i].Responses = append(groups[i].Responses, curriculum.Response{
				Sample: sample, Roles: append(roles(prompt), "assistant"), PromptMessages: len(prompt), Turns: 1, Score: score, Reward: score.NormalizedScore,
				Ref: shard.Ref{Iteration: int32(iteration), Row: int32(i), Sample: int32(sample), Messages: int32(len(prompt) + 1)},
			})
		}
	}
	return groups
}

func TestConform(t *testing.T) {
	t.Parallel()
	for _, improve := range []bool{true, false} {
		curriculumtest.Conform(t, curriculumtest.Subject{
			New: func(seed uint64) curriculum.Curriculum {
				s := settings()
				s.BufferSize, s.Improve = 9, improve
				return New(s, seed)
			},
			Rows: func(int) int { return 9 },
		})
	}
}

// Over whole runs of any settings: the buffer never holds more than N
// entries nor two of one id, and every score is in [0, 1/4].
func TestRunsOfAnySettings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSettings(t)
		e := New(spec, rapid.Uint64().Draw(t, "seed"))
		var state curriculum.State
		for iteration := 1; iteration <= 6; iteration++ {
			selections, err := e.Next(state, iteration, 4, tasks)
			if err != nil {
				t.Fatal(err)
			}
			groups := plan(t, iteration, selections)
			next, err := e.Update(state, iteration, groups, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkBuffer(t, spec, next)
			state = next
		}
	})
}

func checkBuffer(t *rapid.T, spec Settings, state curriculum.State) {
	if len(state.Entries) > spec.BufferSize {
		t.Fatalf("%d entries in a buffer of %d", len(state.Entries), spec.BufferSize)
	}
	seen := map[string]bool{}
	for _, entry := range state.Entries {
		if !(entry.Potential >= 0 && entry.Potential <= .25) {
			t.Fatalf("score %v of %q, want 0 to 0.25", entry.Potential, entry.EntryID)
		}
		if seen[entry.EntryID] {
			t.Fatalf("entry %q is there twice", entry.EntryID)
		}
		seen[entry.EntryID] = true
	}
}

// While the buffer has room, the order of the groups decides the order of
// the entries and nothing else.
func TestOrderOfGroupsWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(Settings{BufferSize: 100, MinBufferSize: 1, Improve: true, Expand: ExpandAll, Learnability: OfReward, BaseTasks: uniform.Epochs}, 1)
		selections, err := e.Next(curriculum.State{}, 1, 5, tasks)
		if err != nil {
			t.Fatal(err)
		}
		groups := plan(t, 1, selections)
		inOrder, err := e.Update(curriculum.State{}, 1, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		shuffled, err := e.Update(curriculum.State{}, 1, rapid.Permutation(groups).Draw(t, "groups"), nil)
		if err != nil {
			t.Fatal(err)
		}
		byID := func(a, b shard.Entry) int {
			if a.EntryID < b.EntryID {
				return -1
			}
			return 1
		}
		slices.SortFunc(inOrder.Entries, byID)
		slices.SortFunc(shuffled.Entries, byID)
		if diff := cmp.Diff(inOrder, shuffled); diff != "" {
			t.Errorf("entries differ:\n%s", diff)
		}
	})
}
