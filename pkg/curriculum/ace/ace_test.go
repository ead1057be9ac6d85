package ace

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var taskIDs = []string{"leaf", "pizza"}

var near = cmpopts.EquateApprox(0, 1e-12)

// response is one with a reward, of which a program came.
func response(sample int, outcome shard.Outcome, reward float64) curriculum.Response {
	return curriculum.Response{
		Sample: sample, Ref: shard.Ref{Iteration: 1, Sample: int32(sample), Messages: 2}, Roles: []string{"user", "assistant"}, PromptMessages: 1, Turns: 1,
		Score: shard.Score{Outcome: string(outcome), NormalizedScore: reward / 2, Extracted: "program"}, Reward: reward,
	}
}

func rewarded(rewards ...float64) (all []curriculum.Response) {
	for i, r := range rewards {
		all = append(all, response(i, shard.OutcomeOK, r))
	}
	return all
}

// group is of an instance that was drawn at a step from a state: an entry, or a draft.
func group(step int32, row int, task, parent string, responses ...curriculum.Response) curriculum.Group {
	return curriculum.Group{
		Instance:  shard.Instance{InstanceID: fmt.Sprintf("i%d-%d", step, row), TaskID: task, ParentID: parent, Iteration: step},
		Responses: responses,
	}
}

func updated(t testing.TB, a *Ace, state curriculum.State, step int, groups ...curriculum.Group) curriculum.State {
	t.Helper()
	next, err := curriculum.Update(a, state, step, groups, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestConform(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New: func(seed uint64) curriculum.Curriculum { return New(*DefaultSettings(), seed) },
		// The buffer grows by design: by an entry per response, and a statistic per visit.
		Rows: func(iterations int) int {
			return curriculumtest.Tasks + iterations*curriculumtest.Prompts*(1+curriculumtest.Group)
		},
	})
}

// TestPotential: AceGRPO Eq. 7 with the weights of AceGRPO Tab. 3, 0.5 and 0.5. Of 0, 0, 1, 1: σ = 0.5, μ =
// 0.5: 0.25 + 0.25. Of 0.2 and 0.6: σ = 0.2, μ = 0.4: 0.1 + 0.3.
func TestPotential(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rewards  []float64
		change   func(*Settings)
		want     float64
		deviates string
	}{
		{rewards: []float64{0, 0, 1, 1}, want: .5},
		{rewards: []float64{.2, .6}, want: .4},
		{rewards: []float64{1, 1, 1}, want: 0},      // solved
		{rewards: []float64{0, 0}, want: .5},        // all zero: the full headroom
		{rewards: []float64{.3}, want: .35},         // a group of one
		{rewards: []float64{-1, -3}, want: .5 + .5}, // σ = 1; 1 − μ = 3 is cut at 1
		{rewards: []float64{3, 1}, want: .5},        // σ = 1; 1 − μ = −1 is cut at 0
		{rewards: []float64{0, 4}, want: .5},        // σ = 2 is cut at δ_max = 1; no headroom
		{rewards: []float64{0, 0, 1, 1}, change: func(s *Settings) { s.UncertaintyWeight = 1 }, want: .75},
		{rewards: []float64{0, 0, 1, 1}, change: func(s *Settings) { s.MaxDeviation = .1 }, want: .3},
	} {
		spec := *DefaultSettings()
		if c.change != nil {
			c.change(&spec)
		}
		got, ok := New(spec, 1).potential(group(1, 0, "leaf", "", rewarded(c.rewards...)...))
		if !ok || math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%v: %v, %v; want %v", c.rewards, got, ok, c.want)
		}
	}
	infra := []curriculum.Response{response(0, shard.OutcomeInfra, 0), response(1, shard.OutcomePreempted, 0)}
	if _, ok := New(*DefaultSettings(), 1).potential(group(1, 0, "leaf", "", infra...)); ok {
		t.Error("a group of our failures has a potential")
	}
}

