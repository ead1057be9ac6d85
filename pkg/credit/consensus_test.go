package credit

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// answering is a trace with an answer, of a prompt and a response of so many tokens.
func answering(answer string, prompt, response int, finish string) Trace {
	return Trace{
		Contexts: []Context{{Tokens: prompt + response, TurnTokens: []int{response}, FinishReason: finish}},
		Score:    shard.Score{Outcome: string(shard.OutcomeWrong), Extracted: answer},
	}
}

func groupOf(traces ...Trace) (Group, []Segment) {
	segments := make([]Segment, len(traces))
	for i := range segments {
		segments[i].Trace = i
	}
	return Group{Traces: traces}, segments
}

// By hand: of 12, 12, 12 and 13, and of a fifth that we failed to score, three of four have
// the answer 12, a share of 0.75, and one 13. Nothing is an answer of nobody.
func TestMinority(t *testing.T) {
	t.Parallel()
	failed := answering("13", 5, 3, "stop")
	failed.Score.Outcome = string(shard.OutcomeInfra)
	g, segments := groupOf(answering("12", 5, 3, "stop"), answering("12", 5, 3, "stop"), answering("12", 5, 3, "stop"), answering("13", 5, 3, "stop"), failed)
	for share, want := range map[float64][]string{
		0.75: {"", "", "", ReasonMinority}, 0.8: {ReasonMinority, ReasonMinority, ReasonMinority, ReasonMinority}, 0.25: {"", "", "", ""},
	} {
		var got []string
		for at := range 4 {
			got = append(got, Minority{share}.Drop(g, segments, at))
		}
		if !slices.Equal(got, want) {
			t.Errorf("share %v: %q, want %q", share, got, want)
		}
	}
	g, segments = groupOf(answering("", 5, 1, "stop"), answering("", 5, 1, "stop"))
	if (Minority{0.5}).Drop(g, segments, 0) != ReasonMinority {
		t.Error("no answer is kept")
	}
	g, segments = groupOf(answering("7", 5, 1, "stop"))
	if (Minority{1}).Drop(g, segments, 0) != "" {
		t.Error("a lone answer is dropped")
	}
}

// By hand: of prompts of 5 tokens the longest response that ended by itself has 4 tokens, in
// another group, so responses of 3 stay and those of 2 go with by = 2; the one that was cut off
// at 9 is no measure, and the prompts of 7 tokens have a longest of their own.
func TestShorter(t *testing.T) {
	t.Parallel()
	a, inA := groupOf(answering("1", 5, 3, "stop"), answering("2", 5, 2, "stop"), answering("3", 5, 9, "length"))
	b, inB := groupOf(answering("4", 5, 4, "stop"))
	c, inC := groupOf(answering("5", 7, 2, "stop"))
	choice, err := SelectAxis.Make(ReasonShorter, nil)
	if err != nil || choice.When() != After {
		t.Fatal(err)
	}
	other := []shard.Stat{{Scope: "window"}}
	bound, stats, err := choice.(StatefulSelect).Prepare(1, other, []Group{a, b, c}, [][]Segment{inA, inB, inC})
	if err != nil || !slices.Equal(stats, other) {
		t.Fatal(stats, err)
	}
	got := []string{bound.Drop(a, inA, 0), bound.Drop(a, inA, 1), bound.Drop(a, inA, 2), bound.Drop(b, inB, 0), bound.Drop(c, inC, 0)}
	if want := []string{"", ReasonShorter, "", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if promptTokens(Trace{}) != 0 {
		t.Error("a trace without a context has a prompt")
	}
}

// Of a right and a wrong answer the wrong one goes, where the rule that selected the instance is
// looked at.
func TestNotRight(t *testing.T) {
	t.Parallel()
	right := answering("1", 5, 1, "stop")
	right.Score.Outcome = string(shard.OutcomeOK)
	g, segments := groupOf(right, answering("2", 5, 1, "stop"))
	for _, c := range []struct {
		of   []string
		rule string
		want string
	}{{nil, "newest", ReasonNotRight}, {[]string{"first"}, "first", ReasonNotRight}, {[]string{"first"}, "newest", ""}} {
		g.Instance.SelectedBy = c.rule
		if got := (NotRight{c.of}).Drop(g, segments, 1); got != c.want || (NotRight{c.of}).Drop(g, segments, 0) != "" {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
