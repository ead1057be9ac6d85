package credit

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed shaped.go
var shapedSource string

var _ = config.Docs[Shaped](shapedSource)

// Shaped is the reward of AceGRPO §4.1 (AceGRPO Eq. 6) for a response with
// the score s, where s_p is that of the solution it goes on from: 0 for a first
// attempt, FailedParent after one that failed.
//
//	R = 0                                                  where there is no valid submission
//	R = (1 − α) s + α max(0, (s − s_p) / (1 − s_p + ε))    elsewhere
type Shaped struct {
	Alpha        float64 `yaml:"alpha"`         // α: the share of the improvement, from 0 to 1 (AceGRPO Tab. 3: 0.3)
	Epsilon      float64 `yaml:"epsilon"`       // ε, above 0 (AceGRPO Tab. 3: 1e-6)
	FailedParent float64 `yaml:"failed_parent"` // s_p after a program that failed: -1, the score of an invalid submission, or 0
}

func init() {
	const name = "score_and_improvement"
	RewardAxis.Register(registry.Choice[Reward]{
		Name: name, Summary: "the normalised score mixed with its improvement on what it goes on from; nothing without a valid submission (AceGRPO Eq. 6)",
		Settings: func() any { return &Shaped{Alpha: 0.3, Epsilon: 1e-6, FailedParent: -1} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*Shaped)
			const section = "reward." + name
			c.Share(section+".alpha", s.Alpha)
			c.Positive(section+".epsilon", s.Epsilon)
			if !(s.FailedParent >= -1 && s.FailedParent <= 0) {
				c.Add(section+".failed_parent", s.FailedParent, "must be from -1 to 0")
			}
		},
		Make: func(settings any) (Reward, error) { return rewardOf(settings.(*Shaped).reward), nil },
	})
}

// reward is R(x, y) of AceGRPO Eq. 6 (reading acegrpo-failed-parent).
func (s *Shaped) reward(instance shard.Instance, last shard.TurnScore) (raw, reward float64) {
	score := last.NormalizedScore
	var parent float64
	if shard.Outcome(last.Outcome) != shard.OutcomeOK {
		return score, 0
	}
	switch shard.Kind(instance.Kind) {
	case shard.KindInitial:
	case shard.KindDebug:
		parent = s.FailedParent
	default:
		parent = instance.BaseScore
	}
	return score, (1-s.Alpha)*score + s.Alpha*max(0, (score-parent)/(1-parent+s.Epsilon))
}
