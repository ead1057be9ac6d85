package exit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// ExIt §4, expansion: m+ = (m, k+1, τ). ExIt §4.1: it starts with the
// empirical score of the group that it comes from, here var(1, 0) = 1/4.
func TestExpansionOfABaseTask(t *testing.T) {
	t.Parallel()
	got := mustUpdate(t, New(settings(), 11), stateOf(), 2, baseGroup("m1", 1, 0))
	want := []shard.Entry{
		{
			TaskID: "task of m1", Kind: "improve", ParentID: "m1", Depth: 1, Turn: 1,
			Ref: shard.Ref{Iteration: 1, Row: 7, Sample: 0, Messages: 2}, BaseScore: 1, Potential: .25,
		},
		{
			TaskID: "task of m1", Kind: "improve", ParentID: "m1", Depth: 1, Turn: 1,
			Ref: shard.Ref{Iteration: 1, Row: 7, Sample: 1, Messages: 2}, BaseScore: 0, Potential: .25,
		},
	}
	if diff := cmp.Diff(want, got.Entries, cmpopts.IgnoreFields(shard.Entry{}, "EntryID")); diff != "" {
		t.Errorf("buffer (-want +got):\n%s", diff)
	}
	if got.Iteration != 2 {
		t.Errorf("iteration %d, want 2", got.Iteration)
	}
	a, b := got.Entries[0].EntryID, got.Entries[1].EntryID
	if a == b || a != childID("m1", shard.Ref{Sample: 0, Messages: 2}) || b != childID("m1", shard.Ref{Sample: 1, Messages: 2}) {
		t.Errorf("ids %q and %q, want those of iteration 2, parent m1, samples 0 and 1, two messages", a, b)
	}
}

