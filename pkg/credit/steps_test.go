package credit

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// acted is a trace of actions: a number is a valid submission with that rank, NaN an
// invalid action, and -1 one that is well formed and submits nothing.
func acted(ranks ...float64) Trace {
	var t Trace
	c := Context{FinishReason: "stop"}
	for _, rank := range ranks {
		turn := shard.TurnScore{Outcome: string(shard.OutcomeOK), NormalizedScore: rank}
		switch {
		case math.IsNaN(rank):
			turn = shard.TurnScore{Outcome: string(shard.OutcomeInvalid)}
		case rank < 0:
			turn = shard.TurnScore{Outcome: string(shard.OutcomeWrong)}
		}
		c.TurnTokens, c.Tokens = append(c.TurnTokens, 2), c.Tokens+3
		t.Score.Turns = append(t.Score.Turns, turn)
		t.Score.Outcome, t.Score.NormalizedScore = turn.Outcome, turn.NormalizedScore
	}
	t.Contexts = []Context{c}
	if len(ranks) == 0 {
		t.Score.Outcome = string(shard.OutcomeInvalid)
	}
	return t
}

func ofTask(task string, kind shard.Kind, traces ...Trace) Group {
	return Group{Instance: shard.Instance{GroupID: task, TaskID: task, Kind: string(kind)}, Traces: traces}
}

var nan = math.NaN()

// TestSubmissionSegments: MLE-RL §4.1: actions between two submissions that
// are valid.
func TestSubmissionSegments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trace Trace
		want  [][2]int
	}{
		{acted(-1, nan, .5, -1, .6), [][2]int{{0, 2}, {3, 4}}},
		{acted(.5, .6), [][2]int{{0, 0}, {1, 1}}},
		{acted(.5, -1, nan), [][2]int{{0, 0}, {1, 2}}}, // the last turns follow the last valid submission
		{acted(nan, -1), [][2]int{{0, 1}}},             // no valid submission
		{acted(), [][2]int{{0, -1}}},
	} {
		if diff := cmp.Diff(c.want, submissions{}.Cut(c.trace)); diff != "" {
			t.Errorf("segments (-want +got):\n%s", diff)
		}
	}
}

// TestRunningMean: MLE-RL §4.1 by hand.
func TestRunningMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scores     []float64
		deviations float64
		want       float64
	}{
		{nil, 2, 0},
		{[]float64{.4}, 2, .4},
		{[]float64{.5, .5, .5}, 2, .5}, // σ = 0: all are at the bound, and stay
		// μ = 0.8, σ = √(0.8²+4·0.2²)/√5 = 0.4: 0 lies exactly two below, and stays.
		{[]float64{0, 1, 1, 1, 1}, 2, .8},
		{[]float64{.1, .7, .7, .7, .7}, 2, .58}, // the same, but for rounding
		// A third of their sum is 9.3e-10 above each, and σ as small: none falls away.
		{[]float64{6550770.4, 6550770.4, 6550770.4}, .5, 6550770.400000001},
		// μ = 5/6, σ = √(30/216) = 0.3727, μ − 2σ = 0.088: 0 is left out.
		{[]float64{1, 1, 0, 1, 1, 1}, 2, 1},
		{[]float64{1, 1, 0, 1, 1, 1}, 0, 5. / 6}, // nothing is left out
		{[]float64{0, 0, 0, 0, 0, 1}, 2, 1. / 6}, // no bound above
	} {
		var w window
		for _, s := range c.scores {
			w.scores = append(w.scores, shard.Stat{Value: s})
		}
		if got := w.mean(c.deviations); !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("the mean of %v is %v, want %v", c.scores, got, c.want)
		}
	}
}

