package exit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var tasks = []string{"t1", "t2", "t3", "t4", "t5"}

func mustNext(t testing.TB, e *Exit, state curriculum.State, iteration, n int) []curriculum.Selection {
	t.Helper()
	selections, err := e.Next(state, iteration, n, tasks)
	if err != nil {
		t.Fatal(err)
	}
	return selections
}

// ExIt §4: from the buffer with probability p if it is above the minimum
// size, else a base task; with an empty buffer always a base task, whatever
// p and the minimum.
func TestBaseTasks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		p        float64
		smallest int
		state    curriculum.State
	}{
		{"empty buffer", 1, 1, stateOf()},
		{"below the minimum size", 1, 2, stateOf(entry("x", .1))},
		{"p of 0", 0, 1, stateOf(entry("x", .1), entry("y", .1))},
	} {
		spec := settings()
		spec.SelectProbability, spec.MinBufferSize = test.p, test.smallest
		got := mustNext(t, New(spec, 11), test.state, 3, 20)
		want, err := uniform.New(uniform.Settings{BaseTasks: uniform.Epochs}, 11).Next(curriculum.State{}, 3, 20, tasks)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: selections differ from the uniform curriculum's (-uniform +exit):\n%s", test.name, diff)
		}
	}
}

// An entry is sampled with what the environment needs to iterate on it.
func TestSelectionFromTheBuffer(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.SelectProbability, spec.DivergeProbability = 1, 0
	e := entry("x", .1)
	e.Depth, e.Turn = 3, 2
	want := curriculum.Selection{
		TaskID: "task of x", Kind: shard.KindImprove, Origin: shard.OriginBuffer, ParentID: "x", Depth: 3, Turn: 2,
		Ref: e.Ref, BaseScore: .25, Potential: .1, Probability: 1, SelectedBy: "buffer",
	}
	got := mustNext(t, New(spec, 11), stateOf(e), 2, 1)
	if diff := cmp.Diff([]curriculum.Selection{want}, got); diff != "" {
		t.Errorf("selection (-want +got):\n%s", diff)
	}
	spec.DivergeProbability = 1 // ExIt §4.2
	want.Kind = shard.KindDiverge
	got = mustNext(t, New(spec, 11), stateOf(e), 2, 1)
	if diff := cmp.Diff([]curriculum.Selection{want}, got); diff != "" {
		t.Errorf("selection (-want +got):\n%s", diff)
	}
}

// The frequencies of 20000 prompts agree with the probabilities of
// ExIt §4 and §4.1 to five standard deviations of a binomial count.
func TestSelectionFrequencies(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.SelectProbability, spec.DivergeProbability = .7, .3
	spec.InverseTemperature = 4 * math.Log(3) // odds 1 : 3 : 9 for 0, .25, .5
	state := stateOf(entry("x", 0), entry("y", .25), entry("z", .5))
	const prompts = 20000
	counts := map[string]int{}
	for _, s := range mustNext(t, New(spec, 11), state, 2, prompts) {
		name := "base"
		if s.Origin == shard.OriginBuffer {
			name = fmt.Sprintf("%s %s", s.ParentID, s.Kind)
		}
		counts[name]++
	}
	for name, p := range map[string]float64{
		"base":      .3,
		"x improve": .7 / 13 * .7, "x diverge": .7 / 13 * .3,
		"y improve": .7 * 3 / 13 * .7, "y diverge": .7 * 3 / 13 * .3,
		"z improve": .7 * 9 / 13 * .7, "z diverge": .7 * 9 / 13 * .3,
	} {
		if got, want := float64(counts[name]), p*prompts; math.Abs(got-want) > 5*math.Sqrt(want*(1-p)) {
			t.Errorf("%s: %v of %d prompts, want about %v", name, got, prompts, want)
		}
		delete(counts, name)
	}
	if len(counts) != 0 {
		t.Errorf("unexpected selections: %v", counts)
	}
}

// κ of 0 forgets the scores; a huge one takes the best alone.
func TestInverseTemperatureExtremes(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.SelectProbability = 1
	state := stateOf(entry("x", .1), entry("y", .25), entry("z", 0))
	spec.InverseTemperature = 1e308
	for _, s := range mustNext(t, New(spec, 11), state, 2, 50) {
		if s.ParentID != "y" {
			t.Fatalf("κ 1e308 selected %q, want y", s.ParentID)
		}
	}
	spec.InverseTemperature = 0
	counts := map[string]int{}
	for _, s := range mustNext(t, New(spec, 11), state, 2, 3000) {
		counts[s.ParentID]++
	}
	for _, id := range []string{"x", "y", "z"} {
		if counts[id] < 871 || counts[id] > 1129 { // 1000 ± five times 25.8
			t.Errorf("κ 0: %v, want about 1000 each", counts)
		}
	}
}

