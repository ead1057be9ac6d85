package credit

import (
	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/registry"
)

func init() {
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "group", Summary: "(reward - baseline) / scale over the valid segments of the group",
		Make: func(settings any) (Advantage, error) {
			spec := *settings.(*objective.Advantage)
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
		Name: "diversity", Summary: "how far a trace's embedding lies from the group's centre (ExIt, equation 6)",
		Make: func(any) (Factor, error) { return diversity{}, nil },
	})
}

// groupStatistic compares the segments of a group with each other.
type groupStatistic struct{ spec objective.Advantage }

func (groupStatistic) Critic() bool { return false }

// Advantage is [objective.Advantages] over the group's segments.
func (a groupStatistic) Advantage(g Group, segments []Segment) error {
	rewards, valid, lengths := make([]float64, len(segments)), make([]bool, len(segments)), make([]int, len(segments))
	for i, s := range segments {
		rewards[i], lengths[i] = s.Reward, Tokens(g.Traces[s.Trace], s)
		valid[i] = g.Traces[s.Trace].Valid() && s.Dropped == ""
	}
	advantages, err := objective.Advantages(a.spec, rewards, valid, lengths)
	if err != nil {
		return err
	}
	for i := range segments {
		segments[i].Advantage = advantages[i]
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
		if g.Traces[s.Trace].Valid() && s.Dropped == "" {
			segments[i].Advantage = s.Reward
		}
	}
	return nil
}

// diversity multiplies by the diversity of each trace.
type diversity struct{}

func (diversity) AfterWhitening() bool { return false }

// Factor is [objective.Diversity] of each segment's trace; 1 for those that we
// failed to judge.
func (diversity) Factor(groups []Group, segments [][]Segment) ([][]float64, error) {
	factors := make([][]float64, len(groups))
	for g, group := range groups {
		embeddings, valid := make([][]float32, len(group.Traces)), make([]bool, len(group.Traces))
		for i, t := range group.Traces {
			embeddings[i], valid[i] = t.Score.Embedding, t.Valid()
		}
		scores, err := objective.Diversity(embeddings, valid)
		if err != nil {
			return nil, err
		}
		factors[g] = make([]float64, len(segments[g]))
		for i, s := range segments[g] {
			factors[g][i] = 1
			if valid[s.Trace] {
				factors[g][i] = scores[s.Trace]
			}
		}
	}
	return factors, nil
}
