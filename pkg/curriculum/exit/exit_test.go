package exit

import (
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// settings is a small ExIt: three entries, everything expanded.
func settings() Settings {
	return Settings{
		BufferSize: 3, MinBufferSize: 1, SelectProbability: .5, InverseTemperature: 8,
		DivergeProbability: .2, Improve: true, Expand: ExpandAll, Learnability: OfReward, BaseTasks: uniform.Epochs,
	}
}

func user(text string) shard.Message      { return shard.Message{Role: "user", Content: text} }
func assistant(text string) shard.Message { return shard.Message{Role: "assistant", Content: text} }

// baseGroup is a group of single-turn responses to a base task, with the
// given qualities; samples count from 0.
func baseGroup(id string, qualities ...float64) curriculum.Group {
	prompt := user("prompt of " + id)
	g := curriculum.Group{Instance: shard.Instance{
		InstanceID: id, TaskID: "task of " + id, Env: "math", Kind: "initial", GroupID: id,
		Messages: []shard.Message{prompt}, Origin: "base", Seed: 5, Iteration: 1,
	}}
	for i, quality := range qualities {
		g.Responses = append(g.Responses, curriculum.Response{
			Sample: i, Ref: shard.Ref{Iteration: 1, Row: 7, Sample: int32(i), Messages: 2}, PromptMessages: 1, Turns: 1,
			Roles: []string{"user", "assistant"},
			Score: shard.Score{Outcome: string(shard.OutcomeOK), NormalizedScore: quality}, Reward: quality,
		})
	}
	return g
}

// entry is a buffer entry with a score.
func entry(id string, score float64) shard.Entry {
	return shard.Entry{
		EntryID: id, TaskID: "task of " + id, Kind: "improve", Depth: 1, Turn: 1,
		Ref: shard.Ref{Iteration: 1, Row: 3, Messages: 2}, BaseScore: .25, Potential: score,
	}
}

func stateOf(entries ...shard.Entry) curriculum.State {
	return curriculum.State{Iteration: 1, Entries: entries}
}

func mustUpdate(t testing.TB, e *Exit, state curriculum.State, iteration int, groups ...curriculum.Group) curriculum.State {
	t.Helper()
	next, err := curriculum.Update(e, state, iteration, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// scores lists the scores of a state's entries, oldest first.
func scores(state curriculum.State) []float64 {
	list := []float64{}
	for _, entry := range state.Entries {
		list = append(list, entry.Potential)
	}
	return list
}

// ExIt §4.1, S = var(r). By hand: one success of four has mean 1/4 and
// variance 1/4·3/4; qualities .2, .5, .9, .4 have mean .5 and squares .09, 0,
// .16, .01.
func TestLearnability(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		qualities []float64
		invalid   int // so many of the first responses are not valid
		want      float64
		ok        bool
	}{
		{"always solved: nothing to learn", []float64{1, 1, 1, 1}, 0, 0, true},
		{"never solved", []float64{0, 0, 0, 0}, 0, 0, true},
		{"half the time: the largest", []float64{1, 0, 0, 1}, 0, .25, true},
		{"one of four", []float64{0, 1, 0, 0}, 0, .1875, true},
		{"graded", []float64{.2, .5, .9, .4}, 0, .065, true},
		{"the invalid do not count", []float64{0, 0, .9, .4}, 2, .0625, true},
		{"seven of .7 are exactly 0", []float64{.7, .7, .7, .7, .7, .7, .7}, 0, 0, true},
		{"one valid", []float64{0, 1}, 1, 0, false},
		{"all invalid", []float64{0, 1}, 2, 0, false},
		{"empty", nil, 0, 0, false},
	} {
		g := baseGroup("m", test.qualities...)
		for i := range test.invalid {
			g.Responses[i].Score.Outcome = "infra"
		}
		got, ok := New(settings(), 11).learnability(g)
		if !(math.Abs(got-test.want) <= 1e-15) || ok != test.ok || (test.want == 0 && got != 0) {
			t.Errorf("%s: %v, %v, want %v, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}

// ExIt §4.1: exp(S_i κ) / sum exp(S_j κ). With κ = 4 ln 3 scores 0 and 1/4
// have odds 1 to 3.
func TestProbabilities(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		scores []float64
		kappa  float64
		want   []float64
	}{
		{"by hand", []float64{0, .25}, 4 * math.Log(3), []float64{.25, .75}},
		{"κ 0 is uniform", []float64{0, .1, .25, .2}, 0, []float64{.25, .25, .25, .25}},
		{"κ huge takes the best", []float64{.1, .25, .2}, 1e308, []float64{0, 1, 0}},
		{"κ huge, ties share", []float64{.25, .1, .25}, 1e308, []float64{.5, 0, .5}},
		{"all 0", []float64{0, 0}, 1e6, []float64{.5, .5}},
		{"one", []float64{.1}, 50, []float64{1}},
		{"none", nil, 50, nil},
	} {
		share := newSoftmax(ofScores(test.scores...), test.kappa)
		var got []float64
		for _, score := range test.scores {
			got = append(got, share.probability(score))
		}
		for i := range got {
			if !(math.Abs(got[i]-test.want[i]) <= 1e-15) {
				t.Errorf("%s: %v, want %v", test.name, got, test.want)
			}
		}
	}
}

func ofScores(scores ...float64) []shard.Entry {
	entries := make([]shard.Entry, len(scores))
	for i, score := range scores {
		entries[i].Potential = score
	}
	return entries
}

func TestPick(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		u    float64
		want int
	}{{0, 1}, {.24, 1}, {.25, 3}, {.99, 3}, {math.Nextafter(1, 0), 3}} {
		share := softmax{upTo: []float64{0, .25, .25, .99999999, .99999999}, last: 3}
		if got := share.pick(test.u); got != test.want {
			t.Errorf("u %v picks %d, want %d", test.u, got, test.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		change func(*Settings)
		want   string // empty for valid
	}{
		{func(*Settings) {}, ""},
		{func(s *Settings) { s.BufferSize = 0 }, "buffer_size: must be 1 or more (0)"},
		{func(s *Settings) { s.MinBufferSize = 4 }, "min_buffer_size: must not be above curriculum.exit.buffer_size 3"},
		{func(s *Settings) { s.MinBufferSize = 0 }, "min_buffer_size: must be 1 or more (0)"},
		{func(s *Settings) { s.SelectProbability = 1.1 }, "select_probability: must be from 0 to 1 (1.1)"},
		{func(s *Settings) { s.DivergeProbability = math.NaN() }, "diverge_probability: must be from 0 to 1 (NaN)"},
		{func(s *Settings) { s.InverseTemperature = -1 }, "inverse_temperature: must be 0 or more (-1)"},
		{func(s *Settings) { s.Expand = "some" }, `expand: must be one of one, all ("some")`},
	} {
		var recipe struct {
			Curriculum struct {
				Exit Settings `yaml:"exit"`
			} `yaml:"curriculum"`
		}
		recipe.Curriculum.Exit = settings()
		test.change(&recipe.Curriculum.Exit)
		c := config.NewChecker(&recipe)
		recipe.Curriculum.Exit.validate(c)
		err := c.Err("recipe")
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), "curriculum.exit."+test.want)) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}
