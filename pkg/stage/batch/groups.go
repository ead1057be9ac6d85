package batch

import (
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// curriculumGroups shows the curriculum what was sampled.
func (r *reduction) curriculumGroups() []curriculum.Group {
	groups := make([]curriculum.Group, len(r.groups))
	for i, g := range r.groups {
		groups[i] = curriculum.Group{Instance: g.Instance, Responses: make([]curriculum.Response, len(g.Traces))}
		for j, t := range g.Traces {
			response := lastAttempt(g.contexts[j])
			response.Score, response.Reward = t.Score, g.reward(j)
			response.Ref.Iteration, response.Ref.Row = int32(g.iteration), int32(g.row)
			groups[i].Responses[j] = response
		}
	}
	return groups
}

// lastAttempt is what the curriculum sees of a trace: its last attempt, contexts
// one after the other.
func lastAttempt(contexts []contextRow) curriculum.Response {
	last := contexts[len(contexts)-1]
	r := curriculum.Response{Sample: int(last.Sample), Ref: shard.Ref{Sample: last.Sample, Step: last.Step, Wave: last.Wave}}
	for _, c := range contexts {
		if c.Step != last.Step {
			continue
		}
		if r.Roles == nil {
			r.PromptMessages = int(c.PromptMessages)
		}
		for _, message := range c.Messages {
			r.Roles = append(r.Roles, message.Role)
		}
		r.Turns += int(c.Turns)
	}
	r.Ref.Messages = int32(len(r.Roles))
	return r
}
