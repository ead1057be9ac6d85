package credit

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// said is a trace of one context: a prompt of one token, and turns of the given
// numbers of tokens with a token of the environment's between them.
func said(outcome shard.Outcome, reward float64, turns ...int) Trace {
	c := Context{TurnTokens: turns, FinishReason: "stop"}
	score := shard.Score{Outcome: string(outcome), NormalizedScore: reward, Reward: reward}
	for i, tokens := range turns {
		c.Tokens += 1 + tokens
		score.Turns = append(score.Turns, shard.TurnScore{Outcome: string(outcome), NormalizedScore: float64(i), Reward: float64(i) / 10})
	}
	return Trace{Contexts: []Context{c}, Score: score}
}

// sections are those of a recipe that have settings here.
type sections struct {
	Advantage AdvantageSettings
	Select    Selection
}

func (s sections) spec() Spec {
	return Spec{
		Segments: Choice{Name: "trajectory"}, Reward: Choice{Name: "verdict"}, Select: s.Select,
		Advantage: Choice{s.Advantage.Name, &s.Advantage}, Clip: s.Advantage.Clip,
	}
}

// plain is a composition of the given advantage and selection.
func plain(t testing.TB, change func(*sections)) Composition {
	t.Helper()
	r := sections{Advantage: AdvantageSettings{Name: "group", Baseline: "mean", Scale: "none", ZeroScale: "divide", GroupOfOne: "zero"}}
	if change != nil {
		change(&r)
	}
	c, err := New(r.spec())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func assign(t testing.TB, c Composition, groups ...Group) [][]Segment {
	t.Helper()
	segments, _, err := c.Assign(1, nil, groups)
	if err != nil {
		t.Fatal(err)
	}
	return segments
}

// TestTokenTurns: two messages of 2 and 1 tokens.
func TestTokenTurns(t *testing.T) {
	t.Parallel()
	trace := said(shard.OutcomeOK, 1, 2, 1)
	if diff := cmp.Diff([]int{-1, 0, 0, -1, 1}, TokenTurns([]bool{false, true, true, false, true}, 2)); diff != "" {
		t.Errorf("turns of the tokens (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{2, 1}, trace.Tokens()); diff != "" {
		t.Errorf("tokens of the turns (-want +got):\n%s", diff)
	}
	for messages := range 2 { // more runs than messages are of the last
		if diff := cmp.Diff([]int{0, 0, -1, 0}, TokenTurns([]bool{true, true, false, true}, messages)); diff != "" {
			t.Errorf("turns of %d messages (-want +got):\n%s", messages, diff)
		}
	}
	if diff := cmp.Diff([]int{0, -1, 1}, TokenTurns([]bool{true, false, true}, 2)); diff != "" {
		t.Errorf("turns from the first token (-want +got):\n%s", diff)
	}
	if n := Tokens(said(shard.OutcomeOK, 1, 1, 2, 4, 8), Segment{First: 1, Last: 2}); n != 6 {
		t.Errorf("%d tokens of turns 1 and 2, want 6", n)
	}
	two := Trace{Contexts: append(trace.Contexts, said(shard.OutcomeOK, 1, 4).Contexts...)}
	if diff := cmp.Diff([]int{2, 1, 4}, two.Tokens()); diff != "" {
		t.Errorf("over two contexts (-want +got):\n%s", diff)
	}
}

// TestReasons: what is not trained on, and which of several reasons counts.
func TestReasons(t *testing.T) {
	t.Parallel()
	ok := func(reward float64) Trace { return said(shard.OutcomeOK, reward, 3) }
	infra, preempted, unknown := said(shard.OutcomeInfra, 0, 3), said(shard.OutcomePreempted, 0), said("lost", 0, 3)
	invalid, timeout, empty := said(shard.OutcomeInvalid, 0, 3), said(shard.OutcomeTimeout, 0, 3), said(shard.OutcomeWrong, 0)
	long, cut := said(shard.OutcomeWrong, 0, 3), said(shard.OutcomeInvalid, 0, 3)
	long.Contexts[0].FinishReason, cut.Contexts[0].FinishReason = "length", "length"
	silent := said(shard.OutcomeInvalid, 0)
	silent.Contexts[0].FinishReason = "length"
	everything := Named(ReasonConstantGroup, ReasonOverlong, ReasonMinGroup).With(ReasonMinAdvantage, &MinAdvantage{.01})
	for _, c := range []struct {
		what   string
		choose Selection
		group  []Trace
		want   []string
	}{
		{"the policy's own outcomes stay", everything, []Trace{ok(1), invalid, timeout}, []string{"", "", ""}},
		{"ours do not", nil, []Trace{ok(1), infra, preempted, unknown}, []string{"", "infra", "preempted", "infra"}},
		{"constant group", everything, []Trace{ok(1), ok(1), ok(1)}, []string{"constant_group", "constant_group", "constant_group"}},
		{"constant among the valid", everything, []Trace{ok(1), ok(1), infra}, []string{"constant_group", "constant_group", "infra"}},
		{"constant but for what no one can learn from", everything, []Trace{ok(1), ok(1), ok(math.NaN())}, []string{"constant_group", "constant_group", "unlearnable"}},
		{"constant but for what is dropped before", everything.With(ReasonNoSubmission, nil), []Trace{ok(1), ok(1), invalid}, []string{"constant_group", "constant_group", "no_submission"}},
		{"constant group kept", nil, []Trace{ok(1), ok(1)}, []string{"", ""}},
		{"too few valid", everything, []Trace{ok(1), infra, infra}, []string{"min_group", "infra", "infra"}},
		{"just enough valid", everything, []Trace{ok(1), ok(0), infra}, []string{"", "", "infra"}},
		{"overlong", everything, []Trace{ok(1), long}, []string{"", "overlong"}},
		{"overlong kept", nil, []Trace{ok(1), long}, []string{"", ""}},
		{"invalid", Named(ReasonInvalid), []Trace{ok(1), invalid, timeout, long}, []string{"", "invalid", "", ""}},
		{"invalid and cut off", Named(ReasonInvalid, ReasonOverlong), []Trace{cut}, []string{"overlong"}},
		{"nothing to learn from", nil, []Trace{ok(1), empty}, []string{"", "empty"}},
		{"nothing said, and cut off", Named(ReasonOverlong), []Trace{ok(1), silent}, []string{"", "empty"}},
		// The mean is 0.5: advantages of 0.25, -0.25 and 0.
		{"small advantages", Selection{}.With(ReasonMinAdvantage, &MinAdvantage{.25}), []Trace{ok(.75), ok(.25), ok(.5)}, []string{"", "", "min_advantage"}},
		{"all ours", everything, []Trace{infra, infra}, []string{"infra", "infra"}},
		{"no group", everything, nil, nil},
	} {
		segments := assign(t, plain(t, func(r *sections) { r.Select = c.choose }), Group{Traces: c.group})
		var got []string
		for _, s := range segments[0] {
			got = append(got, s.Dropped)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", c.what, diff)
		}
	}
}

// TestSegments: one credit for a whole trace is that of its last turn; with one
// for each turn, rewards 0, 0.1 and 0.2 of three turns beside a trace of one turn
// and reward 0 have the mean 0.075.
func TestSegments(t *testing.T) {
	t.Parallel()
	group := Group{Traces: []Trace{said(shard.OutcomeOK, 1, 2, 1, 3), said(shard.OutcomeWrong, 0, 2)}}
	ignore := cmpopts.IgnoreFields(Segment{}, "Earned", "Factor", "Weight")
	near := cmpopts.EquateApprox(0, 1e-12)
	whole := assign(t, plain(t, nil), group)
	if diff := cmp.Diff([]Segment{{First: 0, Last: 2, Raw: 1, Reward: 1, Advantage: .5}, {Trace: 1, Raw: 0, Reward: 0, Advantage: -.5}}, whole[0], ignore); diff != "" {
		t.Errorf("by trajectory (-want +got):\n%s", diff)
	}
	c := plain(t, nil)
	var err error
	if c.Segments, err = SegmentsAxis.Make("turn", nil); err != nil {
		t.Fatal(err)
	}
	group.Traces[1].Score.Turns = nil // a score of the whole alone
	turns := assign(t, c, group)
	want := []Segment{
		{First: 0, Last: 0, Raw: 0, Reward: 0, Advantage: -.275},
		{First: 1, Last: 1, Raw: 1, Reward: .1, Advantage: -.175},
		{First: 2, Last: 2, Raw: 1, Reward: 1, Advantage: .725}, // the last is the whole's
		{Trace: 1, Raw: 0, Reward: 0, Advantage: -.275},
	}
	if diff := cmp.Diff(want, turns[0], ignore, near); diff != "" {
		t.Errorf("by turn (-want +got):\n%s", diff)
	}
	if cuts := (turnByTurn{}).Cut(said(shard.OutcomeInvalid, 0)); len(cuts) != 1 || cuts[0] != [2]int{0, -1} {
		t.Errorf("nothing said is cut into %v", cuts)
	}
}

// TestImprovement, ExIt §4: with a base of 0.6 there is 0.4 to gain.
func TestImprovement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind        shard.Kind
		base, score float64
		want        float64
	}{
		{shard.KindImprove, .6, .8, .5}, {shard.KindDiverge, .6, 1, 1}, {shard.KindImprove, .6, .4, 0}, {shard.KindImprove, 1, 1, 0}, {shard.KindInitial, .6, .8, .3},
	} {
		_, got := improvementReward(shard.Instance{Kind: string(c.kind), BaseScore: c.base}, shard.TurnScore{NormalizedScore: c.score, Reward: .3})
		if !(math.Abs(got-c.want) <= 1e-12) { // not of NaN
			t.Errorf("%s from %g to %g: %g, want %g", c.kind, c.base, c.score, got, c.want)
		}
	}
}