// TestWindow: with W = 2, submissions in their order are compared with the two before
// them. Task a from scratch: 0.5 (empty window, 0: above it), 0.4 (0.5: not), 0.46
// (0.45: above); 0.43 = mean of 0.4 and 0.46: not strictly above. From a solution: 0.1
// (its own empty window), 0.3. Task b has its own. An invalid action enters nothing.
func TestWindow(t *testing.T) {
	t.Parallel()
	groups := []Group{
		ofTask("a", shard.KindInitial, acted(.5, nan, .4), acted(.46, -1)),
		ofTask("b", shard.KindInitial, acted(.2)),
		ofTask("a", shard.KindImprove, acted(.1)),
		ofTask("a", shard.KindInitial, acted(.43)),
	}
	rewardOf := func(r RunningMean, stats []shard.Stat) ([]float64, []shard.Stat) {
		t.Helper()
		segments := cut(groups)
		next, err := r.Reward(3, stats, groups, segments)
		if err != nil {
			t.Fatal(err)
		}
		var rewards []float64
		for _, g := range segments {
			for _, s := range g {
				rewards = append(rewards, s.Reward)
			}
		}
		return rewards, next
	}
	r := RunningMean{Window: 2, Deviations: 2}
	other := shard.Stat{Scope: "threshold", Key: "a", Name: "scratch", Value: .9}
	rewards, stats := rewardOf(r, []shard.Stat{other})
	if diff := cmp.Diff([]float64{1, 0, 1, 0, 1, 1, 0}, rewards); diff != "" {
		t.Errorf("rewards, by segment (-want +got):\n%s", diff)
	}
	row := func(task, kind string, value float64) shard.Stat {
		return shard.Stat{Scope: "window", Key: task, Name: kind, Iteration: 3, Value: value}
	}
	want := []shard.Stat{other, row("a", "scratch", .46), row("a", "scratch", .43), row("b", "scratch", .2), row("a", "solution", .1)}
	if diff := cmp.Diff(want, stats); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	// Again, from these windows: 0.5 against 0.445, 0.4 against 0.465, 0.46 against
	// 0.45, 0 for nothing; 0.2 against 0.2 is not above; 0.1 neither; 0.43 = 0.43.
	rewards, _ = rewardOf(r, stats)
	if diff := cmp.Diff([]float64{1, 0, 1, 0, 0, 0, 0}, rewards); diff != "" {
		t.Errorf("rewards from the windows of before (-want +got):\n%s", diff)
	}
	r.Signed, r.Threshold = true, .01
	rewards, _ = rewardOf(r, nil)
	if diff := cmp.Diff([]float64{.49, -.11, 0, 0, .19, .09, -.01}, rewards, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("signed rewards (-want +got):\n%s", diff)
	}
	// One window: 0.1 comes after 0.4 and 0.46, and 0.43 after 0.46 and 0.1.
	rewards, _ = rewardOf(RunningMean{Window: 2, OneWindow: true}, nil)
	if diff := cmp.Diff([]float64{1, 0, 1, 0, 1, 0, 1}, rewards); diff != "" {
		t.Errorf("rewards of one window (-want +got):\n%s", diff)
	}
}

func cut(groups []Group) [][]Segment {
	segments := make([][]Segment, len(groups))
	for g, group := range groups {
		for i, trace := range group.Traces {
			for _, turns := range (submissions{}).Cut(trace) {
				segments[g] = append(segments[g], Segment{Trace: i, First: turns[0], Last: turns[1]})
			}
		}
	}
	return segments
}

// steps is MLE-RL's credit, with choices of select beside those of valid submissions.
func steps(t testing.TB, more Selection) Composition {
	t.Helper()
	c := plain(t, func(s *sections) {
		s.Advantage.Name = "none"
		s.Select = append(Named(ReasonNoSubmission, ReasonInvalidTurns), more...)
	})
	c.Segments, c.Reward = submissions{}, &RunningMean{Window: 64, Deviations: 2}
	return c
}

func above(percentile float64, submissions int) Selection {
	return Selection{}.With(ReasonBelowPercentile, &BelowPercentile{percentile, submissions})
}

func improved(n NotImproved) Selection { return Selection{}.With(ReasonNotImproved, &n) }