// Prompt i of an iteration is drawn for itself: more prompts do not change
// the first ones, and another iteration draws anew.
func TestPromptsAreIndependent(t *testing.T) {
	t.Parallel()
	e := New(settings(), 11)
	state := stateOf(entry("x", .1), entry("y", .25))
	// The first iteration's slots begin at 0 whatever n is.
	few, many := mustNext(t, e, state, 1, 10), mustNext(t, e, state, 1, 40)
	if diff := cmp.Diff(few, many[:10]); diff != "" {
		t.Errorf("more prompts changed the first ones:\n%s", diff)
	}
	if cmp.Equal(mustNext(t, e, state, 2, 40), mustNext(t, e, state, 3, 40)) {
		t.Error("iterations 2 and 3 draw the same")
	}
}

// What a selection states as its probability is what it is drawn with: of 20000
// prompts each outcome has its share to four standard deviations, the shares of
// all outcomes add up to 1, and the explanation ends with the same number.
func TestStatedProbabilities(t *testing.T) {
	t.Parallel()
	state := stateOf(entry("x", 0), entry("y", .1), entry("z", .1875), entry("w", .25))
	for _, improve := range []bool{true, false} {
		spec := settings()
		spec.SelectProbability, spec.DivergeProbability, spec.Improve, spec.BufferSize = .6, .25, improve, 10
		e := New(spec, 11)
		const prompts = 20000
		counts, stated := map[string]int{}, map[string]float64{}
		for _, s := range mustNext(t, e, state, 2, prompts) {
			name := fmt.Sprintf("%s %q", s.SelectedBy, s.ParentID)
			if improve {
				name += " " + string(s.Kind)
			}
			if counts[name]++; counts[name] > 1 && stated[name] != s.Probability {
				t.Fatalf("improve %v: %s states %v and %v", improve, name, stated[name], s.Probability)
			}
			stated[name] = s.Probability
			if counts[name] > 1 {
				continue
			}
			terms, err := e.Explain(state, 1, 1, s)
			if err != nil {
				t.Fatal(err)
			}
			if last := terms[len(terms)-1]; last.Name != "probability" || last.Value != s.Probability {
				t.Errorf("improve %v: %s is explained by %v, drawn with %v", improve, name, terms, s.Probability)
			}
		}
		if want := map[bool]int{true: 9, false: 5}[improve]; len(counts) != want {
			t.Errorf("improve %v: %d outcomes, want %d: %v", improve, len(counts), want, counts)
		}
		var sum float64
		for name, p := range stated {
			sum += p
			if got, want := float64(counts[name]), p*prompts; math.Abs(got-want) > 4*math.Sqrt(want*(1-p)) {
				t.Errorf("improve %v: %s: %v of %d prompts, %v were stated", improve, name, got, prompts, want)
			}
		}
		near(t, "sum of the stated probabilities", math.Round(sum*1e12)/1e12, 1)
	}
}

// The terms by hand: four times ln 3 makes odds of 1 to 3 of scores 0 and 1/4;
// p is a half and p_div a fifth, so y improves with 1/2 · 3/4 · 4/5.
func TestExplain(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.InverseTemperature = 4 * math.Log(3)
	e := New(spec, 11)
	state := stateOf(entry("x", 0), entry("y", .25))
	terms, err := e.Explain(state, 2, 1, curriculum.Selection{Origin: shard.OriginBuffer, ParentID: "y", Kind: shard.KindImprove})
	if err != nil {
		t.Fatal(err)
	}
	want := []curriculum.Term{
		{Name: "entries", Value: 2},
		{Name: "p", Value: .5},
		{Name: "S", Value: .25},
		{Name: "κ", Value: 4 * math.Log(3)},
		{Name: "κ·S", Value: math.Log(3)},
		{Name: "softmax share", Value: .75},
		{Name: "p_div", Value: .2},
		{Name: "share of improve", Value: .8},
		{Name: "probability", Value: .3},
	}
	if diff := cmp.Diff(want, terms, cmpopts.EquateApprox(0, 1e-15)); diff != "" {
		t.Errorf("terms (-want +got):\n%s", diff)
	}
	terms, err = e.Explain(state, 2, 1, curriculum.Selection{Origin: shard.OriginBase})
	if diff := cmp.Diff([]curriculum.Term{{Name: "entries", Value: 2}, {Name: "p", Value: .5}, {Name: "probability", Value: .5}}, terms); diff != "" || err != nil {
		t.Errorf("of a base task: error %v, terms (-want +got):\n%s", err, diff)
	}
	_, err = e.Explain(state, 2, 1, curriculum.Selection{Origin: shard.OriginBuffer, ParentID: "v"})
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `entry "v" is not in the buffer`) {
		t.Errorf("an entry that is not there: %v", err)
	}
}