// ExIt App. A.4: diverge steps and base tasks earn the normalised score.
func TestImprovementOrScore(t *testing.T) {
	t.Parallel()
	for kind, want := range map[shard.Kind]float64{shard.KindImprove: .5, shard.KindDiverge: .8, shard.KindInitial: .8} {
		_, got := improvementOrScore(shard.Instance{Kind: string(kind), BaseScore: .6}, shard.TurnScore{NormalizedScore: .8, Reward: .3})
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s from 0.6 to 0.8: %g, want %g", kind, got, want)
		}
	}
}

// ExIt Eq. 6 has no bound: two clusters that are about as far from the
// centre make large factors.
func TestDiversityBound(t *testing.T) {
	t.Parallel()
	group := Group{}
	for _, x := range []float32{0, 0, 1, 1.01} {
		trace := said(shard.OutcomeOK, 1, 1)
		trace.Score.Embedding = []float32{x}
		group.Traces = append(group.Traces, trace)
	}
	group.Traces = append(group.Traces, said(shard.OutcomeInfra, 0, 1))
	segments := [][]Segment{{{}, {Trace: 1}, {Trace: 2}, {Trace: 3}, {Trace: 4}}}
	// The centre is 0.5025, the distances 0.5025, 0.5025, 0.4975 and 0.5075, their
	// range 0.01.
	for bound, want := range map[float64][]float64{0: {50.25, 50.25, 49.75, 50.75, 1}, 50: {50, 50, 49.75, 50, 1}, 1: {1, 1, 1, 1, 1}} {
		factor, err := FactorAxis.Make("diversity", &Diversity{Bound: bound})
		if err != nil {
			t.Fatal(err)
		}
		got, err := factor.Factor([]Group{group}, segments)
		if diff := cmp.Diff([][]float64{want}, got, cmpopts.EquateApprox(0, 1e-3)); diff != "" || err != nil {
			t.Errorf("bound %g (-want +got): %v\n%s", bound, err, diff)
		}
	}
}

