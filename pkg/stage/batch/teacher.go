package batch

import (
	"encoding/json"

	"github.com/lathe-rl/lathe/pkg/credit"
)

// teacherPrompt words the prompt under which a teacher scores a trace, whose shard is
// held, as JSON of its messages; empty for the policy's own prompt.
func (r *reduction) teacherPrompt(held *tokens, g group, trace int) (string, error) {
	if r.in.TeacherPrompt == nil {
		return "", nil
	}
	if r.Advantage.Teacher.Context == credit.TeacherImproveBest {
		trace = g.best()
	}
	messages, err := r.in.TeacherPrompt(g.Instance.TaskID, held.messages[g.contexts[trace][0].Name()], g.Traces[trace].Score)
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(messages)
	return string(encoded), err
}

// best is the valid trace with the highest reward in which the policy spoke, the first of
// several.
func (g group) best() int {
	best := -1
	for i, t := range g.Traces {
		if t.Valid() && t.Turns() > 0 && (best < 0 || t.Score.Reward > g.Traces[best].Score.Reward) {
			best = i
		}
	}
	return max(0, best)
}
