package math

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// finishLength is the finish reason of a response that the length limit cut.
const finishLength = "length"

// Score scores each response of an attempt. A right answer has reward 1, any
// other 0 (ExIt App. A.2), and the same holds for self-improve and
// self-diverge steps. env.answer.format_reward is given to a wrong answer that
// could be read. The reward is the sum of its parts, correct and format.
//
// A response that the length limit cut is scored by what it says; if nothing
// in it can be read, it is invalid like any other.
func (e *Env) Score(ctx context.Context, a env.Attempt) (env.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return env.Verdict{}, err
	}
	replies := a.Own
	if len(replies) == 0 || replies[len(replies)-1] != len(a.Messages)-1 {
		return env.Verdict{}, exitcode.Bugf("scoring %q: the conversation does not end with a response", a.Task.ID)
	}
	var verdict env.Verdict
	for i, at := range replies {
		finish := ""
		if i == len(replies)-1 {
			finish = a.Finish
		}
		var turn env.TurnVerdict
		turn, verdict.Reason = e.grade(a.Task, a.Messages[at].Content, finish)
		verdict.Turns = append(verdict.Turns, turn)
	}
	verdict.TurnVerdict = verdict.Turns[len(replies)-1]
	verdict.Form, verdict.Others = e.audit(a.Task, a.Messages[len(a.Messages)-1].Content)
	return verdict, nil
}

// grade scores one response.
func (e *Env) grade(task env.Task, response, finish string) (verdict env.TurnVerdict, reason string) {
	found := e.grader.Grade(task, response)
	verdict = env.TurnVerdict{Outcome: shard.OutcomeInvalid, Extracted: found.Extracted, Feedback: found.Why}
	correct, format := 0.0, 0.0
	switch {
	case found.Equal:
		verdict.Outcome, correct = shard.OutcomeOK, 1
	case found.Readable:
		verdict.Outcome, format = shard.OutcomeWrong, e.settings.Answer.FormatReward
	case finish == finishLength:
		verdict.Feedback += "; the response was cut by the length limit"
	}
	verdict.RawScore, verdict.NormalizedScore, verdict.Reward = correct, correct, correct+format
	verdict.Parts = []shard.RewardPart{{Name: "correct", Value: correct}, {Name: "format", Value: format}}
	return verdict, found.Reason
}
