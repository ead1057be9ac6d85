package flipts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var near = cmpopts.EquateApprox(1e-12, 0)

// questions are q0 to q(n-1).
func questions(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("q%d", i)
	}
	return ids
}

// group is the traces of a question, each a word with a letter for each turn: s
// for a success, f for a failure. An empty word is a trace that we failed.
func group(question string, traces ...string) curriculum.Group {
	g := curriculum.Group{Instance: shard.Instance{InstanceID: "of " + question, TaskID: question}}
	for _, turns := range traces {
		score := shard.Score{Outcome: string(shard.OutcomeInfra)}
		for _, turn := range turns {
			score.Outcome = string(shard.OutcomeWrong)
			if turn == 's' {
				score.Outcome = string(shard.OutcomeOK)
			}
			score.Turns = append(score.Turns, shard.TurnScore{Outcome: score.Outcome})
		}
		g.Responses = append(g.Responses, curriculum.Response{Sample: len(g.Responses), Score: score})
	}
	return g
}

// times repeats traces.
func times(n int, trace string) []string { return slices.Repeat([]string{trace}, n) }

// settings are small ones.
func settings() Settings {
	s := *DefaultSettings()
	s.WarmUp, s.PoolSize = 2, 5
	return s
}

func update(t testing.TB, f *FlipTS, state curriculum.State, tasks []string, groups ...curriculum.Group) (curriculum.State, belief) {
	t.Helper()
	state, err := curriculum.Update(f, state, state.Iteration+1, groups, tasks)
	if err != nil {
		t.Fatal(err)
	}
	b, err := read(state.Stats)
	if err != nil {
		t.Fatal(err)
	}
	return state, b
}

func TestConform(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New: func(seed uint64) curriculum.Curriculum { return New(settings(), seed) },
		// The prior's two numbers, the pool, and two of each question's belief.
		Rows: func(int) int { return 2 + settings().PoolSize + 2*curriculumtest.Tasks },
	})
}

// FlipTS §3.3: "instances where initially incorrect solutions are corrected in
// subsequent turns". With T = 2 the first two events are one.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		turns              string
		f2s, adjacent, end bool
	}{
		{"ff", false, false, false},
		{"fs", true, true, true},
		{"sf", false, false, false},
		{"ss", false, false, true},
		{"ffs", true, true, true},
		{"fsf", false, true, false},
		{"sfs", false, true, true},
		{"fss", true, true, true},
		{"s", false, false, true},
		{"f", false, false, false},
	} {
		for event, want := range map[string]bool{EventF2S: c.f2s, EventAdjacentF2S: c.adjacent, EventSuccess: c.end} {
			s := settings()
			s.Event = event
			got := New(s, 1).count(group("q", c.turns, "", c.turns))
			if want := map[bool]count{true: {with: 2}, false: {without: 2}}[want]; got != want {
				t.Errorf("%s of two traces %q, and one that we failed: %+v, want %+v", event, c.turns, got, want)
			}
		}
	}
	if New(settings(), 1).happened(shard.Score{Outcome: string(shard.OutcomeOK)}) {
		t.Error("a trace that was not judged turn by turn turned a failure into a success")
	}
	s := settings()
	s.Event = EventSuccess
	ok, wrong := string(shard.OutcomeOK), string(shard.OutcomeWrong)
	for _, c := range []struct {
		score shard.Score
		want  bool
	}{{shard.Score{Outcome: ok}, true}, {shard.Score{Outcome: wrong}, false}, {shard.Score{Outcome: wrong, Turns: []shard.TurnScore{{Outcome: ok}}}, true}} {
		if got := New(s, 1).happened(c.score); got != c.want {
			t.Errorf("success of %+v: %v", c.score, got)
		}
	}
}

