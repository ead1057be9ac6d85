package parents

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
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var near = cmpopts.EquateApprox(0, 1e-12)

func TestConform(t *testing.T) {
	t.Parallel()
	for _, crossover := range []float64{0, .16} {
		curriculumtest.Conform(t, curriculumtest.Subject{
			New: func(seed uint64) curriculum.Curriculum {
				s := *DefaultSettings()
				s.Capacity, s.Crossover = 6, crossover
				return New(s, seed)
			},
			Rows:  func(int) int { return 4 * 6 * curriculumtest.Tasks }, // three statistics an entry
			Adapt: func(r *curriculum.Response) { r.Score.Extracted = "x" },
		})
	}
}

// sampled is a group of a task from a parent; a negative reward is a program that failed.
func sampled(id, task, parent string, rewards ...float64) curriculum.Group {
	g := curriculum.Group{Instance: shard.Instance{InstanceID: id, TaskID: task, ParentID: parent, Iteration: 1}}
	for i, r := range rewards {
		outcome := shard.OutcomeOK
		if r < 0 {
			outcome = shard.OutcomeInvalid
		}
		g.Responses = append(g.Responses, curriculum.Response{
			Sample: i, Ref: shard.Ref{Iteration: 1, Sample: int32(i), Messages: 2}, Score: shard.Score{Outcome: string(outcome), NormalizedScore: max(0, r), Extracted: "x"},
		})
	}
	return g
}