// phase is a choice of select for tests: it drops rewards below a half.
type phase When

func (p phase) When() When { return When(p) }

func (p phase) Drop(_ Group, segments []Segment, at int) string {
	if segments[at].Reward < .5 {
		return "low"
	}
	return ""
}

// TestWhen: rewards 1, 0.6 and 0.2, beside one that we failed to score. Dropped before
// the statistics, the third does not count: the mean is 0.8. Dropped after, or masked, it
// does: 0.6. Compared with nothing, rewards stay.
func TestWhen(t *testing.T) {
	t.Parallel()
	group := Group{Traces: []Trace{said(shard.OutcomeOK, 1, 1), said(shard.OutcomeOK, .6, 1), said(shard.OutcomeWrong, .2, 1), said(shard.OutcomeInfra, 9, 1)}}
	for _, c := range []struct {
		when            When
		advantage       string
		advantages      []float64
		dropped, masked string // the third
	}{
		{Before, "group", []float64{.2, -.2, 0, 0}, "low", ""},
		{After, "group", []float64{.4, 0, -.4, 0}, "low", ""},
		{Mask, "group", []float64{.4, 0, -.4, 0}, "", "low"},
		{Before, "none", []float64{1, .6, 0, 0}, "low", ""},
		{After, "none", []float64{1, .6, .2, 0}, "low", ""},
	} {
		composition := plain(t, func(s *sections) { s.Advantage.Name = c.advantage })
		composition.Select = append(composition.Select, phase(c.when))
		for i, s := range assign(t, composition, group)[0] {
			want := []struct{ dropped, masked string }{{}, {}, {c.dropped, c.masked}, {dropped: ReasonInfra}}[i]
			if math.Abs(s.Advantage-c.advantages[i]) > 1e-12 || s.Dropped != want.dropped || s.Masked != want.masked {
				t.Errorf("when %d, trace %d: %+v", c.when, i, s)
			}
		}
	}
}

