package curriculum

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// seen remembers what Update was called with.
type seen struct{ samples []int }

func (*seen) Name() string { return "seen" }

func (s *seen) Update(_ State, iteration int, groups []Group, _ []string) (State, error) {
	for _, g := range groups {
		for _, r := range g.Responses {
			s.samples = append(s.samples, r.Sample)
		}
	}
	return State{Iteration: iteration}, nil
}

func (*seen) Next(_ State, _, n int, _ []string) ([]Selection, error) {
	return make([]Selection, n), nil
}

func group(id string, responses ...Response) Group {
	return Group{Instance: shard.Instance{InstanceID: id}, Responses: responses}
}

func response(sample int, outcome shard.Outcome, quality, reward float64) Response {
	return Response{Sample: sample, Score: shard.Score{Outcome: string(outcome), NormalizedScore: quality}, Reward: reward}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	ok, nan := shard.OutcomeOK, math.NaN()
	for _, c := range []struct {
		iteration int
		groups    []Group
		code      int
		want      string
	}{
		{1, nil, exitcode.Bug, `updating curriculum "seen": iteration 1 is already in the state of iteration 1`},
		{2, []Group{group("a"), group("a")}, exitcode.Bug, `instance "a" has two groups`},
		{2, []Group{group("a", response(1, ok, 1.5, 0))}, exitcode.Data, `updating curriculum "seen" for iteration 2: instance "a", sample 1: quality 1.5, want 0 to 1`},
		{2, []Group{group("a", response(1, ok, nan, 0))}, exitcode.Data, "quality NaN"},
		{2, []Group{group("a", response(0, ok, 1, math.Inf(1)))}, exitcode.Data, "reward +Inf, want a finite number"},
	} {
		if _, err := Update(new(seen), State{Iteration: 1}, c.iteration, c.groups, nil); exitcode.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q (code %d)", err, c.want, c.code)
		}
	}
	var s seen
	groups := []Group{group("a", response(2, ok, 1, 1), response(0, shard.OutcomeInfra, nan, nan), response(1, ok, 0, 0)), group("b", response(0, ok, 1, 1))}
	state, err := Update(&s, State{}, 3, groups, nil)
	if err != nil || state.Iteration != 3 || !slices.Equal(s.samples, []int{0, 1, 2, 0}) {
		t.Errorf("iteration %d of the samples %v, %v", state.Iteration, s.samples, err)
	}
	if groups[0].Responses[0].Sample != 2 {
		t.Error("the caller's responses have been put in order")
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		iteration, n int
		tasks        []string
		code         int
	}{
		{1, 3, []string{"a"}, 0},
		{1, 0, []string{"a"}, 0},
		{0, 1, []string{"a"}, exitcode.Bug},
		{1, -1, []string{"a"}, exitcode.Bug},
		{1, 1, nil, exitcode.Data},
	} {
		selections, err := Next(new(seen), State{}, c.iteration, c.n, c.tasks)
		if (err == nil) != (c.code == 0) || err != nil && exitcode.Code(err) != c.code || err == nil && len(selections) != c.n {
			t.Errorf("%+v: %d selections, %v", c, len(selections), err)
		}
	}
}

// By hand: of 0.2, 0.5, 0.9 and 0.4 the mean is 0.5, and the squares of the
// deviations 0.09, 0, 0.16 and 0.01 have the mean 0.065.
func TestMeanVariance(t *testing.T) {
	t.Parallel()
	g := group("a", response(0, shard.OutcomeOK, 1, .2), response(1, shard.OutcomeWrong, 0, .5), response(2, shard.OutcomeInfra, 0, 9),
		response(3, shard.OutcomeTimeout, 0, .9), response(4, shard.OutcomeInvalid, 0, .4))
	mean, variance := MeanVariance(g.Values(RewardOf))
	if math.Abs(mean-.5) > 1e-15 || math.Abs(variance-.065) > 1e-15 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
}

// Of the weights 0, 1, 0, 3 and 0 the second has the first quarter.
func TestDraw(t *testing.T) {
	t.Parallel()
	c := Cumulate([]float64{0, 1, 0, 3, 0})
	for u, want := range map[float64]int{0: 1, .24: 1, .25: 3, .99: 3, math.Nextafter(1, 0): 3} {
		if got := c.Draw(u); got != want {
			t.Errorf("%v draws %d, want %d", u, got, want)
		}
	}
	if got := Cumulate([]float64{1, 3}).Draw(.5); got != 1 {
		t.Errorf("of the weights 1 and 3 one half draws %d, want the last", got)
	}
}