// By hand. Task t has the programs a/0, a/1 and a/2 with R = 0.8, 0.4 and 0 (failed). From a/0 came
// b/0 and b/1 with 0.6 and 0.2, and from a/1 c/0 with 0.4. Of six programs R is normalised by 0.8:
// 1, .5, 0, .75, .25, .5. The variances are 0.04 of a/0's children and 0 of a/1's one, so 1 and 0, and
// 1/2 elsewhere. C = 1 − n/2 is 0, 1/2 and 1 elsewhere, which norm leaves.
//
//	a/0: 1 + 1 + 0 = 2       a/1: .5 + 0 + .5 = 1    a/2: 0 + .5 + 1 = 1.5
//	b/0: .75 + .5 + 1 = 2.25 b/1: .25 + .5 + 1 = 1.75 c/0: .5 + .5 + 1 = 2
//
// With room for five a/1 leaves.
func TestFitness(t *testing.T) {
	t.Parallel()
	groups := []curriculum.Group{sampled("a", "t", "", .8, .4, -1), sampled("b", "t", "a/0", .6, .2), sampled("c", "t", "a/1", .4), sampled("d", "other", "", .3)}
	all := map[string]float64{"a/0": 2, "a/1": 1, "a/2": 1.5, "b/0": 2.25, "b/1": 1.75, "c/0": 2, "d/0": 1.5}
	for name, c := range map[string]struct {
		change func(*Settings)
		want   map[string]float64
	}{
		"all terms": {func(*Settings) {}, all},
		"five":      {func(s *Settings) { s.Capacity = 5 }, map[string]float64{"a/0": 2, "a/2": 1.5, "b/0": 2.25, "b/1": 1.75, "c/0": 2, "d/0": 1.5}},
		"without variance": {
			func(s *Settings) { s.Variance = false },
			map[string]float64{"a/0": 1, "a/1": 1, "a/2": 1, "b/0": 1.75, "b/1": 1.25, "c/0": 1.5, "d/0": 1},
		},
		"reward alone": {
			func(s *Settings) { s.Variance, s.Cooling = false, false },
			map[string]float64{"a/0": 1, "a/1": .5, "a/2": 0, "b/0": .75, "b/1": .25, "c/0": .5, "d/0": .5},
		},
	} {
		s := *DefaultSettings()
		c.change(&s)
		p := New(s, 1)
		state, err := curriculum.Update(p, curriculum.State{}, 1, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		kinds := map[string]string{}
		for _, e := range state.Entries {
			got[e.EntryID], kinds[e.EntryID] = e.Potential, e.Kind
		}
		if diff := cmp.Diff(c.want, got, near); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if kinds["a/0"] != "improve" || kinds["a/2"] != "debug" {
			t.Errorf("%s: kinds %v", name, kinds)
		}
	}
}

// Children are counted over iterations: 0.6 and 0.2, and then 1, have the mean 0.6 and the
// squares 0 + 0.16 + 0.16. Those of a program that has left are forgotten.
func TestChildren(t *testing.T) {
	t.Parallel()
	p := New(*DefaultSettings(), 1)
	state, err := curriculum.Update(p, curriculum.State{}, 1, []curriculum.Group{sampled("a", "t", "", .8), sampled("b", "t", "a/0", .6, .2)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if state, err = curriculum.Update(p, state, 2, []curriculum.Group{sampled("c", "t", "a/0", 1), sampled("d", "t", "gone", 1)}, nil); err != nil {
		t.Fatal(err)
	}
	made, err := read(state)
	if diff := cmp.Diff(map[string]children{"a/0": {3, .6, .32}}, made, near, cmp.AllowUnexported(children{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if m := p.Metrics(state); m["programs"] != 5 || m["parents"] != 1 || m["improve"] != 5 || math.Abs(m["score_mean"]-.72) > 1e-12 { // of .8, .6, .2, 1 and 1
		t.Errorf("metrics %v", m)
	}
	state.Stats[0].Name = "alpha"
	if _, err := p.Update(state, 3, nil, nil); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a foreign statistic: %v", err)
	}
}

// Over 20,000 prompts each start is drawn as often as stated, within four standard deviations.
// Task t has two programs to improve on, with F 3 and 1, and one to debug: 1/2 first attempts,
// 0.33·(3/4) and 0.33·(1/4), and 0.17. A task with programs to improve on alone gives them 1/2,
// and one without programs has first attempts alone. Weights of 0 are all alike.
func TestNext(t *testing.T) {
	t.Parallel()
	const n = 20_000
	entry := func(id, task, kind string, f float64) shard.Entry {
		return shard.Entry{EntryID: id, TaskID: task, Kind: kind, Potential: f, Ref: shard.Ref{Iteration: 1}}
	}
	for name, c := range map[string]struct {
		entries []shard.Entry
		want    map[string]float64
	}{
		"both":       {[]shard.Entry{entry("x", "t", "improve", 3), entry("y", "t", "debug", 2), entry("z", "t", "improve", 1)}, map[string]float64{"": .5, "x": .33 * .75, "z": .33 * .25, "y": .17}},
		"to improve": {[]shard.Entry{entry("x", "t", "improve", 0), entry("z", "t", "improve", 0)}, map[string]float64{"": .5, "x": .25, "z": .25}},
		"to debug":   {[]shard.Entry{entry("y", "t", "debug", 2)}, map[string]float64{"": .5, "y": .5}},
		"another's":  {[]shard.Entry{entry("y", "other", "debug", 2)}, map[string]float64{"": 1}},
	} {
		p, state := New(*DefaultSettings(), 3), curriculum.State{Iteration: 1, Entries: c.entries}
		selections, err := curriculum.Next(p, state, 2, n, []string{"t"})
		if err != nil {
			t.Fatal(err)
		}
		drawn := map[string]float64{}
		for _, s := range selections {
			drawn[s.ParentID]++
			if math.Abs(s.Probability-c.want[s.ParentID]) > 1e-12 {
				t.Fatalf("%s: %+v, want probability %v", name, s, c.want[s.ParentID])
			}
		}
		for id, share := range c.want {
			if sigma := math.Sqrt(n * share * (1 - share)); math.Abs(drawn[id]-n*share) > 4*sigma {
				t.Errorf("%s: %q is drawn %v times, want %v ± %v", name, id, drawn[id], n*share, sigma)
			}
		}
	}
	if _, err := New(*DefaultSettings(), 3).Explain(curriculum.State{}, 2, 1, curriculum.Selection{TaskID: "t", Origin: shard.OriginBuffer, ParentID: "x"}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a program that is gone: %v", err)
	}
}

// With 0.16 for two programs, 0.17 is left to improve on one. By hand, of x, z and w with F 3, 1
// and 1 and y to debug: the first of a pair is x with 3/5, and then z with 1/2; z with 1/5, and then x
// with 3/4. One program to improve on has all 0.33; without one to debug 0.34 improve. Where the
// others' F is 0 they are alike. The pair's base score is the better one's, its depth the deeper
// one's. Drawn as often as stated, within four standard deviations.
func TestCrossover(t *testing.T) {
	t.Parallel()
	const n = 20_000
	entry := func(id, kind string, f, score float64, depth int32) shard.Entry {
		return shard.Entry{EntryID: id, TaskID: "t", Kind: kind, Potential: f, BaseScore: score, Depth: depth, Ref: shard.Ref{Iteration: 1, Row: int32(id[0])}}
	}
	x, z, w, y := entry("x", "improve", 3, .5, 1), entry("z", "improve", 1, .75, 1), entry("w", "improve", 1, .25, 4), entry("y", "debug", 2, 0, 1)
	flat := entry("z", "improve", 0, .75, 1)
	for name, c := range map[string]struct {
		entries []shard.Entry
		want    map[string]float64
	}{
		"three": {[]shard.Entry{x, z, y, w}, map[string]float64{
			"": .5, "y": .17, "x": .17 * .6, "z": .17 * .2, "w": .17 * .2,
			"x+z": .16 * .6 * .5, "x+w": .16 * .6 * .5, "z+x": .16 * .2 * .75, "z+w": .16 * .2 * .25, "w+x": .16 * .2 * .75, "w+z": .16 * .2 * .25,
		}},
		"one":             {[]shard.Entry{x, y}, map[string]float64{"": .5, "x": .33, "y": .17}},
		"none to debug":   {[]shard.Entry{x, z}, map[string]float64{"": .5, "x": .34 * .75, "z": .34 * .25, "x+z": .16 * .75, "z+x": .16 * .25}},
		"none to improve": {[]shard.Entry{y}, map[string]float64{"": .5, "y": .5}},
		"no F":            {[]shard.Entry{x, flat}, map[string]float64{"": .5, "x": .34, "x+z": .16}},
	} {
		settings := *DefaultSettings()
		settings.Crossover = .16
		p, state := New(settings, 3), curriculum.State{Iteration: 1, Entries: c.entries}
		selections, err := curriculum.Next(p, state, 2, n, []string{"t"})
		if err != nil {
			t.Fatal(err)
		}
		drawn := map[string]float64{}
		for _, s := range selections {
			pair := strings.Trim(s.ParentID+"+"+s.PartnerID, "+")
			drawn[pair]++
			if math.Abs(s.Probability-c.want[pair]) > 1e-12 {
				t.Fatalf("%s: %+v, want probability %v", name, s, c.want[pair])
			}
			if pair == "w+x" && (s.BaseScore != .5 || s.Depth != 4 || s.Ref != w.Ref || s.PartnerRef != x.Ref) {
				t.Fatalf("%+v", s)
			}
			terms, err := p.Explain(state, 2, n, s)
			if err != nil || terms[len(terms)-1].Value != s.Probability {
				t.Fatalf("%s: %+v is explained by %+v, %v", name, s, terms, err)
			}
		}
		for pair, share := range c.want {
			if sigma := math.Sqrt(n * share * (1 - share)); math.Abs(drawn[pair]-n*share) > 4*sigma {
				t.Errorf("%s: %q is drawn %v times, want %v ± %v", name, pair, drawn[pair], n*share, sigma)
			}
		}
	}
	p := New(*DefaultSettings(), 3)
	gone := curriculum.Selection{TaskID: "t", Origin: shard.OriginBuffer, Kind: shard.KindCrossover, ParentID: "x", PartnerID: "y"}
	if _, err := p.Explain(curriculum.State{Entries: []shard.Entry{x, y}}, 2, 1, gone); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a partner that is gone: %v", err)
	}
	if slices.Contains(p.Kinds(), shard.KindCrossover) {
		t.Error("a curriculum without crossover has prompts of that kind")
	}
}

// What two programs were joined to is a child of each: 0.6 and 1 of a/0, 1 of a/1. C is 0 of a/0
// and 1/2 of a/1.
func TestChildrenOfTwo(t *testing.T) {
	t.Parallel()
	joined := sampled("c", "t", "a/0", 1)
	joined.Instance.PartnerID = "a/1"
	p := New(Settings{Capacity: 64, Cooling: true}, 1)
	state, err := curriculum.Update(p, curriculum.State{}, 1, []curriculum.Group{sampled("a", "t", "", .8, .4), sampled("b", "t", "a/0", .6), joined}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := read(state)
	if diff := cmp.Diff(map[string]children{"a/0": {2, .8, .08}, "a/1": {1, 1, 0}}, made, near, cmp.AllowUnexported(children{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	f := map[string]float64{}
	for _, e := range state.Entries {
		f[e.EntryID] = e.Potential
	}
	if diff := cmp.Diff(map[string]float64{"a/0": 0, "a/1": .5, "b/0": 1, "c/0": 1}, f, near); diff != "" {
		t.Error(diff)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Settings){
		"":                             func(s *Settings) { s.Crossover = .33 },
		"curriculum.parents.crossover": func(s *Settings) { s.Crossover = -1 },
		"curriculum.parents.debug":     func(s *Settings) { s.Crossover = .34 },
	} {
		var settings struct {
			Curriculum struct {
				Parents Settings `yaml:"parents"`
			} `yaml:"curriculum"`
		}
		settings.Curriculum.Parents = *DefaultSettings()
		change(&settings.Curriculum.Parents)
		choice, err := curriculum.Axis.Lookup(Name)
		if err != nil {
			t.Fatal(err)
		}
		c := config.NewChecker(&settings)
		choice.Validate(c, &settings.Curriculum.Parents)
		if err := c.Err("recipe"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// F lies between 0 and the number of terms, and does not depend on the order of programs.
func TestFitnessRandomly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{Capacity: 99, Reward: rapid.Bool().Draw(t, "reward"), Variance: rapid.Bool().Draw(t, "variance"), Cooling: rapid.Bool().Draw(t, "cooling")}
		terms := 0.0
		for _, on := range []bool{s.Reward, s.Variance, s.Cooling} {
			if on {
				terms++
			}
		}
		made := map[string]children{}
		entries := make([]shard.Entry, rapid.IntRange(1, 8).Draw(t, "programs"))
		order := make([]int, len(entries))
		for i := range entries {
			entries[i] = shard.Entry{EntryID: fmt.Sprint(i), BaseScore: rapid.Float64Range(0, 1).Draw(t, "reward of it")}
			var c children
			for _, r := range rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 4).Draw(t, "children") {
				c = c.add(r)
			}
			made[entries[i].EntryID], order[i] = c, i
		}
		p := New(s, 1)
		f := p.fitness(entries, order, made)
		shuffled := rapid.Permutation(order).Draw(t, "order")
		for at, x := range p.fitness(entries, shuffled, made) {
			if x != f[shuffled[at]] || !(x >= 0 && x <= terms) {
				t.Fatalf("F of %d is %v, in another order %v", shuffled[at], f[shuffled[at]], x)
			}
		}
	})
}
