package rounds

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func TestConform(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New: func(seed uint64) curriculum.Curriculum {
			return New(Settings{First: 4, Add: 3, Every: 2, Newest: .5}, seed)
		},
		Rows: func(int) int { return 1 },
	})
}

func TestConformLearned(t *testing.T) {
	t.Parallel()
	for _, by := range []string{byScore, byAgreement} {
		curriculumtest.Conform(t, curriculumtest.Subject{
			New: func(seed uint64) curriculum.Curriculum {
				return New(Settings{First: 4, Add: 3, Every: 2, Newest: .5, Learned: .5, LearnedBy: by}, seed)
			},
			Rows: func(int) int { return 2 },
		})
	}
}

func tasks(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	return ids
}

// With 4 tasks at first and 3 more every two iterations, of ten: iterations 1 and 2 have 0 to 3,
// each with 1/4; 3 and 4 draw half of their prompts from 4 to 6, each 1/6, and half from 0 to 3,
// each 1/8; 5 and 6 from 7 to 9 and 0 to 6. From 7 on there is nothing to add, and each of
// ten has 1/10. A last round adds what is left: of 8 tasks iteration 5 adds task 7 alone.
// Drawn as often as stated, within four standard deviations.
func TestNext(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for _, c := range []struct {
		iteration, tasks, earlier, newest int
		share                             float64
	}{
		{1, 10, 4, 0, .5},
		{2, 10, 4, 0, .5},
		{3, 10, 4, 3, .5},
		{6, 10, 7, 3, .5},
		{7, 10, 10, 0, .5},
		{99, 10, 10, 0, .5},
		{5, 8, 7, 1, .5},
		{1, 3, 3, 0, .5},
		{3, 10, 4, 3, 0},
		{3, 10, 4, 3, 1},
	} {
		r := New(Settings{First: 4, Add: 3, Every: 2, Newest: c.share}, 5)
		selections, err := curriculum.Next(r, curriculum.State{}, c.iteration, n, tasks(c.tasks))
		if err != nil {
			t.Fatal(err)
		}
		drawn := map[string]float64{}
		for _, s := range selections {
			drawn[s.TaskID]++
			if first := slices.Contains(tasks(min(4, c.tasks)), s.TaskID); first != (s.SelectedBy == "first") {
				t.Fatalf("%+v: %+v", c, s)
			}
		}
		share := c.share
		if c.newest == 0 {
			share = 0
		}
		for i, id := range tasks(c.tasks) {
			p := 0.
			switch {
			case i < c.earlier:
				p = (1 - share) / float64(c.earlier)
			case i < c.earlier+c.newest:
				p = share / float64(c.newest)
			}
			if sigma := math.Sqrt(n * p * (1 - p)); math.Abs(drawn[id]-n*p) > 4*sigma {
				t.Errorf("%+v: task %s is drawn %v times, want %v ± %v", c, id, drawn[id], n*p, sigma)
			}
		}
	}
}

// answered is a group of a task, with answers and what they score; one that is not a number
// we failed to score.
func answered(task string, answers []string, scores ...float64) curriculum.Group {
	g := curriculum.Group{Instance: shard.Instance{InstanceID: fmt.Sprint(task, answers, scores), TaskID: task}}
	for i, score := range scores {
		outcome := shard.OutcomeOK
		if math.IsNaN(score) {
			outcome = shard.OutcomeInfra
		}
		r := curriculum.Response{Sample: i, Score: shard.Score{Outcome: string(outcome), NormalizedScore: score}}
		if answers != nil {
			r.Score.Extracted = answers[i]
		}
		g.Responses = append(g.Responses, r)
	}
	return g
}

// Two answers to newest tasks, 1 and 0.5, and one that we failed to score: 0.75. Those to
// other tasks do not count, and an iteration without newest tasks leaves it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := New(Settings{First: 4, Add: 3, Every: 2, Newest: .5}, 5)
	state, err := curriculum.Update(r, curriculum.State{}, 3, []curriculum.Group{
		answered("4", nil, 1), answered("5", nil, .5), answered("6", nil, math.NaN()), answered("3", nil, 0),
	}, tasks(10))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"round": 1, "newest_score": .75}, r.Metrics(state)); diff != "" {
		t.Error(diff)
	}
	if state, err = curriculum.Update(r, state, 5, nil, tasks(10)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"round": 2, "newest_score": .75}, r.Metrics(state)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{"round": 0}, r.Metrics(curriculum.State{})); diff != "" {
		t.Error(diff)
	}
}

