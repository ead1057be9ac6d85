package mle

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// said is a parent with a program, of which a validation score is known.
func said(program string, validation float64) *env.Parent {
	return &env.Parent{
		Messages: []shard.Message{{Role: "user", Content: "?"}, {Role: "assistant", Content: "```\n" + program + "\n```"}},
		Verdict: &env.TurnVerdict{
			Outcome: shard.OutcomeOK, Feedback: "ran", ValidationScore: validation, Parts: []shard.RewardPart{{Name: env.PartValidation, Value: validation}},
		},
	}
}

// A prompt that joins two programs shows both with their scores; of one alone it is that to
// improve on the other, and of none a first attempt.
func TestCrossover(t *testing.T) {
	t.Parallel()
	e, of := over(t, func(s *Settings) {
		s.Prompts.Draft, s.Prompts.Improve = "first", "improve {program}"
		s.Prompts.Crossover = "{program}{score} and {other_program}{other_score}: {other_terminal_output}"
	})
	nothing := &env.Parent{Messages: []shard.Message{{Role: "assistant", Content: "no program"}}}
	for _, c := range []struct {
		parent, partner *env.Parent
		want            string
	}{
		{said("x", .5), said("y", .25), "x\n (Its validation score was 0.5) and y\n (Its validation score was 0.25): ran\nIts validation score was 0.25."},
		{said("x", .5), nothing, "improve x\n"},
		{said("x", .5), nil, "improve x\n"},
		{nothing, said("y", .25), "improve y\n"},
		{nothing, nothing, "first"},
	} {
		parent := *c.parent
		parent.Partner = c.partner
		if got := must.Get(e.Prompt(of, shard.KindCrossover, parent))(t); len(got) != 1 || got[0].Content != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if !e.Traits().Joins {
		t.Error("the environment joins no programs")
	}
	for name := range styles {
		s := styleOf(Settings{Style: name})
		if asked := fill(s.crossover, map[string]string{"program": "PROGRAM", "response": "PROGRAM", "memory": "PROGRAM", "other_program": "OTHER"}); !strings.Contains(asked, "PROGRAM") || !strings.Contains(asked, "OTHER") {
			t.Errorf("%s does not show both programs: %s", name, asked)
		}
	}
}

// With the share 1 each demonstration to improve joins two programs of the grammar: the answer
// is the first with the features of the other. First attempts, and all with the share 0, are as
// they were.
func TestJoinedDemonstrations(t *testing.T) {
	t.Parallel()
	with := func(share float64) (*Env, env.Task) {
		return over(t, func(s *Settings) { s.Style, s.Grammar = "short", &Grammar{Buggy: .3, Crossover: share} })
	}
	joins, task := with(1)
	plain, _ := with(0)
	others := 0
	for i := range 50 {
		stream := rng.New(uint64(i), rng.PurposeTest, 0, "", 0)
		for _, kind := range []shard.Kind{shard.KindInitial, shard.KindImprove} {
			got, ok, err := joins.Demonstration(task, kind, stream)
			if err != nil || !ok {
				t.Fatal(err)
			}
			before := must.Get2(plain.Demonstration(task, kind, stream))
			was, _ := before(t)
			if kind == shard.KindInitial {
				if got[0] != was[0] || got[1] != was[1] {
					t.Fatalf("a first attempt became %q", got)
				}
				continue
			}
			head, both, _ := strings.Cut(got[0].Content, "\n")
			if !strings.HasPrefix(head, "seeds accuracy crossover (Its validation score was 0.") || strings.Count(both, "import pandas") != 2 {
				t.Fatalf("prompt %q", got[0].Content)
			}
			at := strings.LastIndex(both, "import pandas")
			first, other, answer := strings.Split(both[:at], "\n"), strings.Split(both[at:], "\n"), strings.Split(got[1].Content, "\n")
			model := func(lines []string) string { return lines[1] }
			features := func(lines []string) string {
				text := strings.Join(lines, "\n")
				_, rest, _ := strings.Cut(text, "x=p.concat([a,b])\n")
				own, _, _ := strings.Cut(rest, "\nm=M(")
				return own
			}
			if model(answer) != model(first) || features(answer) != features(other) {
				t.Fatalf("%q of\n%s", got[1].Content, both)
			}
			if features(first) != features(other) {
				others++
			}
		}
	}
	if others < 20 {
		t.Errorf("%d of 50 pairs have other features: the test shows little", others)
	}
}