// FlipTS Eq. 2 by hand. Of 0, 1/4, 1/2, 1/4 the mean is 1/4 and the variance 1/32, so
// κ = (3/16)/(1/32) - 1 = 5; the sample's variance is 1/24, and κ = 3.5.
func TestPrior(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		rates  []float64
		sample bool
		want   beta
		why    string // not the moments
	}{
		{"by hand", []float64{0, .25, .5, .25}, false, beta{1.25, 3.75}, ""},
		{"sample variance", []float64{0, .25, .5, .25}, true, beta{.875, 2.625}, ""},
		{"zero variance", []float64{.25, .25, .25}, false, beta{.5, 1.5}, "the rates of the warm-up have the mean 0.25 and the variance 0, which no Beta distribution has"},
		{"one question", []float64{.5}, true, beta{1, 1}, "the rates of the warm-up have the mean 0.5 and the variance NaN, which no Beta distribution has"},
		{"never", []float64{0, 0}, false, beta{1, 16}, "no trace of the warm-up had the event"},
		{"always", []float64{1, 1}, false, beta{16, 1}, "every trace of the warm-up had the event"},
		{"none", nil, false, beta{1, 16}, "no trace of the warm-up has a score"},
		{"κ = 0: all or nothing", []float64{0, 0, 0, 1}, false, beta{.5, 1.5}, "the rates of the warm-up have the mean 0.25 and the variance 0.188, which no Beta distribution has"},
		{"κ = 0 but for rounding: 319 of 0 and a 1", append(make([]float64, 319), 1), false, beta{2. / 320, 2 * 319. / 320}, "the rates of the warm-up have the mean 0.00313 and the variance 0.00312, which no Beta distribution has"},
		{"κ < 0: more variance than a Beta distribution has", []float64{0, 1}, true, beta{1, 1}, "the rates of the warm-up have the mean 0.5 and the variance 0.5, which no Beta distribution has"},
	} {
		if got, why := prior(c.rates, c.sample, 16); !cmp.Equal(got, c.want, near, cmp.AllowUnexported(beta{})) || why != c.why {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.what, got, why, c.want, c.why)
		}
	}
}

// What stands in place of the moments is said, with G, the traces of the largest group.
func TestWeakPrior(t *testing.T) {
	t.Parallel()
	s := settings()
	s.WarmUp = 1
	for g, groups := range map[int][]curriculum.Group{1: {group("q0", "ff")}, 3: {group("q0", times(3, "ff")...), group("q1", "ff", "ff")}} {
		state, b := update(t, New(s, 1), curriculum.State{}, questions(9), groups...)
		want := fmt.Sprintf("the prior is Beta(1, %d): a weak one in place of equation 2's, for no trace of the warm-up had the event", g)
		if b.prior != (beta{1, float64(g)}) || !slices.Equal(state.Notes, []string{want}) {
			t.Errorf("G = %d: %+v, %q, want %q", g, b.prior, state.Notes, want)
		}
	}
}

// Of n rates of 0 or 1, of which some are 1, no Beta distribution has the moments, nor of n
// equal rates, however their moments are rounded; and of those with a single rate between
// 0 and 1 there is one.
func TestPriorOfExtremes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 2000).Draw(t, "n")
		ones := rapid.IntRange(1, n-1).Draw(t, "ones")
		rates := make([]float64, n)
		for i := range ones {
			rates[i] = 1
		}
		mu := float64(ones) / float64(n)
		if got, why := prior(rates, false, 16); why == "" || math.Abs(got.alpha-2*mu) > 1e-9 || math.Abs(got.beta-2*(1-mu)) > 1e-9 {
			t.Fatalf("%d of %d: %+v, %q", ones, n, got, why)
		}
		equal := slices.Repeat([]float64{rapid.Float64Range(.001, .999).Draw(t, "of all")}, n)
		if got, why := prior(equal, false, 16); why == "" || math.Abs(got.alpha-2*equal[0]) > 1e-9 {
			t.Fatalf("%d times %v: %+v, %q", n, equal[0], got, why)
		}
		rates[0] = rapid.SampledFrom([]float64{1. / 128, .5, 127. / 128}).Draw(t, "one between")
		if got, why := prior(rates, false, 16); n > 2 && why != "" {
			t.Fatalf("one between: %+v, %q", got, why)
		}
	})
}