// TestUpdate: AceGRPO §4.1. A draft of leaf has a valid submission, a failed program, a
// response without a program and one that we lost; then its improvement is sampled twice
// in one step, and the draft of pizza once, at a step before.
func TestUpdate(t *testing.T) {
	t.Parallel()
	a := New(*DefaultSettings(), 1)
	silent := response(2, shard.OutcomeInvalid, 0)
	silent.Score.Extracted = ""
	first := updated(t, a, curriculum.State{}, 1, group(1, 0, "leaf", "",
		response(3, shard.OutcomeInfra, 0), silent, response(1, shard.OutcomeTimeout, 0), response(0, shard.OutcomeOK, 1)))
	entry := func(id, task, kind, parent string, depth, sample int32, base, potential float64) shard.Entry {
		return shard.Entry{
			EntryID: id, TaskID: task, Kind: kind, ParentID: parent, Depth: depth, Turn: 1, Ref: shard.Ref{Iteration: 1, Sample: sample, Messages: 2},
			BaseScore: base, Potential: potential,
		}
	}
	// Of 1, 0 and 0: σ = √2/3, μ = 1/3.
	sampled := 0.5*math.Sqrt2/3 + 0.5*2/3
	want := curriculum.State{Iteration: 1, Entries: []shard.Entry{
		{EntryID: "draft/leaf", TaskID: "leaf", Kind: "initial", Potential: sampled, LastSampled: 1, Visits: 1},
		{EntryID: "draft/pizza", TaskID: "pizza", Kind: "initial", Potential: .05},
		entry("i1-0/0", "leaf", "improve", "i1-0", 1, 0, .5, .05),
		entry("i1-0/1", "leaf", "debug", "i1-0", 1, 1, 0, .05),
	}, Stats: []shard.Stat{{Scope: "visit", Key: "draft/leaf", Name: "step", Iteration: 1, Value: 1}}}
	if diff := cmp.Diff(want, first, near); diff != "" {
		t.Errorf("after a draft (-want +got):\n%s", diff)
	}
	second := updated(t, a, first, 3,
		group(3, 0, "leaf", "i1-0/0", rewarded(0, 1)...), group(3, 1, "leaf", "i1-0/0", rewarded(1, 1)...), group(2, 2, "pizza", "", rewarded(0, 0)...))
	if got := second.Entries[2]; got.Potential != 0 || got.Visits != 2 || got.LastSampled != 3 {
		t.Errorf("a state that was drawn twice in a step: %+v; want the potential of the later group, 0", got)
	}
	if got := second.Entries[1]; got.Potential != .5 || got.LastSampled != 2 {
		t.Errorf("a state of an earlier step: %+v", got)
	}
	if got := visitsOf(second.Stats); !cmp.Equal(got, map[string][]int32{"draft/leaf": {1}, "i1-0/0": {3}, "draft/pizza": {2}}) {
		t.Errorf("visits %v: two draws in one step count once", got)
	}
	if len(second.Entries) != 4+6 || second.Entries[4].Depth != 1 || second.Entries[4].EntryID != "i3-0/0" {
		t.Errorf("%d states after six valid submissions: %+v", len(second.Entries), second.Entries[4:])
	}
	metrics := map[string]float64{"states": 10, "stage": 0, "states_initial": 2, "states_improve": 7, "states_debug": 1, "visited": 3, "potential_mean": (sampled + .5 + 0 + .05*7) / 10}
	if diff := cmp.Diff(metrics, a.Metrics(second), near); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if _, err := a.Update(second, 4, []curriculum.Group{group(4, 0, "leaf", "elsewhere")}, taskIDs); err == nil {
		t.Error("a group of another buffer was taken")
	}
	still := *DefaultSettings()
	still.Grow = false
	if got := updated(t, New(still, 1), curriculum.State{}, 1, group(1, 0, "leaf", "", rewarded(0, 1)...)); len(got.Entries) != 2 {
		t.Errorf("without growth the buffer has %d states", len(got.Entries))
	}
}

// TestHistory: of a state's visits the most recent are remembered, in their order, and a
// straggler's step finds its place.
func TestHistory(t *testing.T) {
	t.Parallel()
	spec := *DefaultSettings()
	spec.History = 3
	a := New(spec, 1)
	var state curriculum.State
	for i, step := range []int32{1, 2, 5, 4, 6} {
		state = updated(t, a, state, i+1, group(step, 0, "leaf", ""))
	}
	if got := visitsOf(state.Stats)["draft/leaf"]; !slices.Equal(got, []int32{4, 5, 6}) || state.Entries[0].Visits != 5 || state.Entries[0].LastSampled != 6 {
		t.Errorf("visits %v of %+v", got, state.Entries[0])
	}
}