// By hand, with ten tasks, of which 4 are first and 3 more come each round, at least two
// iterations a round and 0.75 to be learned. A round does not end before its second iteration,
// by answers to tasks of before (late ones), or by what the round before came to; and the
// last one, which has task 9, does not end.
func TestLearned(t *testing.T) {
	t.Parallel()
	r := New(Settings{First: 4, Add: 3, Every: 2, Newest: 1, Learned: .75, LearnedBy: byScore}, 5)
	var state curriculum.State
	for i, c := range []struct {
		groups []curriculum.Group
		score  float64
		next   int // round of the next iteration
	}{
		{[]curriculum.Group{answered("0", nil, 1, 1)}, 1, 0},
		{[]curriculum.Group{answered("0", nil, 1), answered("3", nil, 0)}, .5, 0},
		{nil, .5, 0},
		{[]curriculum.Group{answered("1", nil, 1, .5)}, .75, 1},
		{[]curriculum.Group{answered("2", nil, .25)}, .75, 1},
		{nil, .75, 1},
		{[]curriculum.Group{answered("4", nil, .5), answered("6", nil, .75), answered("0", nil, 1)}, .625, 1},
		{[]curriculum.Group{answered("4", nil, 1), answered("6", nil, .75), answered("0", nil, 0)}, .875, 2},
		{[]curriculum.Group{answered("9", nil, 1)}, 1, 2},
		{[]curriculum.Group{answered("9", nil, 1)}, 1, 2},
	} {
		iteration, was := i+1, 0
		if s, there := find(state.Stats, scopeRun); there {
			was = int(s.Value)
		}
		var err error
		if state, err = curriculum.Update(r, state, iteration, c.groups, tasks(10)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]float64{"round": float64(was), "newest_score": c.score}, r.Metrics(state)); diff != "" {
			t.Errorf("iteration %d: %s", iteration, diff)
		}
		if (c.next != was) != (len(state.Notes) == 1) {
			t.Errorf("iteration %d: notes %q", iteration, state.Notes)
		}
		selections, err := curriculum.Next(r, state, iteration+1, 200, tasks(10))
		if err != nil {
			t.Fatal(err)
		}
		drawn := map[string]bool{}
		for _, s := range selections {
			drawn[s.TaskID] = true
		}
		want := [][]string{{"0", "1", "2", "3"}, {"4", "5", "6"}, {"7", "8", "9"}}[c.next]
		for _, id := range tasks(10) {
			if drawn[id] != slices.Contains(want, id) {
				t.Errorf("iteration %d draws %v, want %v", iteration+1, drawn, want)
			}
		}
	}
}

// Of 12, 12, 13 and an empty answer two are the most frequent one, 1/2; of 7, 7 and one that
// we failed to score both; one answer, and none, say nothing. The mean is 3/4, whatever they
// score.
func TestAgreement(t *testing.T) {
	t.Parallel()
	r := New(Settings{First: 4, Add: 3, Every: 1, Newest: .5, Learned: .75, LearnedBy: byAgreement}, 5)
	groups := []curriculum.Group{
		answered("0", []string{"12", "12", "13", ""}, 0, 0, 1, 0), answered("1", []string{"7", "8", "7"}, 0, math.NaN(), 0),
		answered("2", []string{"5"}, 1), answered("3", nil),
	}
	state, err := curriculum.Update(r, curriculum.State{}, 1, groups, tasks(10))
	if err != nil {
		t.Fatal(err)
	}
	want := []shard.Stat{
		{Scope: scopeNewest, Name: nameScore, Iteration: 1, Value: .75},
		{Scope: scopeRun, Name: nameRound, Iteration: 1, Value: 1},
	}
	if diff := cmp.Diff(want, state.Stats); diff != "" {
		t.Error(diff)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	type rollout struct {
		Group int `yaml:"group"`
	}
	for want, s := range map[string]Settings{
		"":                                   {First: 1, Add: 1, Every: 1, Newest: .5, Learned: .9, LearnedBy: byScore},
		"curriculum.rounds.learned: must":    {First: 1, Add: 1, Every: 1, Newest: .5, Learned: 1.5, LearnedBy: byScore},
		"curriculum.rounds.newest: must":     {First: 1, Add: 1, Every: 1, Learned: .9, LearnedBy: byScore},
		"curriculum.rounds.learned_by: must": {First: 1, Add: 1, Every: 1, Newest: .5, LearnedBy: "x"},
		"rollout.group: must":                {First: 1, Add: 1, Every: 1, Newest: .5, Learned: .9, LearnedBy: byAgreement},
	} {
		settings := struct {
			Rollout    rollout `yaml:"rollout"`
			Curriculum struct {
				Rounds Settings `yaml:"rounds"`
			} `yaml:"curriculum"`
		}{Rollout: rollout{1}}
		settings.Curriculum.Rounds = s
		c := config.NewChecker(&settings)
		choice, _ := curriculum.Axis.Lookup(Name)
		choice.Validate(c, &settings.Curriculum.Rounds)
		if err := c.Err("recipe"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