// TestValuableSteps: of three traces the submissions 0.1, 0.2; 0.3; 0.35, 0.32. The 70th
// percentile of the first four is 0.2 + 0.1·(0.7·3 − 2) + … = sorted 0.1, 0.2, 0.3,
// 0.35 at 2.1: 0.3 + 0.1 × 0.05 = 0.305. Above it: 0.35 and 0.32. More than 0.01 above
// the first of its trace: 0.2 alone.
func TestValuableSteps(t *testing.T) {
	t.Parallel()
	group := ofTask("a", shard.KindInitial, acted(.1, nan, .2, -1), acted(.3), acted(.35, .32))
	dropped := func(c Composition, stats []shard.Stat, groups ...Group) ([]string, []shard.Stat) {
		t.Helper()
		segments, next, err := c.Assign(1, stats, groups)
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for _, g := range segments {
			for _, s := range g {
				reasons = append(reasons, s.Dropped)
			}
		}
		return reasons, next
	}
	thresholds := func(stats []shard.Stat) (own []shard.Stat) {
		for _, s := range stats {
			if s.Scope == "threshold" {
				own = append(own, s)
			}
		}
		return own
	}
	const low, same, none = ReasonBelowPercentile, ReasonNotImproved, ReasonNoSubmission
	four := above(70, 4)
	got, stats := dropped(steps(t, four), nil, group)
	if diff := cmp.Diff([]string{low, low, none, low, "", ""}, got); diff != "" {
		t.Errorf("above the percentile (-want +got):\n%s", diff)
	}
	made := []shard.Stat{{Scope: "threshold", Key: "a", Name: "threshold", Iteration: 1, Value: .305}}
	if diff := cmp.Diff(made, thresholds(stats), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("the threshold (-want +got):\n%s", diff)
	}
	// It stays. A score on it is not above it. Another task gets its own, 0.3 + 0.1 × 0.1.
	got, stats = dropped(steps(t, four), made, ofTask("a", shard.KindInitial, acted(.305, .31)), ofTask("b", shard.KindInitial, acted(.1, .2, .3, .4)))
	if diff := cmp.Diff([]string{low, "", low, low, low, ""}, got); diff != "" {
		t.Errorf("with the threshold (-want +got):\n%s", diff)
	}
	made = append(made, shard.Stat{Scope: "threshold", Key: "b", Name: "threshold", Iteration: 1, Value: .31})
	if diff := cmp.Diff(made, thresholds(stats), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("the threshold later (-want +got):\n%s", diff)
	}
	// Too few submissions: nothing is kept, and they are remembered.
	got, stats = dropped(steps(t, above(70, 6)), nil, group)
	if len(thresholds(stats)) != 5 || got[4] != low {
		t.Errorf("five of six submissions: dropped %q, statistics %v", got, thresholds(stats))
	}
	// Another task that has six is not kept waiting: five scores and a threshold.
	if _, both := dropped(steps(t, above(70, 6)), nil, group, ofTask("b", shard.KindInitial, acted(.1, .2, .3, .4, .5, .6))); len(thresholds(both)) != 6 {
		t.Errorf("of five submissions and of six: %v", thresholds(both))
	}
	// With a sixth there is a threshold: at 3.5 of six, the mean of 0.32 and 0.35.
	if got, stats = dropped(steps(t, above(70, 6)), stats, ofTask("a", shard.KindInitial, acted(.9))); got[0] != "" || math.Abs(thresholds(stats)[0].Value-.335) > 1e-12 {
		t.Errorf("the sixth of six submissions: dropped %q, statistics %v", got, thresholds(stats))
	}
	for _, c := range []struct {
		values  []float64
		p, want float64
	}{{[]float64{.5}, 70, .5}, {[]float64{3, 1, 2}, 50, 2}, {[]float64{1, 2}, 25, 1.25}} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("the %gth percentile of %v is %v, want %v", c.p, c.values, got, c.want)
		}
	}
	got, _ = dropped(steps(t, improved(NotImproved{Threshold: .01})), nil, group)
	if diff := cmp.Diff([]string{same, "", same, same, same}, append(got[:2:2], got[3:]...)); diff != "" {
		t.Errorf("improved (-want +got):\n%s", diff)
	}
	got, _ = dropped(steps(t, improved(NotImproved{Threshold: .01, ExemptFirst: true})), nil, group)
	if diff := cmp.Diff([]string{"", "", "", "", same}, append(got[:2:2], got[3:]...)); diff != "" {
		t.Errorf("improved, the first exempt (-want +got):\n%s", diff)
	}
	// An improvement of exactly the threshold is none: 0.75 − 0.5 = 0.25.
	got, _ = dropped(steps(t, improved(NotImproved{Threshold: .25})), nil, ofTask("a", shard.KindInitial, acted(.5, .75)))
	if diff := cmp.Diff([]string{same, same}, got); diff != "" {
		t.Errorf("on the threshold (-want +got):\n%s", diff)
	}
}

// TestInvalidTurns: invalid actions have no gradient inside of a step; those that only
// look have one; a trace without a valid submission has none at all.
func TestInvalidTurns(t *testing.T) {
	t.Parallel()
	got := assign(t, steps(t, nil), ofTask("a", shard.KindInitial, acted(nan, -1, .4, .5), acted(-1, nan), acted()))[0]
	want := []Segment{
		{Last: 2, Raw: .4, Reward: 1, Advantage: 1, MaskedTurns: []bool{true, false, false}},
		{First: 3, Last: 3, Raw: .5, Reward: 1, Advantage: 1},
		{Trace: 1, Last: 1, Dropped: ReasonNoSubmission, MaskedTurns: []bool{false, true}},
		{Trace: 2, Last: -1, Dropped: ReasonNoSubmission},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Segment{}, "Earned", "Factor", "Weight")); diff != "" {
		t.Errorf("credit (-want +got):\n%s", diff)
	}
	got = assign(t, steps(t, nil), ofTask("a", shard.KindInitial, acted(.4, nan, nan, -1, .5)))[0]
	if diff := cmp.Diff([]bool{true, true, false, false}, got[1].MaskedTurns); diff != "" {
		t.Errorf("masked turns of a later segment (-want +got):\n%s", diff)
	}
	// Of what a mask finds, the gradient alone is taken, whatever the choice looks at.
	masked := Selection{{Name: ReasonBelowPercentile, Settings: &Picked{Mask: true, Own: &BelowPercentile{70, 4}}}, {Name: ReasonInvalidTurns, Settings: &Picked{Mask: true}}}
	got = assign(t, steps(t, masked), ofTask("a", shard.KindInitial, acted(nan, .1), acted(.2, .3), acted(.4)))[0]
	for i, reason := range []string{ReasonBelowPercentile, ReasonBelowPercentile, ReasonBelowPercentile, ""} {
		if got[i].Masked != reason || got[i].Dropped != "" || (got[i].MaskedTurns != nil) != (i == 0) {
			t.Errorf("segment %d: %+v, want %q masked", i, got[i], reason)
		}
	}
}

