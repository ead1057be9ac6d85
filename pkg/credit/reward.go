package credit

import (
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func init() {
	for _, r := range []struct {
		name, summary string
		of            rewardOf
	}{
		{"verdict", "what the environment gives for the segment's last turn", verdictReward},
		{"score", "the normalised score of the segment's last turn", scoreReward},
		{"signed", "1 where the segment's last turn succeeds, -1 elsewhere (FlipTS §3.1)", signedReward},
		{"improvement", "on improve and diverge steps max(0, Δ/Δmax) over the response that is iterated on (ExIt §4), elsewhere what the environment gives", improvementReward},
		{"improvement_or_score", "on improve steps max(0, Δ/Δmax) over the response that is iterated on, elsewhere the normalised score (ExIt App. A.4)", improvementOrScore},
	} {
		RewardAxis.Register(registry.Choice[Reward]{Name: r.name, Summary: r.summary, Default: r.name == "verdict", Make: func(any) (Reward, error) { return r.of, nil }})
	}
}

// rewardOf is a reward that looks at one segment alone.
type rewardOf func(instance shard.Instance, last shard.TurnScore) (raw, reward float64)

// Reward gives each segment the reward of its last turn.
func (of rewardOf) Reward(_ int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]shard.Stat, error) {
	for g, group := range groups {
		for i := range segments[g] {
			s := &segments[g][i]
			s.Raw, s.Reward = of(group.Instance, group.Traces[s.Trace].verdict(*s))
		}
	}
	return stats, nil
}

// verdict is that on the last turn of a segment.
func (t Trace) verdict(s Segment) shard.TurnScore {
	if s.Last >= 0 && s.Last < t.Turns()-1 {
		return t.Turn(s.Last)
	}
	return t.Turn(len(t.Score.Turns)) // of the whole
}

func verdictReward(_ shard.Instance, last shard.TurnScore) (raw, reward float64) {
	return last.NormalizedScore, last.Reward
}

func scoreReward(_ shard.Instance, last shard.TurnScore) (raw, reward float64) {
	return last.NormalizedScore, last.NormalizedScore
}

// signedReward is r_t of FlipTS §3.1.
func signedReward(_ shard.Instance, last shard.TurnScore) (raw, reward float64) {
	if shard.Outcome(last.Outcome) == shard.OutcomeOK {
		return last.NormalizedScore, 1
	}
	return last.NormalizedScore, -1
}

// improvementReward is max(0, Δ/Δmax), where Δ is what a step has gained over
// the response that it iterates on and Δmax what was left to gain
// (ExIt §4). Nothing left to gain gives 0 (reading exit-perfect-parent).
func improvementReward(instance shard.Instance, last shard.TurnScore) (raw, reward float64) {
	if kind := shard.Kind(instance.Kind); kind != shard.KindImprove && kind != shard.KindDiverge {
		return verdictReward(instance, last)
	}
	most := 1 - instance.BaseScore
	if most <= 0 {
		return last.NormalizedScore, 0
	}
	return last.NormalizedScore, max(0, (last.NormalizedScore-instance.BaseScore)/most)
}

// improvementOrScore is what ExIt App. A.4 has for ML engineering: the
// improvement on improve steps, and the normalised score on diverge steps and base
// tasks (readings exit-verification and exit-invalid-submission).
func improvementOrScore(instance shard.Instance, last shard.TurnScore) (raw, reward float64) {
	if shard.Kind(instance.Kind) == shard.KindImprove {
		return improvementReward(instance, last)
	}
	return scoreReward(instance, last)
}
