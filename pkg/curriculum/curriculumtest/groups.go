package curriculumtest

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// groups samples a plan.
func (r *run) groups(plan []curriculum.Selection) []curriculum.Group {
	iteration := r.state.Iteration + 1
	groups := make([]curriculum.Group, len(plan))
	for i, s := range plan {
		id := fmt.Sprintf("i%06d-%06d", iteration, i)
		groups[i].Instance = shard.Instance{
			InstanceID: id, GroupID: id, TaskID: s.TaskID, Kind: string(s.Kind), ParentID: s.ParentID, Depth: int32(s.Depth), Turn: int32(s.Turn),
			BaseScore: s.BaseScore, Potential: s.Potential, Origin: string(s.Origin), Iteration: int32(iteration), PartnerID: s.PartnerID,
		}
		if r.outcome == nil {
			continue
		}
		for sample := range Group {
			stream := rng.New(seed, rng.PurposeTest, iteration, id, sample)
			outcome, quality := r.outcome(stream.Float64(0), iteration, i, sample)
			turns := 1 + stream.IntN(1, 2)
			groups[i].Responses = append(groups[i].Responses, r.response(s, shard.Ref{Iteration: int32(iteration), Row: int32(i), Sample: int32(sample)}, turns, outcome, quality))
		}
	}
	return groups
}

// response is one of some turns. User and policy take turns, so a prompt has an odd
// number of messages.
func (r *run) response(s curriculum.Selection, ref shard.Ref, turns int, outcome shard.Outcome, quality float64) curriculum.Response {
	prompt := int(s.Ref.Messages) | 1
	ref.Messages = int32(prompt + 2*turns - 1)
	made := curriculum.Response{Sample: int(ref.Sample), Ref: ref, PromptMessages: prompt, Turns: turns, Reward: quality}
	for i := range int(ref.Messages) {
		made.Roles = append(made.Roles, []string{"user", "assistant"}[i%2])
	}
	made.Score = shard.Score{Outcome: string(outcome), RawScore: quality, NormalizedScore: quality, Reward: quality, Extracted: "an answer"}
	for turn := range turns {
		ofTurn := shard.TurnScore{Outcome: string(shard.OutcomeWrong), Extracted: "an answer"}
		if turn == turns-1 {
			ofTurn.Outcome, ofTurn.NormalizedScore, ofTurn.Reward = string(outcome), quality, quality
		}
		made.Score.Turns = append(made.Score.Turns, ofTurn)
	}
	if r.subject.Adapt != nil {
		r.subject.Adapt(&made)
	}
	return made
}