// FlipTS Alg. 1 over four iterations, W = 2, M = 5, by hand.
func TestAlgorithm1(t *testing.T) {
	t.Parallel()
	tasks := questions(10)
	s := settings()
	s.RefreshShare = 1 // none here
	f := New(s, 7)

	// Warm-up: ξ̂ of q0 is 2/8 over both iterations, of q1 0/4, of q2 2/4, q3 1/4.
	state, b := update(t, f, curriculum.State{}, tasks, group("q0", "fs", "fs", "ff", "ss"), group("q1", times(4, "ff")...))
	if b.prior != (beta{}) || len(b.pool) != 0 || len(b.posterior.all) != 0 {
		t.Errorf("in the warm-up: %+v", b)
	}
	row := func(scope, key, name string, iteration int32, value float64) shard.Stat {
		return shard.Stat{Scope: scope, Key: key, Name: name, Iteration: iteration, Value: value}
	}
	counted := []shard.Stat{row("warm-up", "q0", "with event", 1, 2), row("warm-up", "q0", "without event", 1, 2), row("warm-up", "q1", "with event", 1, 0), row("warm-up", "q1", "without event", 1, 4)}
	if diff := cmp.Diff(counted, state.Stats); diff != "" {
		t.Errorf("the state in the warm-up (-want +got):\n%s", diff)
	}
	state, b = update(t, f, state, tasks, group("q0", times(4, "sf")...), group("q2", "fs", "fs", "ff", "ff"), group("q3", "ss", "fs", "ss", "ss"), group("q4", "", "", "", ""))
	if !cmp.Equal(b.prior, beta{1.25, 3.75}, near, cmp.AllowUnexported(beta{})) {
		t.Errorf("α₀, β₀ are %+v, want 1.25, 3.75 (see TestPrior)", b.prior)
	}
	if want := []string{"the prior is Beta(1.25, 3.75)"}; !slices.Equal(state.Notes, want) {
		t.Errorf("notes %q, want %q", state.Notes, want)
	}
	if len(b.pool) != 5 || len(b.pool.observed()) != 0 || len(b.warmUp.all) != 0 {
		t.Errorf("after the warm-up: %+v", b)
	}
	in, out := b.pool[3].question, ""
	for _, q := range tasks {
		if !slices.ContainsFunc(b.pool, func(c candidate) bool { return c.question == q }) {
			out = q
		}
	}

	// FlipTS Eq. 3: α = 3 + 0.9·1.25 = 4.125, β = 1 + 0.9·3.75 = 4.375; then
	// α = 0 + 0.9·4.125 = 3.7125, β = 4 + 0.9·4.375 = 7.9375.
	state, b = update(t, f, state, tasks, group(in, "fs", "fs", "fs", "ss"), group(out, times(4, "fs")...))
	if got := b.of(in); !cmp.Equal(got, beta{4.125, 4.375}, near, cmp.AllowUnexported(beta{})) {
		t.Errorf("the posterior is %+v, want 4.125, 4.375", got)
	}
	if !cmp.Equal(b.of("q9x"), b.prior, cmp.AllowUnexported(beta{})) {
		t.Error("a question that was not sampled has another belief than the prior")
	}
	if got := b.pool.observed(); !slices.Equal(got, []int{3}) {
		t.Errorf("observed are the members %v of the pool, want the fourth: what is not in it is not observed", got)
	}
	known := []shard.Stat{
		row("prior", "", "alpha", 0, 1.25), row("prior", "", "beta", 0, 3.75), row("posterior", in, "alpha", 3, 4.125), row("posterior", in, "beta", 3, 4.375),
		row("posterior", out, "alpha", 3, 5.125), row("posterior", out, "beta", 3, 3.375),
	}
	for i, c := range b.pool {
		known = append(known, row("pool", c.question, "observed", 2, []float64{0, 0, 0, 1, 0}[i]))
	}
	if diff := cmp.Diff(known, state.Stats, near); diff != "" {
		t.Errorf("the state (-want +got):\n%s", diff)
	}
	state, b = update(t, f, state, tasks, group(in, times(4, "ff")...))
	if got := b.of(in); !cmp.Equal(got, beta{3.7125, 7.9375}, near, cmp.AllowUnexported(beta{})) {
		t.Errorf("the posterior is %+v, want 3.7125, 7.9375", got)
	}
	before := b.of(in)
	if _, b = update(t, f, state, tasks, group(in, "", "")); b.of(in) != before {
		t.Errorf("after traces that we failed the posterior is %+v, want %+v", b.of(in), before)
	}

	// λ = 1 forgets nothing: 3 + 1.25, 1 + 3.75.
	s.Decay = 1
	b.posterior.discount("q", beta{1.25, 3.75}, s.Decay, count{3, 1}, 3)
	if got := b.of("q"); got != (beta{4.25, 4.75}) {
		t.Errorf("λ = 1: %+v, want 4.25, 4.75", got)
	}
}

// member is a question of a pool with a posterior mean.
func (b *belief) member(question string, mean float64, observed bool) {
	b.posterior.put(question, beta{mean, 1 - mean}, 3)
	b.pool = append(b.pool, candidate{question: question, joined: 2, observed: observed})
}

func names(p pool) string {
	var all []string
	for _, c := range p {
		all = append(all, c.question)
	}
	return strings.Join(all, " ")
}

