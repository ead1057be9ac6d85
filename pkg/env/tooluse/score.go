package tooluse

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// longestExtracted bounds the calls that a score shows, in bytes.
const longestExtracted = 16 << 10

// Score plays an attempt again and grades its calls. Its reward is the backend's
// score, for BFCL 1 when the state and the calls are right and else 0
// (ExIt App. A.3), whether the policy has said that it is finished, has given up
// or has run out of steps: what counts is what it has done. Only an attempt
// whose last message has no valid ending is invalid, without a reward.
//
// The score of an earlier message is what the attempt would have come to had
// it ended there, where the backend can tell; a program of the user's own is
// asked at the end alone.
func (e *Env) Score(ctx context.Context, a env.Attempt) (verdict env.Verdict, err error) {
	t, known := e.tasks[a.Task.ID]
	if !known {
		return env.Verdict{}, exitcode.Bugf("scoring %q: there is no such task", a.Task.ID)
	}
	replies := a.Own
	if len(replies) == 0 {
		return env.Verdict{}, fmt.Errorf("scoring %q: the policy has not said anything; its prompt may have left it no room", a.Task.ID)
	}
	played := e.newEpisode(t)
	defer played.Close()
	last := replies[len(replies)-1]
	err = played.replay(ctx, a.Messages, func(i int) error {
		if i < replies[0] || i == last {
			return nil
		}
		turn, err := played.gradeSoFar(ctx)
		verdict.Turns = append(verdict.Turns, turn)
		return err
	})
	if err != nil {
		return env.Verdict{}, err
	}
	if verdict.TurnVerdict, verdict.Reason, err = played.grade(ctx, a.Finish); err != nil {
		return env.Verdict{}, err
	}
	verdict.Turns = append(verdict.Turns, verdict.TurnVerdict)
	return verdict, nil
}

// gradeSoFar grades an attempt that goes on.
func (e *episode) gradeSoFar(ctx context.Context) (env.TurnVerdict, error) {
	if _, ok := e.backend.(gradedAtAnyTime); !ok {
		return env.TurnVerdict{Outcome: shard.OutcomeWrong, Feedback: "judged at the end"}, nil
	}
	verdict, _, err := e.grade(ctx, "")
	return verdict, err
}

// grade grades an attempt that ends here.
func (e *episode) grade(ctx context.Context, finish string) (verdict env.TurnVerdict, reason string, err error) {
	calls, err := plainjson.Line(succeeded(e.executed))
	if err != nil {
		return verdict, "", err
	}
	verdict.Extracted = clip(string(calls), longestExtracted)
	verdict.Parts = []shard.RewardPart{{Name: "task"}}
	if e.last == endsOpen {
		verdict.Outcome, verdict.Feedback = shard.OutcomeInvalid, "the last message ends neither in calls nor in <TASK_FINISHED> or <TASK_ERROR>"
		reason = "no valid ending"
		if finish == finishLength {
			verdict.Feedback += "; it was cut by the length limit"
			reason += ", out of room"
		}
		return verdict, reason, nil
	}
	grade, err := e.backend.Grade(ctx, e.executed)
	if err != nil {
		return verdict, "", err
	}
	verdict.Outcome = shard.OutcomeWrong
	if grade.Score >= 1 {
		verdict.Outcome = shard.OutcomeOK
	}
	verdict.RawScore, verdict.NormalizedScore, verdict.Reward = grade.Score, grade.Score, grade.Score
	verdict.Parts[0].Value = grade.Score
	verdict.Milestones = grade.Milestones
	if e.last == endsFinished && len(e.executed) == len(e.task.turns) {
		verdict.Milestones = append(verdict.Milestones, "finished")
	}
	how := ""
	switch {
	case e.last == endsGivenUp:
		how = "the policy gave up"
	case e.steps >= e.task.rules.Steps && e.last == endsCalls:
		how = "out of steps"
	case finish == finishLength:
		how = "out of room"
	}
	verdict.Feedback, reason = joined(grade.Why, "; ", how), joined(string(verdict.Outcome), ", ", how)
	return verdict, reason, nil
}

// joined leaves out what is empty, and the separator with it.
func joined(first, separator, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + separator + second
}
