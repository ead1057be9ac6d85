package math

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// finishLength is the finish reason of a response that the length limit cut.
const finishLength = "length"

// Score judges the last response of an episode. A right answer has reward 1,
// any other 0 (ExIt, paper 000, appendix A.2), and the same holds for
// self-improve and self-diverge steps. env.answer.format_reward is given to a
// wrong answer that could be read. The reward is the sum of its parts,
// correct and format.
//
// A response that the length limit cut is judged by what it says; if nothing
// in it can be read, it is invalid like any other.
func (e *Env) Score(ctx context.Context, task env.Task, conversation []shard.Message, finish string) (env.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return env.Verdict{}, err
	}
	if len(conversation) == 0 || conversation[len(conversation)-1].Role != roleAssistant {
		return env.Verdict{}, exitcode.Bugf("scoring %q: the conversation does not end with a response", task.ID)
	}
	found := e.verify(task, conversation[len(conversation)-1].Content)
	verdict := env.Verdict{Outcome: shard.OutcomeInvalid, Extracted: found.Extracted, Feedback: found.Why, Reason: found.Reason}
	verdict.Form, verdict.Others = e.audit(task, conversation[len(conversation)-1].Content)
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
	return verdict, nil
}
