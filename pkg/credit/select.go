package credit

import (
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The reasons of the choices here, as they stand in the ledger. A choice has
// the name of its reason.
const (
	ReasonMinGroup      = "min_group"      // its group has too few valid traces
	ReasonConstantGroup = "constant_group" // all rewards of its group are equal
	ReasonEmpty         = "empty"          // no token of it is the policy's
	ReasonOverlong      = "overlong"       // the length limit cut it off
	ReasonInvalid       = "invalid"        // nothing in it can be judged
	ReasonMinAdvantage  = "min_advantage"  // its advantage is too small
)

// Ordered puts names of choices into the order in which their reasons count,
// with the one that every composition has: nothing is learned from what nobody
// said. Names that are not of this package come last, sorted.
func Ordered(names []string) []string {
	rank := []string{ReasonMinGroup, ReasonConstantGroup, ReasonEmpty, ReasonOverlong, ReasonInvalid, ReasonNoSubmission, ReasonMinAdvantage}
	var ordered, others []string
	for _, name := range rank {
		if name == ReasonEmpty || slices.Contains(names, name) {
			ordered = append(ordered, name)
		}
	}
	for _, name := range names {
		if !slices.Contains(rank, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append(ordered, others...)
}

// Limit is the settings of a choice that compares with a number.
type Limit struct {
	Value float64
}

func init() {
	for _, s := range []struct {
		name, summary string
		make          func(limit float64) Select
	}{
		{ReasonMinGroup, "drops groups with fewer valid traces", func(n float64) Select { return minGroup(n) }},
		{ReasonConstantGroup, "drops groups whose rewards are all equal", func(float64) Select { return constantGroup{} }},
		{ReasonEmpty, "drops segments without a token of the policy's; always on", func(float64) Select { return empty{} }},
		{ReasonOverlong, "drops traces that the length limit cut off (DAPO, section 3.4)", func(float64) Select { return overlong{} }},
		{ReasonInvalid, "drops traces in which nothing can be judged (ExIt, appendix A.3)", func(float64) Select { return invalid{} }},
		{ReasonMinAdvantage, "drops segments whose |advantage| is below a number", func(a float64) Select { return minAdvantage(a) }},
	} {
		choice := registry.Choice[Select]{Name: s.name, Summary: s.summary, Make: func(settings any) (Select, error) {
			if limit, ok := settings.(*Limit); ok {
				return s.make(limit.Value), nil
			}
			return s.make(0), nil
		}}
		SelectAxis.Register(choice)
	}
}

// after is what choices have in common that leave the statistics of the group
// alone: only the gradient of what they drop is left out.
type after struct{}

// When is after the advantage.
func (after) When() When { return After }

type minGroup float64

func (minGroup) When() When { return After }

func (n minGroup) Drop(g Group, _ []Segment, _ int) string {
	valid := 0
	for _, t := range g.Traces {
		if t.Valid() {
			valid++
		}
	}
	if float64(valid) < float64(n) {
		return ReasonMinGroup
	}
	return ""
}

type constantGroup struct{ after }

func (constantGroup) Drop(g Group, segments []Segment, _ int) string {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, s := range segments {
		if g.Traces[s.Trace].Valid() {
			lowest, highest = min(lowest, s.Reward), max(highest, s.Reward)
		}
	}
	if lowest == highest {
		return ReasonConstantGroup
	}
	return ""
}

type empty struct{ after }

func (empty) Drop(g Group, segments []Segment, at int) string {
	if Tokens(g.Traces[segments[at].Trace], segments[at]) == 0 {
		return ReasonEmpty
	}
	return ""
}

type overlong struct{ after }

func (overlong) Drop(g Group, segments []Segment, at int) string {
	contexts := g.Traces[segments[at].Trace].Contexts
	if contexts[len(contexts)-1].FinishReason == string(policy.FinishLength) {
		return ReasonOverlong
	}
	return ""
}

type invalid struct{ after }

func (invalid) Drop(g Group, segments []Segment, at int) string {
	if shard.Outcome(g.Traces[segments[at].Trace].Score.Outcome) == shard.OutcomeInvalid {
		return ReasonInvalid
	}
	return ""
}

type minAdvantage float64

func (minAdvantage) When() When { return After }

func (a minAdvantage) Drop(_ Group, segments []Segment, at int) string {
	if math.Abs(segments[at].Advantage) < float64(a) {
		return ReasonMinAdvantage
	}
	return ""
}