// TestWindowsCarry: windows and thresholds that go through the statistics, iteration by
// iteration, come to what all iterations at once come to.
func TestWindowsCarry(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := steps(t, above(70, 100))
		c.Reward = &RunningMean{Window: rapid.IntRange(1, 5).Draw(rt, "window"), Deviations: 2}
		var all []Group
		var apart []float64
		var stats []shard.Stat
		for range rapid.IntRange(1, 4).Draw(rt, "iterations") {
			var groups []Group
			for range rapid.IntRange(0, 3).Draw(rt, "groups") {
				ranks := rapid.SliceOfN(rapid.SampledFrom([]float64{nan, -1, .1, .2, .5, .9}), 0, 5).Draw(rt, "ranks")
				groups = append(groups, ofTask(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "task"), rapid.SampledFrom([]shard.Kind{shard.KindInitial, shard.KindImprove}).Draw(rt, "kind"), acted(ranks...)))
			}
			segments, next, err := c.Assign(1, stats, groups)
			if err != nil {
				rt.Fatal(err)
			}
			stats, all, apart = next, append(all, groups...), append(apart, rewards(segments)...)
		}
		segments, _, err := c.Assign(1, nil, all)
		if diff := cmp.Diff(rewards(segments), apart); diff != "" || err != nil {
			rt.Errorf("%v (-at once +by iteration):\n%s", err, diff)
		}
	})
}

func rewards(segments [][]Segment) (all []float64) {
	for _, g := range segments {
		for _, s := range g {
			all = append(all, s.Reward)
		}
	}
	return all
}

// TestRetainedWindows by hand: with windows of what is trained on, the first iteration
// compares with nothing. 0.2 and 0.3 were cut off and are left out, so 0.4 alone is in
// the window of the second, where 0.45 is 0.05 above it and 0.1 is 0.3 below.
func TestRetainedWindows(t *testing.T) {
	t.Parallel()
	c := steps(t, nil)
	overlong, err := SelectAxis.Make(ReasonOverlong, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Select = []Select{overlong}
	cutOff := func(rank float64) Trace {
		trace := acted(rank)
		trace.Contexts[0].FinishReason = "length"
		return trace
	}
	c.Reward = &RunningMean{Window: 4, Signed: true, Retained: true}
	segments, stats, err := c.Assign(1, nil, []Group{ofTask("a", shard.KindInitial, cutOff(.2), cutOff(.3), acted(.4))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{.2, .3, .4}, rewards(segments), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("the first iteration: %s", diff)
	}
	var window []float64
	for _, s := range stats {
		if s.Scope == scopeWindow {
			window = append(window, s.Value)
		}
	}
	if diff := cmp.Diff([]float64{.4}, window); diff != "" {
		t.Errorf("the window: %s", diff)
	}
	segments, _, err = c.Assign(2, stats, []Group{ofTask("a", shard.KindInitial, acted(.45), acted(.1))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{.05, -.3}, rewards(segments), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("the second iteration: %s", diff)
	}
}

// TestManyWindows: an iteration costs what its submissions and the windows of 10^5
// competitions cost, once.
//
// Alone: its time is bounded.
func TestManyWindows(t *testing.T) {
	const tasks = 100_000
	var stats []shard.Stat
	for task := range tasks {
		for i := range 4 {
			stats = append(stats, shard.Stat{Scope: scopeWindow, Key: fmt.Sprint(task), Name: fromScratch, Value: float64(i) / 4})
		}
	}
	var groups []Group
	for g := range 64 {
		groups = append(groups, ofTask(fmt.Sprint(g*7), shard.KindInitial, acted(.9), acted(.1), acted(.5), acted(nan)))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := cputime.Spent(t, false)
	_, next, err := steps(t, nil).Assign(1, stats, groups)
	took := cputime.Spent(t, false) - began
	runtime.ReadMemStats(&after)
	if err != nil || len(next) != 4*tasks+64*3 {
		t.Fatalf("%d statistics, %v", len(next), err)
	}
	t.Logf("%d competitions, %d scores: %v, %d MB allocated", tasks, len(next), took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
	if took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
