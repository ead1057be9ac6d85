package credit

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed consensus.go
var consensusSource string

var _ = config.Docs[Minority](consensusSource) && config.Docs[Shorter](consensusSource)

// The reasons of what is chosen without a reference answer, as in self-improvement
// (Lee et al., arXiv 2502.01612).
const (
	ReasonMinority = "minority" // too few of its group have its answer
	ReasonShorter  = "shorter"  // it is shorter than others of the iteration
)

// Minority drops the responses whose answer too few of their group have: majority voting.
// The paper asks several policies once each; this asks one policy several times. What is no answer
// is dropped always.
type Minority struct {
	Share float64 `yaml:"share"` // of the group's valid responses that must have the answer, itself included, in (0, 1] (the paper's code: 4 of 5)
}

// Shorter drops the responses that are shorter than the longest one to a prompt of as many
// tokens, in the whole iteration, by so many tokens or more: errors that leave something out
// are the most frequent ones where problems become longer. Responses that the length limit cut
// off are no measure.
type Shorter struct {
	By int `yaml:"by"` // tokens that a response lacks (the paper's code: 2)
}

func init() {
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonMinority, Summary: "drops responses whose answer too few of their group have (majority voting, arXiv 2502.01612)",
		Settings: func() any { return &Minority{Share: 0.8} },
		Validate: func(c *config.Checker, settings any) {
			if share := settings.(*Minority).Share; !(share > 0 && share <= 1) {
				c.Add("select.minority.share", share, "must be above 0 and at most 1")
			}
		},
		Make: func(settings any) (Select, error) { return *settings.(*Minority), nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonShorter, Summary: "drops responses that are shorter than the longest to a prompt of the same length (length filtering, arXiv 2502.01612)",
		Settings: func() any { return &Shorter{By: 2} },
		Validate: func(c *config.Checker, settings any) { c.AtLeast("select.shorter.by", settings.(*Shorter).By, 1) },
		Make:     func(settings any) (Select, error) { return shorter{by: settings.(*Shorter).By}, nil },
	})
}

// When is after the advantage.
func (Minority) When() When { return After }

// Drop counts the valid responses of the group that have the answer.
func (m Minority) Drop(g Group, segments []Segment, at int) string {
	answer := func(s Segment) string { return g.Traces[s.Trace].verdict(s).Extracted }
	valid, same := 0, 0
	for _, s := range segments {
		if !g.Traces[s.Trace].Valid() {
			continue
		}
		valid++
		if answer(s) == answer(segments[at]) {
			same++
		}
	}
	const rounding = 1e-9
	if answer(segments[at]) == "" || float64(same) < m.Share*float64(valid)-rounding {
		return ReasonMinority
	}
	return ""
}

// shorter is [Shorter] with the longest responses of an iteration, by the tokens of their
// prompts.
type shorter struct {
	after
	by      int
	longest map[int]int
}

var _ StatefulSelect = shorter{}

// Prepare measures the iteration. Nothing is kept for the next.
func (s shorter) Prepare(_ int, stats []shard.Stat, groups []Group, segments [][]Segment) (Select, []shard.Stat, error) {
	s.longest = map[int]int{}
	for g, group := range groups {
		for _, segment := range segments[g] {
			t := group.Traces[segment.Trace]
			if t.Valid() && (overlong{}).Drop(group, []Segment{segment}, 0) == "" {
				s.longest[promptTokens(t)] = max(s.longest[promptTokens(t)], Tokens(t, segment))
			}
		}
	}
	return s, stats, nil
}

// Drop compares with the longest.
func (s shorter) Drop(g Group, segments []Segment, at int) string {
	t := g.Traces[segments[at].Trace]
	if Tokens(t, segments[at]) <= s.longest[promptTokens(t)]-s.by {
		return ReasonShorter
	}
	return ""
}

// promptTokens are those of a trace's first context that the policy did not write.
func promptTokens(t Trace) int {
	if len(t.Contexts) == 0 {
		return 0
	}
	n := t.Contexts[0].Tokens
	for _, own := range t.Contexts[0].TurnTokens {
		n -= own
	}
	return n
}
