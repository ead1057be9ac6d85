package exit

import (
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
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
	// Ten tenths add up to a little less than 1: what falls above is the tenth's, and not
	// that of an entry which is never selected.
	scores := append(slices.Repeat([]float64{.25}, 10), 0)
	if got := newSoftmax(ofScores(scores...), 1e6).pick(math.Nextafter(1, 0)); got != 9 {
		t.Errorf("above the sum of ten tenths %d is picked, want 9", got)
	}
}

// ExIt Tab. 4, and what recipes may say else.
func TestSettings(t *testing.T) {
	t.Parallel()
	paper := Settings{
		BufferSize: 512, MinBufferSize: 128, SelectProbability: .5, InverseTemperature: 10, DivergeProbability: .2,
		Improve: true, Expand: ExpandOne, Learnability: OfReward, BaseTasks: uniform.Epochs,
	}
	if got := *DefaultSettings(); got != paper {
		t.Errorf("defaults %+v, want %+v", got, paper)
	}
	const in = "curriculum.exit."
	rows := map[string]string{
		"": "", in + "buffer_size=1": "", in + "min_buffer_size=3": "", in + "min_buffer_size=4": in + "min_buffer_size", in + "min_buffer_size=0": in + "min_buffer_size",
		in + "buffer_size=0": in + "buffer_size", "rollout.group=1": "rollout.group",
	}
	for field, wrong := range map[string]string{"select_probability": "1.1", "diverge_probability": "-1", "inverse_temperature": "-1", "expand": "x", "learnability": "x", "base_tasks": "x"} {
		rows[in+field+"="+wrong] = in + field
	}
	type recipe struct {
		Rollout struct {
			Group int `yaml:"group"`
		} `yaml:"rollout"`
		Curriculum struct {
			Exit Settings `yaml:"exit"`
		} `yaml:"curriculum"`
	}
	configtest.Checks(t, func() *recipe {
		var r recipe
		r.Rollout.Group, r.Curriculum.Exit = 2, settings()
		return &r
	}, func(r *recipe, c *config.Checker) { r.Curriculum.Exit.validate(c) }, rows)
}

func TestKinds(t *testing.T) {
	t.Parallel()
	both := []shard.Kind{shard.KindImprove, shard.KindDiverge}
	for _, c := range []struct {
		improve             bool
		fromBuffer, diverge float64
		want                []shard.Kind
	}{{true, .5, .5, both}, {true, 1, .5, both}, {true, .5, 0, both[:1]}, {true, .5, 1, both[1:]}, {true, 0, .5, nil}, {false, .5, .5, nil}} {
		got := New(Settings{Improve: c.improve, SelectProbability: c.fromBuffer, DivergeProbability: c.diverge}, 1).Kinds()
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: kinds %q", c, got)
		}
	}
}