// TestCooling: AceGRPO Eq. 9 with γ = 0.3 and η = 0.9.
func TestCooling(t *testing.T) {
	t.Parallel()
	a := New(*DefaultSettings(), 1)
	for _, c := range []struct {
		visits      []int32
		step, block int
		want        float64
	}{
		{nil, 5, 3, 1},
		{[]int32{4}, 5, 1, 0},          // 1 does not exceed 1
		{[]int32{4}, 6, 1, 1 - .3*.81}, // 2 does
		{[]int32{4}, 5, 0, 1 - .3*.9},  //
		{[]int32{5}, 5, 0, 0},          // the step itself
		{[]int32{1, 4}, 7, 2, (1 - .3*.531441) * (1 - .3*.729)},
	} {
		if got := a.cooling(c.visits, c.step, c.block); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("visits %v at step %d, Δ %d: %v, want %v", c.visits, c.step, c.block, got, c.want)
		}
	}
}

// TestDistribution: AceGRPO Eq. 8 and AceGRPO Eq. 10 by hand, with ρ = 2, a least weight of 0.1, ε =
// 0.2 and Δ = 1 at step 5. Two drafts (multiplier 2) with the potentials 0.5 and 0.1: ranks
// 0 and 1, weights 1 and 0.1. Three to improve on with 0.4, 0.2, 0.2: ranks 0, and 0.75 for
// the two that share the positions 1 and 2: weights 1, 0.1 (0.0625 is less), 0.1. One to debug
// alone: rank 0, weight 1. The first to improve on was visited at step 4: it rests; the
// one to debug at step 2: C = 1 − 0.3·0.9³ = 0.7813. The sum is 2 + 0.2 + 0.2 + 0.7813 =
// 3.1813, and five states are open.
func TestDistribution(t *testing.T) {
	t.Parallel()
	spec := *DefaultSettings()
	spec.Stages = []Stage{{Rho: 2, MinWeight: .1, Epsilon: .2, Top: 1, Block: 1}}
	a := New(spec, 1)
	state := curriculum.State{Iteration: 4, Entries: []shard.Entry{
		{EntryID: "draft/leaf", TaskID: "leaf", Kind: "initial", Potential: .5},
		{EntryID: "draft/pizza", TaskID: "pizza", Kind: "initial", Potential: .1},
		{EntryID: "a", TaskID: "leaf", Kind: "improve", Potential: .4, LastSampled: 4},
		{EntryID: "b", TaskID: "leaf", Kind: "improve", Potential: .2},
		{EntryID: "c", TaskID: "leaf", Kind: "improve", Potential: .2},
		{EntryID: "d", TaskID: "pizza", Kind: "debug", Potential: 0, LastSampled: 2},
	}, Stats: []shard.Stat{{Scope: "visit", Key: "a", Iteration: 4}, {Scope: "visit", Key: "d", Iteration: 2}}}
	q := func() []float64 { return a.distribution(state, a.states(state, taskIDs), 5).q }
	const sum = 3.1813
	want := []float64{.8*2/sum + .04, .8*.2/sum + .04, 0, .8*.1/sum + .04, .8*.1/sum + .04, .8*.7813/sum + .04}
	if diff := cmp.Diff(want, q(), near); diff != "" {
		t.Errorf("Q (-want +got):\n%s", diff)
	}
	terms, err := a.Explain(state, 5, 8, curriculum.Selection{TaskID: "pizza", ParentID: "d"})
	wantTerms := []curriculum.Term{
		{Name: "states", Value: 6},
		{Name: "potential"},
		{Name: "rank"},
		{Name: "ρ", Value: 2},
		{Name: "w_base", Value: 1},
		{Name: "C", Value: .7813},
		{Name: "multiplier", Value: 1},
		{Name: "ε", Value: .2},
		{Name: "probability", Value: want[5]},
	}
	if diff := cmp.Diff(wantTerms, terms, near); diff != "" || err != nil {
		t.Errorf("explained (-want +got): %v\n%s", err, diff)
	}
	if _, err := a.Explain(state, 5, 8, curriculum.Selection{TaskID: "pizza", ParentID: "e"}); err == nil {
		t.Error("a state that is not there was explained")
	}
	// The best 0.4 of the buffer, three of six states of all types: 0.5, 0.4, which rests,
	// and 0.2, of which there are two; ρ = 0 makes them equal, and 0^0 is 1.
	a.spec.Stages = []Stage{{Rho: 0, Top: .4, Block: 1}}
	if diff := cmp.Diff([]float64{.5, 0, 0, .25, .25, 0}, q(), near); diff != "" {
		t.Errorf("Q of the best 0.4 (-want +got):\n%s", diff)
	}
	a.spec.Adaptive = false
	if diff := cmp.Diff([]float64{1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6}, q(), near); diff != "" {
		t.Errorf("without adaptive sampling (-want +got):\n%s", diff)
	}
}