// The same step from an entry of depth 2: its score becomes var(1, 1, 0) =
// 2/9, and the child asks for step 3.
func TestExpansionOfAnEntry(t *testing.T) {
	t.Parallel()
	parent := entry("x", .1)
	parent.Depth = 2
	g := baseGroup("m1", 1, 1, 0)
	g.Instance.ParentID, g.Instance.Origin, g.Instance.Depth, g.Instance.Kind = "x", "buffer", 2, "diverge"
	spec := settings()
	spec.Expand = ExpandOne
	got := mustUpdate(t, New(spec, 11), stateOf(parent), 7, g).Entries

	if len(got) != 2 {
		t.Fatalf("%d entries, want the old one and one child", len(got))
	}
	near(t, "score of the entry", got[0].Potential, 2./9)
	if got[0].EntryID != "x" || got[0].Visits != 1 || got[0].LastSampled != 7 || got[0].Depth != 2 {
		t.Errorf("entry %+v, want x with one visit in iteration 7", got[0])
	}
	near(t, "score of the child", got[1].Potential, 2./9)
	if got[1].Depth != 3 || got[1].ParentID != "m1" || got[1].Visits != 0 || got[1].LastSampled != 0 {
		t.Errorf("child %+v, want depth 3, parent m1, never sampled", got[1])
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-15) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// ExIt §4.1: a policy that always succeeds from m' has learnability 0
// there, and so has the child.
func TestSolvedEntryFallsToZero(t *testing.T) {
	t.Parallel()
	g := baseGroup("m1", 1, 1)
	g.Instance.ParentID, g.Instance.Origin = "x", "buffer"
	got := scores(mustUpdate(t, New(settings(), 11), stateOf(entry("x", .25)), 2, g))
	if diff := cmp.Diff([]float64{0, 0, 0}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// ExIt §4, its last paragraph before ExIt §4.1: all per-turn partial histories are
// inserted. A trajectory of two turns gives two; what the prompt already held
// gives none.
func TestEveryTurnPrefixIsInserted(t *testing.T) {
	t.Parallel()
	g := baseGroup("m1", 1, 0)
	for i := range g.Responses {
		g.Responses[i].Roles = append(g.Responses[i].Roles, "user", "assistant")
		g.Responses[i].Turns = 2
	}
	spec := settings()
	spec.BufferSize = 10
	got := mustUpdate(t, New(spec, 11), stateOf(), 2, g).Entries
	if len(got) != 4 {
		t.Fatalf("%d entries, want two prefixes of each of two responses", len(got))
	}
	for i, want := range []struct {
		messages int32
		turn     int32
		base     float64 // the quality of the whole episode, G
	}{{2, 1, 1}, {4, 2, 1}, {2, 1, 0}, {4, 2, 0}} {
		if got[i].Ref.Messages != want.messages || got[i].Turn != want.turn || got[i].BaseScore != want.base {
			t.Errorf("entry %d has %d messages, turn %d, base score %v; want %+v", i, got[i].Ref.Messages, got[i].Turn, got[i].BaseScore, want)
		}
	}

	// The prompt holds an earlier turn; the response is the second one.
	g = baseGroup("m2", 1, 0)
	g.Instance.Messages = []shard.Message{user("q"), assistant("first"), user("again")}
	for i := range g.Responses {
		g.Responses[i].PromptMessages = 3
		g.Responses[i].Roles = []string{"user", "assistant", "user", "assistant"}
	}
	got = mustUpdate(t, New(spec, 11), stateOf(), 2, g).Entries
	if len(got) != 2 || got[0].Turn != 2 || got[0].Ref.Messages != 4 {
		t.Errorf("entries %+v, want one of turn 2 for each response", got)
	}
}

// ExIt §4.1, |B| = N: inserted only if the score is greater than or equal
// to the lowest, which is replaced. N is 3, and one response is expanded.
func TestReplacement(t *testing.T) {
	t.Parallel()
	full := stateOf(entry("x", .1), entry("y", 3./16), entry("z", .1))
	for _, test := range []struct {
		name      string
		qualities []float64
		want      []string // entries left, oldest first; "new" is the child
	}{
		{"lower: not inserted", []float64{.4, .5}, []string{"x", "y", "z"}}, // var .0025
		{"higher: replaces the oldest of the lowest", []float64{0, 1}, []string{"y", "z", "new"}},
	} {
		spec := settings()
		spec.Expand = ExpandOne
		got := mustUpdate(t, New(spec, 11), full, 2, baseGroup("m1", test.qualities...))
		if diff := cmp.Diff(test.want, names(got.Entries)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}

	// Equal to the lowest: replaces it. All scores are 3/16 = var(1, 0, 0, 0).
	equal := stateOf(entry("x", 3./16), entry("y", 3./16), entry("z", 3./16))
	spec := settings()
	spec.Expand = ExpandOne
	got := mustUpdate(t, New(spec, 11), equal, 2, baseGroup("m1", 1, 0, 0, 0))
	if diff := cmp.Diff([]string{"y", "z", "new"}, names(got.Entries)); diff != "" {
		t.Errorf("equal priorities (-want +got):\n%s", diff)
	}

	// Of many equals the oldest go, one after the other.
	spec.BufferSize, spec.Expand = 5, ExpandAll
	equal = stateOf(entry("a", .25), entry("b", .25), entry("c", .25), entry("d", .25), entry("e", .25))
	got = mustUpdate(t, New(spec, 11), equal, 2, baseGroup("m1", 1, 0), baseGroup("m2", 1, 0))
	if diff := cmp.Diff([]string{"e", "new", "new", "new", "new"}, names(got.Entries)); diff != "" {
		t.Errorf("four of five equals (-want +got):\n%s", diff)
	}

	// A buffer of one holds the newest of the best.
	spec.BufferSize, spec.Expand = 1, ExpandAll
	got = mustUpdate(t, New(spec, 11), stateOf(), 2, baseGroup("m1", 1, 0), baseGroup("m2", .5, .5))
	if len(got.Entries) != 1 || got.Entries[0].EntryID != childID("m1", shard.Ref{Sample: 1, Messages: 2}) {
		t.Errorf("buffer of one holds %v, want the second response of m1", names(got.Entries))
	}
}

// names gives the ids of the entries, "new" for those of an expansion.
func names(entries []shard.Entry) []string {
	list := []string{}
	for _, e := range entries {
		if e.ParentID != "" {
			e.EntryID = "new"
		}
		list = append(list, e.EntryID)
	}
	return list
}

// Scores are settled before anything is inserted: y falls to 0 by the second
// group, so the first group's child replaces y and not x.
func TestScoresComeBeforeReplacement(t *testing.T) {
	t.Parallel()
	solved := baseGroup("m2", 1, 1)
	solved.Instance.ParentID = "y"
	for i := range solved.Responses {
		solved.Responses[i].Roles = nil // nothing to expand
	}
	spec := settings()
	spec.Expand, spec.BufferSize = ExpandOne, 2
	got := mustUpdate(t, New(spec, 11), stateOf(entry("x", .1), entry("y", .25)), 2, baseGroup("m1", 1, 0), solved)
	if diff := cmp.Diff([]string{"x", "new"}, names(got.Entries)); diff != "" {
		t.Errorf("buffer (-want +got):\n%s", diff)
	}
}

// An entry sampled by two groups keeps the score of the later one in plan
// order, and counts both visits. An entry that is gone is not brought back.
func TestEntryWithSeveralGroups(t *testing.T) {
	t.Parallel()
	first, second, gone := baseGroup("m1", 1, 0), baseGroup("m2", .5, 1), baseGroup("m3", 1, 0)
	first.Instance.ParentID, second.Instance.ParentID, gone.Instance.ParentID = "x", "x", "w"
	for _, g := range []int{0, 1} {
		first.Responses[g].Roles, second.Responses[g].Roles, gone.Responses[g].Roles = nil, nil, nil
	}
	got := mustUpdate(t, New(settings(), 11), stateOf(entry("x", .1)), 4, first, second, gone).Entries
	if len(got) != 1 || got[0].Potential != .0625 || got[0].Visits != 2 || got[0].LastSampled != 4 {
		t.Errorf("buffer %+v, want x alone with score .0625 and two visits in iteration 4", got)
	}
}

// Infra failures are no rewards of 0: a group without two valid responses
// has no score, changes none and expands to nothing.
func TestGroupsWithoutScore(t *testing.T) {
	t.Parallel()
	fromBuffer := baseGroup("m1", 0, 0, 1)
	fromBuffer.Instance.ParentID = "x"
	base := baseGroup("m2", 0, 1)
	fromBuffer.Responses[0].Score.Outcome, fromBuffer.Responses[1].Score.Outcome = "infra", "infra"
	base.Responses[0].Score.Outcome, base.Responses[1].Score.Outcome = "infra", "infra"
	got := mustUpdate(t, New(settings(), 11), stateOf(entry("x", .1)), 3, fromBuffer, base, baseGroup("m3")).Entries
	want := entry("x", .1)
	want.Visits, want.LastSampled = 1, 3
	if diff := cmp.Diff([]shard.Entry{want}, got); diff != "" {
		t.Errorf("buffer (-want +got):\n%s", diff)
	}
}

// Expansion takes valid responses alone, each equally often when it takes
// one: of 3000 draws of two each is drawn 1500 ± 137 times (five standard
// deviations of 27.4).
func TestExpandOneIsUniformOverTheValid(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.Expand, spec.BufferSize = ExpandOne, 1
	e := New(spec, 11)
	g := baseGroup("m1", 1, .3, 0)
	g.Responses[1].Score.Outcome = "infra"
	counts := map[float64]int{}
	for iteration := 2; iteration < 3002; iteration++ {
		counts[mustUpdate(t, e, stateOf(), iteration, g).Entries[0].BaseScore]++
	}
	if counts[.3] != 0 || counts[1] < 1363 || counts[1] > 1637 || counts[0]+counts[1] != 3000 {
		t.Errorf("base scores drawn: %v, want about 1500 of 1 and of 0", counts)
	}
}

// ExIt §5.2, ablation "curriculum": the base task itself is the entry. It
// is there once, with its newest score, and is sampled as it was.
func TestAblationWithoutImprovement(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.Improve, spec.SelectProbability = false, 1
	e := New(spec, 11)
	state := mustUpdate(t, e, stateOf(), 2, baseGroup("m1", 1, 0))
	again := baseGroup("m2", 1, 1, 0)
	again.Instance.TaskID = "task of m1"
	state = mustUpdate(t, e, state, 3, again)
	if len(state.Entries) != 1 {
		t.Fatalf("buffer %+v, want one entry", state.Entries)
	}
	near(t, "newest score", state.Entries[0].Potential, 2./9)
	if state.Entries[0].LastSampled != 3 {
		t.Errorf("%+v was last sampled in iteration 3", state.Entries[0])
	}

	selections, err := e.Next(state, 4, 1, []string{"other"})
	if err != nil {
		t.Fatal(err)
	}
	s := selections[0]
	if s.TaskID != "task of m1" || s.Kind != shard.KindInitial || s.Origin != shard.OriginBuffer || s.Depth != 0 || !s.Ref.IsZero() || s.ParentID != state.Entries[0].EntryID {
		t.Errorf("selection %+v, want the base task from the buffer", s)
	}

	// The group of that selection gives the entry a new score, and inserts nothing.
	selected := baseGroup("m3", 1, .5)
	selected.Instance.ParentID, selected.Instance.TaskID = s.ParentID, s.TaskID
	state = mustUpdate(t, e, state, 4, selected)
	if len(state.Entries) != 1 || state.Entries[0].Potential != .0625 || state.Entries[0].Visits != 3 {
		t.Errorf("buffer %+v, want one entry of score .0625 with three visits", state.Entries)
	}
}

// ExIt §4's selection in the ablation "curriculum": of a conversation of
// three turns the base task enters, and the histories that end before the second
// and the third response; what is selected is answered again, as it stands.
func TestAblationSelectsTurnPrefixes(t *testing.T) {
	t.Parallel()
	spec := settings()
	spec.Improve, spec.SelectProbability, spec.Expand, spec.BufferSize = false, 1, ExpandOne, 10
	e := New(spec, 11)
	g := baseGroup("m", 1, 0)
	for i := range g.Responses {
		g.Responses[i].Roles = []string{"user", "assistant", "user", "assistant", "tool", "assistant"}
		g.Responses[i].Turns, g.Responses[i].Ref.Messages = 3, 6
	}
	state := mustUpdate(t, e, stateOf(), 2, g)
	type prefix struct{ Messages, Turn, Depth int32 }
	var got []prefix
	for _, entry := range state.Entries {
		got = append(got, prefix{entry.Ref.Messages, entry.Turn, entry.Depth})
		if entry.Kind != "initial" || entry.Potential != .25 {
			t.Errorf("entry %+v, want a first answer of score .25", entry)
		}
	}
	if diff := cmp.Diff([]prefix{{0, 0, 0}, {3, 1, 0}, {5, 2, 0}}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}

	// A response from the history before the second turn has that history as its
	// prompt: only the one before the third is new.
	selected := g
	selected.Instance.InstanceID, selected.Instance.ParentID, selected.Instance.Turn = "m2", state.Entries[1].EntryID, 1
	selected.Responses = slices.Clone(g.Responses)
	for i := range selected.Responses {
		selected.Responses[i].PromptMessages, selected.Responses[i].Turns = 3, 2
	}
	state = mustUpdate(t, e, state, 3, selected)
	if len(state.Entries) != 4 || state.Entries[3].Ref.Messages != 5 || state.Entries[3].Turn != 2 || state.Entries[1].Visits != 1 {
		t.Errorf("buffer %+v, want one entry more, of five messages, and a visit of the second", state.Entries)
	}
}

// ExIt §4.1's quality and ExIt §4's reward differ where the reward is of
// improvement: from a parent of quality 1/2 the qualities 1/4, 1/2, 3/4, 1 have
// the mean 5/8 and the variance (9+1+1+9)/64/4 = 5/64; their improvements 0, 0,
// 1/2, 1 have the mean 3/8 and the variance (9+9+1+25)/64/4 = 11/64.
func TestLearnabilityOfRewardOrQuality(t *testing.T) {
	t.Parallel()
	g := baseGroup("m", .25, .5, .75, 1)
	for i, reward := range []float64{0, 0, .5, 1} {
		g.Responses[i].Reward = reward
	}
	for of, want := range map[string]float64{OfQuality: 5. / 64, OfReward: 11. / 64} {
		spec := settings()
		spec.Learnability = of
		if got := mustUpdate(t, New(spec, 11), stateOf(), 2, g).Entries[0].Potential; got != want {
			t.Errorf("learnability of the %s: %v, want %v", of, got, want)
		}
	}
}

// An entry without a place in the order of scores would never be replaced.
func TestScoresThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	_, err := New(settings(), 11).Update(stateOf(entry("x", .1), entry("y", math.NaN())), 2, nil, nil)
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `entry "y" has the score NaN`) {
		t.Errorf("error %v, want one that names y", err)
	}
}