// A recipe's choices are all there, and what is no choice is an error of the recipe.
func TestNew(t *testing.T) {
	t.Parallel()
	whole := func() Spec {
		spec := sections{Advantage: AdvantageSettings{Name: "none"}, Select: Named(ReasonInvalid)}.spec()
		spec.Factors, spec.Weights = []Choice{{Name: "duration"}}, []Choice{{Name: "duration"}, {Name: "diversity"}}
		return spec
	}
	c, err := New(whole())
	if err != nil || len(c.Select) != 2 || len(c.Factors) != 1 || len(c.Weights) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	for axis, change := range map[string]func(*Spec){
		"segments": func(s *Spec) { s.Segments.Name = "x" }, "reward": func(s *Spec) { s.Reward.Name = "x" }, "advantage": func(s *Spec) { s.Advantage.Name = "x" },
		"select": func(s *Spec) { s.Select = Selection{}.With("x", nil) }, "factors": func(s *Spec) { s.Factors[0].Name = "x" }, "weights": func(s *Spec) { s.Weights[0].Name = "x" },
	} {
		spec := whole()
		change(&spec)
		if _, err := New(spec); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %v, want an error of the recipe", axis, err)
		}
	}
	wrong := plain(t, func(s *sections) { s.Advantage.Baseline = "x" })
	if _, _, err := wrong.Assign(1, nil, []Group{{Traces: []Trace{said(shard.OutcomeOK, 1, 1), said(shard.OutcomeOK, 0, 1)}}}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("baseline x: %v, want an error of the recipe", err)
	}
}

