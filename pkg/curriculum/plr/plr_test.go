package plr

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var (
	near  = cmpopts.EquateApprox(0, 1e-12)
	tasks = []string{"a", "b", "c", "d", "e"}
)

func TestConform(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New:  func(seed uint64) curriculum.Curriculum { return New(*DefaultSettings(), seed) },
		Rows: func(int) int { return 1 + curriculumtest.Tasks },
	})
}

// group is of a task that was sampled in an iteration, with rewards; NaN is a response
// that is not valid.
func group(id, task string, iteration int32, rewards ...float64) curriculum.Group {
	g := curriculum.Group{Instance: shard.Instance{InstanceID: id, TaskID: task, Iteration: iteration}}
	for i, r := range rewards {
		outcome := shard.OutcomeOK
		if math.IsNaN(r) {
			outcome = shard.OutcomeInfra
		}
		g.Responses = append(g.Responses, curriculum.Response{Sample: i, Reward: r, Score: shard.Score{Outcome: string(outcome)}})
	}
	return g
}

// By hand: 0, 0, 1, 1 deviate by 1/2 each from 1/2. 0, 0, 0, 1 deviate by 1/4, 1/4, 1/4
// and 3/4 from 1/4: 3/8. 0.2 and 0.6: 0.2. Always solved: 0. One valid response of two
// has no score. Of two groups of b the later counts, and a group without a score
// leaves a's as it is, but not its staleness.
func TestUpdate(t *testing.T) {
	t.Parallel()
	p := New(*DefaultSettings(), 1)
	state, err := curriculum.Update(p, curriculum.State{}, 1, []curriculum.Group{
		group("1", "b", 1, 0, 0, 1, 1),
		group("2", "a", 1, 0, 0, 0, 1),
		group("3", "c", 1, math.NaN(), 1),
		group("4", "b", 1, .2, .6),
		group("5", "d", 1, 1, 1),
	}, tasks)
	if err != nil {
		t.Fatal(err)
	}
	want := []shard.Stat{
		{Scope: "tasks", Name: "count", Value: 5},
		{Scope: "task", Key: "b", Name: "score", Iteration: 1, Value: .2},
		{Scope: "task", Key: "a", Name: "score", Iteration: 1, Value: .375},
		{Scope: "task", Key: "d", Name: "score", Iteration: 1, Value: 0},
	}
	if diff := cmp.Diff(want, state.Stats, near); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"seen": 3, "score_zero": 1, "score_mean": .575 / 3}, p.Metrics(state), near); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	state, err = curriculum.Update(p, state, 2, []curriculum.Group{group("6", "a", 2, math.NaN(), 0)}, tasks)
	if err != nil || state.Stats[2].Iteration != 2 || state.Stats[2].Value != .375 {
		t.Errorf("after a group without a score: %+v, %v", state.Stats[2], err)
	}
}

// stateOf is a state of iteration 4, of five tasks: a has the score 0.5, b and c 0.25,
// and they were last sampled in iterations 4, 2 and 3.
func stateOf(count float64) curriculum.State {
	return curriculum.State{Iteration: 4, Stats: []shard.Stat{
		{Scope: "tasks", Name: "count", Value: count},
		{Scope: "task", Key: "a", Name: "score", Iteration: 4, Value: .5},
		{Scope: "task", Key: "b", Name: "score", Iteration: 2, Value: .25},
		{Scope: "task", Key: "c", Name: "score", Iteration: 3, Value: .25},
	}}
}

// P_replay by hand for iteration 5, with ρ = 0.1 and β = 1. The ranks are 1, 2.5 and
// 2.5, the weights 1, 0.4 and 0.4, and P_S 5/9, 2/9 and 2/9. The tasks rest for 1, 3
// and 2 iterations: P_C is 1/6, 1/2 and 1/3. With β = 0.1 the weights are 1 and twice
// 2.5^-10 = 1/9536.7431640625. With a β that takes all weights but the best to 0, P_S is
// that one's.
func TestDistribution(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		beta float64
		want []float64 // P_S
	}{
		{1, []float64{5. / 9, 2. / 9, 2. / 9}},
		{.1, []float64{9536.7431640625 / 9538.7431640625, 1 / 9538.7431640625, 1 / 9538.7431640625}},
		{1e-9, []float64{1, 0, 0}},
	} {
		d := New(Settings{Replay: .5, Beta: c.beta, Staleness: .1}, 1).distribution(stateOf(5).Stats[1:], 5)
		stale := []float64{1. / 6, 1. / 2, 1. / 3}
		var replay []float64
		for i := range c.want {
			replay = append(replay, .9*c.want[i]+.1*stale[i])
		}
		want := distribution{[]float64{1, 2.5, 2.5}, c.want, stale, replay}
		if diff := cmp.Diff(want, d, near, cmp.AllowUnexported(distribution{})); diff != "" {
			t.Errorf("β = %v (-want +got):\n%s", c.beta, diff)
		}
	}
	ties := []shard.Stat{{Value: 0}, {Value: 1}, {Value: 0}, {Value: 1}, {Value: 0}}
	if diff := cmp.Diff([]float64{4, 1.5, 4, 1.5, 4}, ranks(ties)); diff != "" {
		t.Errorf("ranks of ties (-want +got):\n%s", diff)
	}
}

