package credit

import (
	_ "embed"
	"math"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed advantage.go
var advantageSource string

var _ = config.Docs[Diversity](advantageSource)

func init() {
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "group", Summary: "(reward - baseline) / scale over the valid segments of the group",
		Make: func(settings any) (Advantage, error) {
			spec := *settings.(*AdvantageSettings)
			spec.Clip = 0 // after the factors
			return groupStatistic{spec}, nil
		},
	})
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "gae", Summary: "generalised advantages of each token, by a critic (Schulman et al., ICLR 2016)",
		Make: func(any) (Advantage, error) { return byCritic{}, nil },
	})
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "none", Summary: "the reward itself (REINFORCE)",
		Make: func(any) (Advantage, error) { return reward{}, nil },
	})
	FactorAxis.Register(registry.Choice[Factor]{
		Name: "diversity", Summary: "how far a trace's embedding lies from the group's centre (ExIt Eq. 6)",
		Settings: func() any { return &Diversity{} },
		Validate: func(c *config.Checker, settings any) {
			if bound := settings.(*Diversity).Bound; bound != 0 && !(bound >= 1) {
				c.Add("factors.diversity.bound", bound, "must be 1 or more, or 0 for none")
			}
			if embedding, _ := config.Find[string](c.Settings(), "score.embedding"); embedding == "none" {
				c.Add("factors", "diversity", "needs score.embedding")
			}
		},
		Make: func(settings any) (Factor, error) {
			if spec, ok := settings.(*Diversity); ok {
				return diversity{spec.Bound}, nil
			}
			return diversity{}, nil
		},
	})
}

// groupStatistic compares the segments of a group with each other.
type groupStatistic struct{ spec AdvantageSettings }

func (groupStatistic) Critic() bool { return false }

// Advantage is [GroupAdvantages] over the group's segments.
func (a groupStatistic) Advantage(g Group, segments []Segment) error {
	rewards, valid, lengths := make([]float64, len(segments)), make([]bool, len(segments)), make([]int, len(segments))
	for i, s := range segments {
		rewards[i], lengths[i] = s.Reward, Tokens(g.Traces[s.Trace], s)
		valid[i] = g.counts(s)
	}
	advantages, err := GroupAdvantages(a.spec, rewards, valid, lengths)
	undivided := exitcode.Code(err) == exitcode.Data // its scale is 0: it has no advantages
	if err != nil && !undivided {
		return err
	}
	for i := range segments {
		switch {
		case !undivided:
			segments[i].Advantage = advantages[i]
		case valid[i]:
			segments[i].Advantage = math.NaN()
		}
	}
	return nil
}

// byCritic leaves the advantages to the learner.
type byCritic struct{}

func (byCritic) Critic() bool                     { return true }
func (byCritic) Advantage(Group, []Segment) error { return nil }

// reward is compared with nothing.
type reward struct{}

func (reward) Critic() bool { return false }

func (reward) Advantage(g Group, segments []Segment) error {
	for i, s := range segments {
		if g.counts(s) {
			segments[i].Advantage = s.Reward
		}
	}
	return nil
}

// Diversity are the settings of the factor diversity.
type Diversity struct {
	Bound float64 `yaml:"bound"` // most that a factor may be, where two clusters that are close together would make thousands; 0 for none, as ExIt Eq. 6 has it
}

// diversity multiplies by the diversity of each trace, up to a bound unless that
// is 0.
type diversity struct{ bound float64 }

func (diversity) AfterWhitening() bool { return false }

// Factor is [DiversityScores] of each segment's trace; 1 for those that we
// failed to score.
func (d diversity) Factor(groups []Group, segments [][]Segment) ([][]float64, error) {
	factors := make([][]float64, len(groups))
	for g, group := range groups {
		embeddings, valid := make([][]float32, len(group.Traces)), make([]bool, len(group.Traces))
		for i, t := range group.Traces {
			embeddings[i], valid[i] = t.Score.Embedding, t.Valid()
		}
		scores, err := DiversityScores(embeddings, valid)
		if err != nil {
			return nil, err
		}
		factors[g] = make([]float64, len(segments[g]))
		for i, s := range segments[g] {
			factors[g][i] = 1
			if valid[s.Trace] {
				factors[g][i] = scores[s.Trace]
				if d.bound > 0 {
					factors[g][i] = min(factors[g][i], d.bound)
				}
			}
		}
	}
	return factors, nil
}
