package flipts

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed settings.go
var source string

var _ = config.Docs[Settings](source)

// Settings are those of FlipTS §3.3, §3.4 and Alg. 1.
type Settings struct {
	WarmUp         int     `yaml:"warm_up"`                                  // W, iterations of uniform sampling, whose counts make the prior
	Target         float64 `yaml:"target"`                                   // ξ_target, the probability of the event that questions are selected for
	Decay          float64 `yaml:"decay"`                                    // λ, discount of a question's earlier counts when it is sampled again
	PoolSize       int     `yaml:"pool_size"`                                // M, questions of the candidate pool
	RefreshShare   float64 `yaml:"refresh_share"`                            // η, observed share of the pool at which it is refreshed
	CullShare      float64 `yaml:"cull_share"`                               // γ, share of the pool that a refresh replaces, of the observed questions alone
	Event          string  `yaml:"event" choices:"f2s,adjacent_f2s,success"` // what is estimated of a question: f2s, a trace whose first turn fails and whose last succeeds; adjacent_f2s, one in which a turn succeeds after one that failed; success, one whose last turn succeeds (final-success sampling, FlipTS §4.4)
	SampleVariance bool    `yaml:"sample_variance"`                          // the prior's variance is the sample's, not the population's
}

// The values of Settings.Event.
const (
	EventF2S         = "f2s"
	EventAdjacentF2S = "adjacent_f2s"
	EventSuccess     = "success"
)

func init() {
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "questions whose chance of turning a failure into a success is near a target, by Thompson sampling from a pool (FlipTS)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) { settings.(*Settings).validate(c) },
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

// DefaultSettings are those of FlipTS §4.1. The paper gives neither W nor λ.
func DefaultSettings() *Settings {
	return &Settings{WarmUp: 20, Target: 0.5, Decay: 0.9, PoolSize: 2000, RefreshShare: 0.3, CullShare: 0.25, Event: EventF2S}
}

func (s *Settings) validate(c *config.Checker) {
	c.AtLeast("curriculum.flipts.warm_up", s.WarmUp, 1)
	c.Share("curriculum.flipts.target", s.Target)
	if !(s.Decay > 0 && s.Decay <= 1) {
		c.Add("curriculum.flipts.decay", s.Decay, "must be above 0 and at most 1")
	}
	prompts, _ := config.Find[int](c.Settings(), "rollout.prompts")
	if c.AtLeast("curriculum.flipts.pool_size", s.PoolSize, 1) && s.PoolSize < prompts {
		c.Add("curriculum.flipts.pool_size", s.PoolSize, "must not be below rollout.prompts %d, which are selected from the pool", prompts)
	}
	if !(s.RefreshShare > 0 && s.RefreshShare <= 1) {
		c.Add("curriculum.flipts.refresh_share", s.RefreshShare, "must be above 0 and at most 1")
	}
	c.Share("curriculum.flipts.cull_share", s.CullShare)
	if c.Choice("curriculum.flipts.event", s.Event) && s.Event != EventSuccess {
		scaffold, _ := config.Find[string](c.Settings(), "scaffold.name")
		turns, _ := config.Find[int](c.Settings(), "env.max_turns")
		if scaffold == "single" && turns == 1 {
			c.Add("curriculum.flipts.event", s.Event, "needs traces of two turns or more: scaffold.name chain with scaffold.steps 1 or more")
		}
	}
}