// Over 20,000 prompts each task is drawn as often as stated, within four standard
// deviations: half of the prompts replay, and the two new tasks share the rest. When
// every task has been seen all prompts replay.
func TestNext(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for _, c := range []struct {
		count float64
		tasks []string
		p     float64
	}{{5, tasks, .5}, {3, tasks[:3], 1}} {
		p := New(Settings{Replay: .5, Beta: 1, Staleness: .1}, 7)
		selections, err := curriculum.Next(p, stateOf(c.count), 5, n, c.tasks)
		if err != nil {
			t.Fatal(err)
		}
		drawn := map[string]float64{}
		for _, s := range selections {
			drawn[s.TaskID]++
		}
		// See TestDistribution; d and e are new.
		for task, probability := range map[string]float64{
			"a": c.p * (.5 + .1/6), "b": c.p * (.2 + .1/2), "c": c.p * (.2 + .1/3), "d": (1 - c.p) / 2, "e": (1 - c.p) / 2,
		} {
			if sigma := math.Sqrt(n * probability * (1 - probability)); math.Abs(drawn[task]-n*probability) > 4*sigma {
				t.Errorf("%s is drawn %v times of %d, want %v ± %v", task, drawn[task], n, n*probability, sigma)
			}
		}
	}
}

// New tasks come once each while there are enough of them.
func TestNewTasks(t *testing.T) {
	t.Parallel()
	selections, err := curriculum.Next(New(*DefaultSettings(), 3), curriculum.State{}, 1, 7, tasks)
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	for i, s := range selections {
		if drawn[s.TaskID]++; i < 5 && drawn[s.TaskID] > 1 || s.Probability != 1 || s.SelectedBy != selectedNew {
			t.Errorf("prompt %d: %+v", i, s)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	p := New(Settings{Replay: .5, Beta: 1, Staleness: .1}, 7)
	terms, err := p.Explain(stateOf(5), 5, 1, curriculum.Selection{TaskID: "b", SelectedBy: selectedReplay})
	want := []curriculum.Term{
		{Name: "tasks seen", Value: 3},
		{Name: "p", Value: .5},
		{Name: "S", Value: .25},
		{Name: "rank", Value: 2.5},
		{Name: "P_S", Value: 2. / 9},
		{Name: "c − C", Value: 3},
		{Name: "P_C", Value: .5},
		{Name: "ρ", Value: .1},
		{Name: "P_replay", Value: .25},
		{Name: "probability", Value: .125},
	}
	if diff := cmp.Diff(want, terms, near); diff != "" || err != nil {
		t.Errorf("terms (-want +got): %v\n%s", err, diff)
	}
	selections, err := p.Next(stateOf(5), 5, 64, []string{"a", "b", "c", "d"})
	for _, s := range selections {
		if s.TaskID == "b" && math.Abs(s.Probability-.125) > 1e-12 || err != nil {
			t.Errorf("%+v (%v), want the explained probability", s, err)
		}
	}
	if _, err := p.Explain(stateOf(5), 5, 1, curriculum.Selection{TaskID: "d", SelectedBy: selectedReplay}); err == nil {
		t.Error("a task without a score is explained")
	}
}

// What a seed draws never changes; the settings are those of the paper on Procgen.
func TestDrawsStay(t *testing.T) {
	t.Parallel()
	if want := (Settings{Replay: .5, Beta: .1, Staleness: .1}); *DefaultSettings() != want {
		t.Errorf("settings %+v, want %+v", *DefaultSettings(), want)
	}
	selections, err := New(*DefaultSettings(), 7).Next(curriculum.State{}, 1, 6, []string{"a", "b", "c", "d", "e", "f"})
	var got string
	for _, s := range selections {
		got += s.TaskID
	}
	if want := "ebacfd"; got != want || err != nil {
		t.Errorf("new tasks %q, want %q (%v)", got, want, err)
	}
}
