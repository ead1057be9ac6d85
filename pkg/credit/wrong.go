package credit

import (
	_ "embed"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed wrong.go
var wrongSource string

var _ = config.Docs[Wrong](wrongSource)

// ReasonWrong is the reason of [Wrong] in the ledger.
const ReasonWrong = "wrong"

// Wrong drops what is not right where the right answer may be known, and leaves other
// responses to other choices: a policy that learns from its own answers to new problems keeps
// what it was taught.
type Wrong struct {
	Of []string `yaml:"of"` // rules of the curriculum (selected_by), such as first of curriculum.name rounds, whose instances are looked at; empty: all
}

func init() {
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonWrong, Summary: "drops responses that are not right, of the instances that rules of the curriculum selected",
		Settings: func() any { return &Wrong{} },
		Make:     func(settings any) (Select, error) { return *settings.(*Wrong), nil },
	})
}

// When is after the advantage.
func (Wrong) When() When { return After }

// Drop looks at the outcome of the segment's last turn.
func (w Wrong) Drop(g Group, segments []Segment, at int) string {
	if len(w.Of) > 0 && !slices.Contains(w.Of, g.Instance.SelectedBy) {
		return ""
	}
	if shard.Outcome(g.Traces[segments[at].Trace].verdict(segments[at]).Outcome) != shard.OutcomeOK {
		return ReasonWrong
	}
	return ""
}
