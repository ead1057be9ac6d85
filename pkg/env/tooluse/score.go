package tooluse

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// longestExtracted bounds the calls that a verdict shows, in bytes.
const longestExtracted = 16 << 10

// Score plays an episode again and judges its calls. Its reward is the world's
// score, for BFCL 1 when the state and the calls are right and else 0 (ExIt,
// paper 000, appendix A.3), whether the policy has said that it is finished,
// has given up or has run out of steps: what counts is what it has done. Only
// an episode whose last message has no valid ending is invalid, without a
// reward.
func (e *Env) Score(ctx context.Context, of env.Task, conversation []shard.Message, finish string) (verdict env.Verdict, err error) {
	t, known := e.tasks[of.ID]
	if !known {
		return env.Verdict{}, exitcode.Bugf("scoring %q: there is no such task", of.ID)
	}
	if !slices.ContainsFunc(conversation, func(m shard.Message) bool { return m.Role == roleAssistant }) {
		return env.Verdict{}, fmt.Errorf("scoring %q: the policy has not said anything; its prompt may have left it no room", of.ID)
	}
	started := time.Now()
	played := e.newEpisode(t)
	defer func() { verdict.ExecuteSeconds = time.Since(started).Seconds() }()
	defer played.Close()
	if err := played.replay(ctx, conversation); err != nil {
		return env.Verdict{}, err
	}
	calls, err := encode(succeeded(played.made))
	if err != nil {
		return env.Verdict{}, err
	}
	verdict.Extracted = clip(string(calls), longestExtracted)
	verdict.Parts = []shard.RewardPart{{Name: "task"}}
	if played.last == endsOpen {
		verdict.Outcome, verdict.Feedback = shard.OutcomeInvalid, "the last message ends neither in calls nor in <TASK_FINISHED> or <TASK_ERROR>"
		verdict.Reason = "no valid ending"
		if finish == finishLength {
			verdict.Feedback += "; it was cut by the length limit"
			verdict.Reason += ", out of room"
		}
		return verdict, nil
	}
	judgement, err := played.world.Judge(ctx, played.made)
	if err != nil {
		return env.Verdict{}, err
	}
	verdict.Outcome = shard.OutcomeWrong
	if judgement.Score >= 1 {
		verdict.Outcome = shard.OutcomeOK
	}
	verdict.RawScore, verdict.NormalizedScore, verdict.Reward = judgement.Score, judgement.Score, judgement.Score
	verdict.Parts[0].Value = judgement.Score
	verdict.Milestones = judgement.Milestones
	if played.last == endsFinished && len(played.made) == len(t.turns) {
		verdict.Milestones = append(verdict.Milestones, "finished")
	}
	how := ""
	switch {
	case played.last == endsGivenUp:
		how = "the policy gave up"
	case played.steps >= t.rules.Steps && played.last == endsCalls:
		how = "out of steps"
	case finish == finishLength:
		how = "out of room"
	}
	verdict.Feedback, verdict.Reason = joined(judgement.Why, "; ", how), joined(string(verdict.Outcome), ", ", how)
	return verdict, nil
}

// joined leaves out what is empty, and the separator with it.
func joined(first, separator, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + separator + second
}