// Numbers of turns are those of the trace, of which a segment may begin later.
func TestTurnsOfSegments(t *testing.T) {
	t.Parallel()
	s := Segment{First: 2, Last: 3, Factor: 3, Weight: 5, TurnFactors: []float64{1, 2}, TurnWeights: []float64{2, 4}, MaskedTurns: []bool{false, true}}
	if s.FactorOf(3) != 6 || s.WeightOf(3) != 20 || s.HasGradient(3) || !s.HasGradient(2) || !(Segment{}).HasGradient(0) {
		t.Errorf("%+v: factor %g, weight %g", s, s.FactorOf(3), s.WeightOf(3))
	}
	if (Segment{Dropped: "x"}).HasGradient(0) || (Segment{Masked: "x"}).HasGradient(0) {
		t.Error("what is dropped or masked has a gradient")
	}
}

// times is a factor for tests, of all segments.
type times struct {
	factor float64
	late   bool
}

func (x times) AfterWhitening() bool { return x.late }

func (x times) Factor(groups []Group, segments [][]Segment) ([][]float64, error) {
	factors := make([][]float64, len(segments))
	for g := range segments {
		factors[g] = make([]float64, len(segments[g]))
		for i := range factors[g] {
			factors[g][i] = x.factor
		}
	}
	return factors, nil
}

// TestFactors: advantages ±0.5 are doubled and then bounded by 0.75; a factor
// after whitening is handed on.
func TestFactors(t *testing.T) {
	t.Parallel()
	c := plain(t, func(r *sections) { r.Advantage.Clip = .75 })
	c.Factors = []Factor{times{2, false}, times{2, true}}
	got := assign(t, c, Group{Traces: []Trace{said(shard.OutcomeOK, 1, 1), said(shard.OutcomeWrong, 0, 1)}})[0]
	if got[0].Advantage != .75 || got[1].Advantage != -.75 || got[0].Factor != 2 {
		t.Errorf("%+v", got)
	}
}

// TestDiversity, ExIt Eq. 6, on a line: embeddings 0, 1 and 5 have the
// centre 2, distances 2, 1 and 3, and a range of 2.
func TestDiversity(t *testing.T) {
	t.Parallel()
	traces := []Trace{said(shard.OutcomeOK, .5, 1), said(shard.OutcomeOK, -1, 1), said(shard.OutcomeOK, 2, 1), said(shard.OutcomeInfra, 0, 1)}
	for i, x := range []float32{0, 1, 5} {
		traces[i].Score.Embedding = []float32{x}
	}
	c := plain(t, func(r *sections) { r.Advantage.Baseline = "none" })
	factor, err := FactorAxis.Make("diversity", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Factors = []Factor{factor}
	for i, want := range []float64{.5, -.5, 3, 0} {
		if got := assign(t, c, Group{Traces: traces})[0][i].Advantage; math.Abs(got-want) > 1e-12 {
			t.Errorf("advantage %d is %g, want %g", i, got, want)
		}
	}
}

// TestGroupsDoNotMeet: what a group gets does not depend on the others, nor a
// trace's on the order of the traces.
func TestGroupsDoNotMeet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) Trace {
			outcome := rapid.SampledFrom([]shard.Outcome{shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeInvalid, shard.OutcomeInfra}).Draw(t, "outcome")
			return said(outcome, float64(rapid.IntRange(0, 4).Draw(t, "reward"))/4, rapid.IntRange(1, 3).Draw(t, "tokens"))
		})
		a, b := rapid.SliceOfN(draw, 1, 5).Draw(t, "a"), rapid.SliceOfN(draw, 1, 5).Draw(t, "b")
		r := sections{Advantage: AdvantageSettings{Name: "group", Baseline: "mean", Scale: "std", Epsilon: 1e-6, ZeroScale: "divide", GroupOfOne: "zero"}, Select: Named(ReasonMinGroup, ReasonConstantGroup)}
		c, err := New(r.spec())
		if err != nil {
			t.Fatal(err)
		}
		both, _, err := c.Assign(1, nil, []Group{{Traces: a}, {Traces: b}})
		if err != nil {
			t.Fatal(err)
		}
		alone, _, err := c.Assign(1, nil, []Group{{Traces: b}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(alone[0], both[1]); diff != "" {
			t.Fatalf("beside another group (-alone +both):\n%s", diff)
		}
	})
}