// TestAllRest: where every state rests, those drawn longest ago are drawn, never NaN.
func TestAllRest(t *testing.T) {
	t.Parallel()
	a := New(*DefaultSettings(), 1)
	state := updated(t, a, curriculum.State{}, 2, group(1, 0, "leaf", ""), group(2, 1, "pizza", ""))
	a.spec.Stages = []Stage{{Rho: 2, Top: 1, Block: 5}}
	got, err := a.Next(state, 3, 4, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got {
		if s.TaskID != "leaf" || s.Probability != 1 || s.SelectedBy != "least_recent" {
			t.Errorf("drawn while all rest: %+v", s)
		}
	}
}

// TestStages: AceGRPO App. B.4: below 200 states, below 1000, and from there.
func TestStages(t *testing.T) {
	t.Parallel()
	a := New(*DefaultSettings(), 1)
	for states, want := range map[int]int{0: 0, 199: 0, 200: 1, 999: 1, 1000: 2, 5000: 2} {
		if got := a.stage(5000, states); got != want {
			t.Errorf("%d states are stage %d, want %d", states, got, want)
		}
	}
	a.spec.StageBy = "steps"
	if got := a.stage(200, 5); got != 1 {
		t.Errorf("step 200 is stage %d, want 1", got)
	}
}

// TestDraws: 20,000 draws are within four standard deviations of Q, and what rests is
// never drawn.
func TestDraws(t *testing.T) {
	t.Parallel()
	a := New(*DefaultSettings(), 7)
	state := updated(t, a, curriculum.State{}, 1, group(1, 0, "leaf", "", rewarded(0, 1, .5)...))
	const n = 20000
	got, err := a.Next(state, 2, n, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, s := range got {
		counts[s.TaskID+" "+s.ParentID]++
	}
	q := a.distribution(state, state.Entries, 2).q
	for i, e := range state.Entries {
		key := e.TaskID + " "
		if e.Kind != "initial" {
			key += e.EntryID
		}
		if drawn, sigma := counts[key], math.Sqrt(n*q[i]*(1-q[i])); math.Abs(drawn-n*q[i]) > 4*sigma {
			t.Errorf("%s was drawn %v times, want %v ± %v", key, drawn, n*q[i], sigma)
		}
	}
	if q[0] != 0 || counts["leaf "] != 0 {
		t.Errorf("the draft of leaf rests, and has %v", q[0])
	}
}

// literal is Q_t read off AceGRPO Eq. 8, AceGRPO Eq. 9, AceGRPO Eq. 10 and
// AceGRPO Tab. 3, state by state and without any sorting.
func literal(s Settings, stage Stage, states []shard.Entry, visits map[string][]int32, step int) []float64 {
	q, open, total := make([]float64, len(states)), 0.0, 0.0
	considered := make([]bool, len(states))
	for i, x := range states {
		above, equal, of := 0.0, 0.0, 0.0
		better := 0.0 // states of any type
		for _, y := range states {
			if y.Potential > x.Potential {
				better++
			}
			switch {
			case y.Kind != x.Kind:
				continue
			case y.Potential > x.Potential:
				above++
			case y.Potential == x.Potential:
				equal++
			}
			of++
		}
		rank := 0.0
		if of > 1 {
			rank = (above + (equal-1)/2) / (of - 1)
		}
		weight := math.Pow(1-rank, stage.Rho)
		if weight < stage.MinWeight {
			weight = stage.MinWeight
		}
		cooling, last := 1.0, int32(math.MinInt32)
		for _, k := range visits[x.EntryID] {
			cooling *= 1 - s.Penalty*math.Pow(s.Decay, float64(int32(step)-k))
			last = max(last, k)
		}
		if last != math.MinInt32 && step-int(last) <= stage.Block {
			cooling = 0
		}
		considered[i] = better < math.Ceil(stage.Top*float64(len(states))-1e-9) && cooling > 0 && weight > 0
		if considered[i] {
			q[i] = weight * cooling * map[string]float64{"initial": s.Draft, "debug": s.Debug, "improve": s.Improve}[x.Kind]
			open, total = open+1, total+q[i]
		}
	}
	for i := range q {
		q[i] = (1 - stage.Epsilon) * q[i] / total
		if considered[i] {
			q[i] += stage.Epsilon / open
		}
	}
	return q
}

// TestLiteral: Q is what the equations say, sums to 1, and does not depend on the order of
// the states.
func TestLiteral(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := New(*DefaultSettings(), 1)
		a.spec.Stages = []Stage{{
			Rho: rapid.SampledFrom([]float64{0, 1, 2, 3.5}).Draw(rt, "rho"), MinWeight: rapid.SampledFrom([]float64{0, .01, .2}).Draw(rt, "least"),
			Epsilon: rapid.SampledFrom([]float64{0, .2, 1}).Draw(rt, "epsilon"), Top: rapid.SampledFrom([]float64{.4, .5, 1}).Draw(rt, "top"), Block: rapid.IntRange(0, 3).Draw(rt, "block"),
		}}
		var state curriculum.State
		for i := range rapid.IntRange(1, 20).Draw(rt, "states") {
			e := shard.Entry{EntryID: fmt.Sprint(i), Kind: rapid.SampledFrom([]string{"initial", "debug", "improve"}).Draw(rt, "kind"), Potential: rapid.SampledFrom([]float64{0, .05, .3, .5, 1}).Draw(rt, "potential")}
			for step := range int32(10) {
				if rapid.IntRange(0, 9).Draw(rt, "visited") == 0 {
					state.Stats = append(state.Stats, shard.Stat{Scope: "visit", Key: e.EntryID, Iteration: step + 1})
					e.LastSampled = step + 1
				}
			}
			state.Entries = append(state.Entries, e)
		}
		d := a.distribution(state, state.Entries, 11)
		sum := 0.0
		for _, q := range d.q {
			sum += q
		}
		if math.Abs(sum-1) > 1e-9 {
			rt.Fatalf("Q sums to %v", sum)
		}
		if d.rule == selectedLeastRecent {
			return
		}
		if diff := cmp.Diff(literal(a.spec, a.spec.Stages[0], state.Entries, visitsOf(state.Stats), 11), d.q, near); diff != "" {
			rt.Errorf("Q (-equations +ours):\n%s", diff)
		}
	})
}