// Lines 24 to 28 by hand: ξ_target 1/2, M = 5.
func TestRefresh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what      string
		eta, cull float64
		tasks     int
		kept      string // of q0 to q4
		joined    int
	}{
		// Of the observed q0 (S = 0.5), q2 (0.9), q3 (0.1) the last two are as far
		// off as each other, and farther than q0.
		{"|𝒪|/M = 3/5 is not 0.7", .7, .4, 20, "q0 q1 q2 q3 q4", 0},
		{"3/5 is 0.6", .6, .4, 20, "q0 q1 q4", 2},
		{"a tie: the first in pool order leaves", .6, .2, 20, "q0 q1 q3 q4", 1},
		{"⌊0.59·5⌋ = 2", .6, .59, 20, "q0 q1 q4", 2},
		{"at most all that are observed", .6, 1, 20, "q1 q4", 3},
		{"nothing", .6, .1, 20, "q0 q1 q2 q3 q4", 0},
		{"one question is left outside", .6, .4, 6, "q0 q1 q3 q4", 1},
		{"all questions are in the pool", .6, .4, 5, "q0 q1 q2 q3 q4", 0},
	} {
		var b belief
		b.prior = beta{1, 1}
		b.member("q0", .5, true)
		b.member("q1", 1, false)
		b.member("q2", .9, true)
		b.member("q3", .1, true)
		b.member("q4", .99, false)
		s := settings()
		s.RefreshShare, s.CullShare = c.eta, c.cull
		New(s, 3).refresh(&b, 4, questions(c.tasks))
		n := len(b.pool) - c.joined
		if got := names(b.pool[:n]); got != c.kept || len(b.pool) != 5 {
			t.Errorf("%s: %s are kept of a pool of now %d, want %s of 5", c.what, got, len(b.pool), c.kept)
		}
		for _, fresh := range b.pool[n:] {
			if fresh.joined != 4 || fresh.observed || slices.Contains(questions(5), fresh.question) {
				t.Errorf("%s: %+v joined, want one from outside the pool before the cull", c.what, fresh)
			}
		}
	}
}

// Shares are decimal numbers: 0.07·100 = 7, where 0.07*100 in binary is above it,
// and 0.29·100 = 29, where it is below.
func TestSharesAreExact(t *testing.T) {
	t.Parallel()
	if got := share(.07, 100).RatString(); got != "7" {
		t.Errorf("0.07 of 100 is %s", got)
	}
	if got := share(.29, 100).RatString(); got != "29" {
		t.Errorf("0.29 of 100 is %s", got)
	}
	if x, y := .07, .29; x*100 <= 7 || y*100 >= 29 {
		t.Error("this test cannot fail")
	}
}

// A question that was culled and comes back keeps its posterior, and is not
// observed until it is sampled again.
func TestCulledQuestionReturns(t *testing.T) {
	t.Parallel()
	s := settings()
	s.RefreshShare, s.CullShare, s.WarmUp, s.PoolSize = .2, .2, 1, 5
	f := New(s, 5)
	tasks := questions(6) // one outside, which every refresh brings back
	state, b := update(t, f, curriculum.State{}, tasks, group("q0", "fs", "ff"), group("q1", "ff", "ff"))
	first := b.pool[0].question
	state, b = update(t, f, state, tasks, group(first, times(8, "fs")...))
	if strings.Contains(names(b.pool), first) {
		t.Fatalf("%s is still in the pool %s", first, names(b.pool))
	}
	posterior := b.of(first)
	_, b = update(t, f, state, tasks, group(b.pool[0].question, times(8, "fs")...))
	at := slices.IndexFunc(b.pool, func(c candidate) bool { return c.question == first })
	if at < 0 || b.pool[at].observed || b.pool[at].joined != 3 || b.of(first) != posterior || posterior == b.prior {
		t.Errorf("pool %+v; the posterior of %s was %+v and is %+v", b.pool, first, posterior, b.of(first))
	}
}

