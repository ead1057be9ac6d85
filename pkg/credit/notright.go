package credit

import (
	_ "embed"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed notright.go
var notRightSource string

var _ = config.Docs[NotRight](notRightSource)

// ReasonNotRight is the reason of [NotRight] in the ledger.
const ReasonNotRight = "not_right"

// NotRight drops what is not right where the right answer may be known, and leaves other
// responses to other choices: a policy that learns from its own answers to new problems keeps
// what it was taught.
type NotRight struct {
	Of []string `yaml:"of"` // rules of the curriculum (selected_by), such as first of curriculum.name rounds, whose instances are looked at; empty: all
}

func init() {
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonNotRight, Summary: "drops responses that are not right, of the instances that rules of the curriculum selected",
		Settings: func() any { return &NotRight{} },
		Make:     func(settings any) (Select, error) { return *settings.(*NotRight), nil },
	})
}

// When is after the advantage.
func (NotRight) When() When { return After }

// Drop looks at the outcome of the segment's last turn.
func (w NotRight) Drop(g Group, segments []Segment, at int) string {
	if len(w.Of) > 0 && !slices.Contains(w.Of, g.Instance.SelectedBy) {
		return ""
	}
	if shard.Outcome(g.Traces[segments[at].Trace].verdict(segments[at]).Outcome) != shard.OutcomeOK {
		return ReasonNotRight
	}
	return ""
}