// TestDefaults is AceGRPO Tab. 3, with the bounds of its stages from AceGRPO App. B.4.
func TestDefaults(t *testing.T) {
	t.Parallel()
	want := &Settings{
		UncertaintyWeight: 0.5,  // α
		HeadroomWeight:    0.5,  // λ
		MaxDeviation:      1,    // δ_max
		InitialPotential:  0.05, // P_init
		Stages: []Stage{ // early, mid and late: ρ, minimum ratio, ε, top percentile, Δ_hard
			{0, 2, 0.01, 0.2, 1, 1},
			{200, 3.5, 0.005, 0.15, 1, 2},
			{1000, 5, 0.001, 0.1, 0.4, 3},
		},
		StageBy: "states",
		Penalty: 0.3,                     // γ
		Decay:   0.9,                     // η
		History: 20,                      // visits tracked
		Draft:   2, Debug: 1, Improve: 1, // multipliers of the types
		Grow: true, Adaptive: true, // neither of the ablations
	}
	if diff := cmp.Diff(want, DefaultSettings()); diff != "" {
		t.Errorf("(-table +defaults):\n%s", diff)
	}
}

// TestSettings: what recipes may say.
func TestSettings(t *testing.T) {
	t.Parallel()
	type recipe struct {
		Curriculum struct {
			Ace Settings `yaml:"ace"`
		} `yaml:"curriculum"`
	}
	const in, first = "curriculum.ace.", "curriculum.ace.stages.0."
	rows := map[string]string{
		"": "", in + "history=1": "", first + "block=0": "", first + "top=.5": "", in + "stages=[]": in + "stages",
		first + "from=1": first + "from", in + "stages.1.from=0": in + "stages.1.from", in + "stages.1.from=1": "", in + "stages.2.from=200": in + "stages.2.from",
		first + "top=0": first + "top",
	}
	for field, wrong := range map[string]string{
		"uncertainty_weight": "-1", "headroom_weight": "-1", "max_deviation": "-1", "initial_potential": "-1", "penalty": "1.1", "decay": "1.1", "history": "0",
		"draft": "0", "debug": "0", "improve": "0", "stage_by": "x",
		"stages.0.rho": "-1", "stages.0.min_weight": "2", "stages.0.epsilon": "2", "stages.0.top": "2", "stages.0.block": "-1",
	} {
		rows[in+field+"="+wrong] = in + field
	}
	configtest.Checks(t, func() *recipe {
		var r recipe
		r.Curriculum.Ace = *DefaultSettings()
		return &r
	}, func(r *recipe, c *config.Checker) { validate(c, &r.Curriculum.Ace) }, rows)
}

