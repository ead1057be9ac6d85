package rounds

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// Two answers to newest tasks, 1 and 0.5, and one that we failed to score: 0.75. Those to
// other tasks do not count, and an iteration without newest tasks leaves it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := New(Settings{First: 4, Add: 3, Every: 2, Newest: .5}, 5)
	group := func(id, rule string, outcome shard.Outcome, quality float64) curriculum.Group {
		return curriculum.Group{
			Instance:  shard.Instance{InstanceID: id, SelectedBy: rule},
			Responses: []curriculum.Response{{Score: shard.Score{Outcome: string(outcome), NormalizedScore: quality}}},
		}
	}
	state, err := curriculum.Update(r, curriculum.State{}, 3, []curriculum.Group{
		group("a", "newest", shard.OutcomeOK, 1), group("b", "newest", shard.OutcomeWrong, .5),
		group("c", "newest", shard.OutcomeInfra, 0), group("d", "earlier", shard.OutcomeWrong, 0),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"round": 1, "newest_score": .75}, r.Metrics(state)); diff != "" {
		t.Error(diff)
	}
	if state, err = curriculum.Update(r, state, 5, nil, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"round": 2, "newest_score": .75}, r.Metrics(state)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{"round": 0}, r.Metrics(curriculum.State{})); diff != "" {
		t.Error(diff)
	}
}
