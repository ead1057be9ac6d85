package credit

import (
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
)

// ReasonNonPositive is the reason of [NonPositive] in the ledger.
const ReasonNonPositive = "non_positive"

// NonPositive drops segments whose advantage is 0 or less, as the baseline
// "Dynamic-filter GRPO" does (FlipTS App. D). What it costs is in the ledger:
// responses that were sampled for nothing.
type NonPositive struct{}

func init() {
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonNonPositive, Summary: "drops segments whose advantage is not above 0 (FlipTS App. D)",
		Validate: func(c *config.Checker, _ any) { needsAdvantages(c, "select", ReasonNonPositive, ReasonNonPositive) },
		Make:     func(any) (Select, error) { return NonPositive{}, nil },
	})
}

// When is after the advantage (reading flipts-dynamic-filter).
func (NonPositive) When() When { return After }

// Drop compares with 0.
func (NonPositive) Drop(_ Group, segments []Segment, at int) string {
	if segments[at].Advantage <= 0 {
		return ReasonNonPositive
	}
	return ""
}