// After 400 samples without the event λ has made α 1.25·0.9^400, about 6e-19,
// and after 10,000 the least number that there is: draws stay probabilities.
func TestTinyParameters(t *testing.T) {
	t.Parallel()
	var p posterior
	for k := range 10_000 {
		p.discount("never", beta{1.25, 3.75}, .9, count{without: 16}, k)
		p.discount("always", beta{1.25, 3.75}, .9, count{with: 16}, k)
		if k == 399 && (p.all[0].alpha > 1e-18 || p.all[0].alpha <= 0) {
			t.Errorf("α is %v", p.all[0].alpha)
		}
		for i, want := range []float64{0, 1} {
			if x := p.all[i].shared().Draw(rng.Stream{}); !(x >= 0 && x <= 1) || k >= 399 && x != want {
				t.Fatalf("after %d samples of %q the draw from %+v is %v", k+1, p.all[i].question, p.all[i].beta, x)
			}
		}
	}
	if p.all[0].alpha > 1e-300 || p.all[0].mean() != 0 || p.all[1].mean() != 1 {
		t.Errorf("%+v", p.all)
	}
}

// Of eight beliefs with the means 0.1 to 0.6, 0.8 and 0.9, of questions of which one has just
// joined and two are observed.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := belief{prior: beta{1.25, 3.75}}
	for i, mean := range []float64{.5, .1, .8, .2, .6, .3, .4, .9} {
		b.member(fmt.Sprint(i), mean, i < 2)
	}
	b.pool[4].joined = 3
	want := map[string]float64{
		"prior_alpha": 1.25, "prior_beta": 3.75, "pool": 8, "pool_observed": 2, "pool_joined": 1, "posteriors": 8, "mean": .475, "mean_p10": .1, "mean_p50": .4, "mean_p90": .9,
	}
	f := New(settings(), 1)
	if diff := cmp.Diff(want, f.Metrics(curriculum.State{Iteration: 3, Stats: b.stats()}), near); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if got := f.Metrics(curriculum.State{}); got != nil {
		t.Errorf("of no pool: %v", got)
	}
}

// What the curriculum cannot do is said.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f := New(settings(), 1)
	foreign := curriculum.State{Iteration: 3, Stats: []shard.Stat{{Scope: "window", Name: "score"}}}
	if _, err := f.Update(foreign, 4, nil, nil); exitcode.Code(err) != exitcode.Data {
		t.Errorf("another curriculum's state: %v", err)
	}
	if _, err := f.Next(foreign, 4, 1, nil); exitcode.Code(err) != exitcode.Data {
		t.Errorf("another curriculum's state: %v", err)
	}
	state, _ := update(t, f, curriculum.State{Iteration: 1}, questions(3), group("q0", "fs"))
	if _, err := f.Next(state, 3, 4, questions(3)); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("more prompts than tasks: %v", err)
	}
}

// FlipTS §4.1, and what recipes may say else.
func TestSettings(t *testing.T) {
	t.Parallel()
	paper := Settings{WarmUp: 20, Target: .5, Decay: .9, PoolSize: 2000, RefreshShare: .3, CullShare: .25, Event: EventF2S}
	if got := *DefaultSettings(); got != paper {
		t.Errorf("defaults %+v, want %+v", got, paper)
	}
	type recipe struct {
		Rollout struct {
			Prompts int `yaml:"prompts"`
		} `yaml:"rollout"`
		Scaffold struct {
			Name string `yaml:"name"`
		} `yaml:"scaffold"`
		Env struct {
			MaxTurns int `yaml:"max_turns"`
		} `yaml:"env"`
		Curriculum struct {
			FlipTS Settings `yaml:"flipts"`
		} `yaml:"curriculum"`
	}
	const in, alone = "curriculum.flipts.", "scaffold.name=single env.max_turns=1 "
	rows := map[string]string{
		"": "", in + "warm_up=1": "", in + "decay=1": "", in + "refresh_share=1": "", in + "pool_size=5": "", in + "pool_size=4": in + "pool_size", in + "pool_size=0": in + "pool_size",
		in + "pool_size=1 rollout.prompts=0": "", in + "decay=1.1": in + "decay", in + "refresh_share=1.1": in + "refresh_share",
		alone: in + "event", alone + "curriculum.flipts.event=success": "", alone + "env.max_turns=2": "", alone + "scaffold.name=chain": "", alone + in + "event=x": in + "event",
	}
	for field, wrong := range map[string]string{"warm_up": "0", "target": "1.1", "decay": "0", "refresh_share": "0", "cull_share": "1.1", "event": "x"} {
		rows[in+field+"="+wrong] = in + field
	}
	configtest.Checks(t, func() *recipe {
		var r recipe
		r.Rollout.Prompts, r.Scaffold.Name, r.Env.MaxTurns, r.Curriculum.FlipTS = 5, "chain", 1, settings()
		return &r
	}, func(r *recipe, c *config.Checker) { r.Curriculum.FlipTS.validate(c) }, rows)
}