// One open state is drawn by its potential, though its weight is 1; equals that rest are
// drawn alike; stages by steps count those that are done.
func TestCorners(t *testing.T) {
	t.Parallel()
	a := New(*DefaultSettings(), 1)
	a.spec.Draft, a.spec.StageBy = 1, "steps"
	a.spec.Stages = []Stage{{Rho: 2, Top: 1, Block: 1}, {From: 5, Rho: 3, Top: 1, Block: 1}}
	state := updated(t, a, curriculum.State{}, 1, group(1, 0, "leaf", ""))
	if d := a.distribution(state, state.Entries, 2); d.rule != selectedByPotential || !slices.Equal(d.q, []float64{0, 1}) {
		t.Errorf("one open state: %+v", d)
	}
	for step, from := range map[int]int{5: 0, 6: 5} {
		if d := a.distribution(state, state.Entries, step); d.stage.From != from {
			t.Errorf("step %d is of stage %+v", step, d.stage)
		}
	}
	d := distribution{q: make([]float64, 4)}
	if d.leastRecent([]shard.Entry{{LastSampled: 3}, {LastSampled: 1}, {LastSampled: 2}, {LastSampled: 1}}); !slices.Equal(d.q, []float64{0, .5, 0, .5}) {
		t.Errorf("those that rest longest: %v", d.q)
	}
	a.spec.Adaptive = false
	if terms, err := a.Explain(state, 2, 8, curriculum.Selection{TaskID: "leaf"}); len(terms) != 3 || terms[2].Value != .5 || err != nil {
		t.Errorf("without adaptive sampling: %+v, %v", terms, err)
	}
	if m := a.Metrics(curriculum.State{}); len(m) != 2 {
		t.Errorf("metrics of an empty buffer: %v", m)
	}
	if m := a.Metrics(curriculum.State{Entries: []shard.Entry{{Potential: .25}}}); m["potential_mean"] != .25 {
		t.Errorf("metrics of one state: %v", m)
	}
	silent := response(0, shard.OutcomeInvalid, 0)
	silent.Score.Extracted = ""
	if got := a.derived(group(1, 0, "leaf", "", silent, response(1, shard.OutcomeOK, 1))); len(got) != 1 || got[0].Ref.Sample != 1 {
		t.Errorf("after a response without a program: %+v", got)
	}
}
