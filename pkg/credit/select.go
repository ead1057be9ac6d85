package credit

import (
	_ "embed"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed select.go
var selectSource string

var _ = []any{config.Docs[MinGroup](selectSource), config.Docs[MinAdvantage](selectSource)}

// The reasons of the choices here, as they stand in the ledger. A choice has
// the name of its reason.
const (
	ReasonMinGroup      = "min_group"      // its group has too few valid traces
	ReasonConstantGroup = "constant_group" // all rewards of its group are equal
	ReasonEmpty         = "empty"          // no token of it is the policy's
	ReasonOverlong      = "overlong"       // the length limit cut it off
	ReasonInvalid       = "invalid"        // nothing in it can be scored
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

// MinGroup drops groups with few valid traces.
type MinGroup struct {
	Responses int `yaml:"responses"` // drop groups with fewer valid responses
}

// MinAdvantage drops segments that would change the policy little.
type MinAdvantage struct {
	Magnitude float64 `yaml:"magnitude"` // drop segments with |A| below
}

func init() {
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonMinGroup, Summary: "drops groups with few valid traces",
		Settings: func() any { return &MinGroup{Responses: 2} },
		Validate: func(c *config.Checker, settings any) {
			const field = "select.min_group.responses"
			n := settings.(*MinGroup).Responses
			group, _ := config.Find[int](c.Settings(), "rollout.group")
			if c.AtLeast(field, n, 1) && group >= 1 && n > group {
				c.Add(field, n, "must not be above rollout.group %d, or every group is dropped", group)
			}
		},
		Make: func(settings any) (Select, error) { return *settings.(*MinGroup), nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonConstantGroup, Summary: "drops groups whose rewards are all equal, before the punishment of reward.overlong (DAPO, section 3.2)",
		Validate: func(c *config.Checker, _ any) {
			if group, _ := config.Find[int](c.Settings(), "rollout.group"); group == 1 {
				c.Add("rollout.group", group, "must be 2 or more for constant_group in select: one reward is always constant, so every response would be dropped")
			}
		},
		Make: func(any) (Select, error) { return constantGroup{}, nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonEmpty, Summary: "drops segments without a token of the policy's; always on, so that no recipe names it",
		Make: func(any) (Select, error) { return empty{}, nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonOverlong, Summary: "drops traces that the length limit cut off (DAPO, section 3.4)",
		Make: func(any) (Select, error) { return overlong{}, nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonInvalid, Summary: "drops traces that cannot be scored: in tool use those that end neither with calls nor with <TASK_FINISHED> or <TASK_ERROR> (ExIt App. A.3)",
		Make: func(any) (Select, error) { return invalid{}, nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonMinAdvantage, Summary: "drops segments whose |advantage| is small",
		Settings: func() any { return &MinAdvantage{Magnitude: 0.5} },
		Validate: func(c *config.Checker, settings any) {
			const field = "select.min_advantage.magnitude"
			least := settings.(*MinAdvantage).Magnitude
			c.Positive(field, least)
			needsAdvantages(c, field, ReasonMinAdvantage, least)
		},
		Make: func(settings any) (Select, error) { return *settings.(*MinAdvantage), nil },
	})
}

// needsAdvantages refuses a choice of select that looks at advantages, which stands at a
// field, where only the learner makes them.
func needsAdvantages(c *config.Checker, field, choice string, value any) {
	if name, _ := config.Find[string](c.Settings(), "advantage.name"); name == "gae" || name == "teacher" {
		c.Add(field, value, "has no meaning with advantage.name %s, whose advantages are not known before the learner's: leave %s out", name, choice)
	}
}

// after is what choices have in common that leave the statistics of the group
// alone: only the gradient of what they drop is left out.
type after struct{}

// When is after the advantage.
func (after) When() When { return After }

// When is after the advantage.
func (MinGroup) When() When { return After }

// Drop counts the valid traces.
func (m MinGroup) Drop(g Group, _ []Segment, _ int) string {
	valid := 0
	for _, t := range g.Traces {
		if t.Valid() {
			valid++
		}
	}
	if valid < m.Responses {
		return ReasonMinGroup
	}
	return ""
}

type constantGroup struct{ after }

func (constantGroup) Drop(g Group, segments []Segment, _ int) string {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, s := range segments {
		if g.counts(s) {
			lowest, highest = min(lowest, s.Earned), max(highest, s.Earned)
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

// When is after the advantage.
func (MinAdvantage) When() When { return After }

// Drop compares |A|.
func (m MinAdvantage) Drop(_ Group, segments []Segment, at int) string {
	if math.Abs(segments[at].Advantage) < m.Magnitude {
		return ReasonMinAdvantage
	}
	return ""
}
