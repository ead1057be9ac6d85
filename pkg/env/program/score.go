package program

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// unprotected is what a program runs under that has no sandbox.
const unprotected = "no sandbox: env.program.sandbox is null"

// attemptView is an attempt as a program is shown it.
type attemptView struct {
	Task     taskView   `json:"task"`
	Kind     shard.Kind `json:"kind"`
	Messages []message  `json:"messages"`
	Opening  int        `json:"opening"` // messages that open the episode, before the policy says anything
	Own      []int      `json:"own"`     // positions in messages of what the policy said in this attempt
	Finish   string     `json:"finish"`  // of its last message: stop or length
}

// What a score may hold, beyond which the program is taken to be wrong.
const (
	maxParts      = 64
	maxNameBytes  = 100
	maxTextBytes  = 16 << 10 // of feedback and of an extracted answer that are kept
	maxMilestones = 64
	maxReward     = 1e18 // either way; an advantage is a float32, and its square must be one
)

// judgement is what a program says of an attempt, or of one message of it.
type judgement struct {
	refusal
	Reward     *float64           `json:"reward"`
	Score      *float64           `json:"score"`
	Outcome    *shard.Outcome     `json:"outcome"`
	Parts      map[string]float64 `json:"parts"`
	Milestones []string           `json:"milestones"`
	Feedback   string             `json:"feedback"`
	Extracted  string             `json:"extracted"`
	Seconds    float64            `json:"seconds"`

	Reason string      `json:"reason"`
	Turns  []judgement `json:"turns"`
}

// Score has the program score an attempt. Where it says nothing of earlier messages,
// they are scored with the last one: neither right nor rewarded.
func (e *Env) Score(ctx context.Context, a env.Attempt) (env.Verdict, error) {
	if len(a.Own) == 0 || a.Own[len(a.Own)-1] != len(a.Messages)-1 {
		return env.Verdict{}, exitcode.Bugf("scoring %q: the conversation does not end with a response", a.Task.ID)
	}
	view, err := e.view(a.Task)
	if err != nil {
		return env.Verdict{}, err
	}
	raw, err := e.ask(ctx, verbScore, attemptView{view, a.Kind, toMessages(a.Messages), e.opening(a.Task, a.Messages), a.Own, a.Finish})
	if err != nil {
		return env.Verdict{}, fmt.Errorf("scoring task %q: %w", a.Task.ID, err)
	}
	verdict, err := readVerdict(raw, a)
	verdict.Protection = unprotected
	if e.settings.Program.Sandbox != nil {
		verdict.Protection = sandbox.Probe().String()
	}
	if err != nil {
		return env.Verdict{}, fmt.Errorf("scoring task %q: %w", a.Task.ID, badAnswer(verbScore, raw, err.Error()))
	}
	return verdict, nil
}

// readVerdict reads what a program says of an attempt.
func readVerdict(raw json.RawMessage, a env.Attempt) (env.Verdict, error) {
	var said judgement
	if err := plainjson.Strict(raw, &said); err != nil {
		return env.Verdict{}, fmt.Errorf(`want {"reward": a number, …}: %w`, err)
	}
	if n := len(said.Turns); n != 0 && n != len(a.Own) {
		return env.Verdict{}, fmt.Errorf("it has scores for %d of %d messages", n, len(a.Own))
	}
	last, err := said.verdict()
	if err != nil {
		return env.Verdict{}, err
	}
	v := env.Verdict{TurnVerdict: last, Reason: cmp.Or(stdio.Clip(said.Reason, maxNameBytes), string(last.Outcome))}
	for i := range a.Own {
		turn := env.TurnVerdict{Outcome: shard.OutcomeWrong, Feedback: "judged at the end"}
		switch {
		case i < len(a.Earlier):
			turn = a.Earlier[i]
		case i == len(a.Own)-1:
			turn = last
		case len(said.Turns) > 0:
			if turn, err = said.Turns[i].verdict(); err != nil {
				return env.Verdict{}, fmt.Errorf("message %d: %w", i+1, err)
			}
		}
		v.Turns = append(v.Turns, turn)
	}
	return v, nil
}

// verdict checks a judgement. The score is the reward where it lies in [0, 1], and
// the nearer end elsewhere, unless the program says another; a score of 1 is right.
func (j judgement) verdict() (v env.TurnVerdict, err error) {
	if j.Reward == nil {
		return v, fmt.Errorf(`want {"reward": a number}`)
	}
	if !(math.Abs(*j.Reward) <= maxReward) {
		return v, fmt.Errorf("the reward must be from %g to %g", -maxReward, maxReward)
	}
	score := min(1, max(0, *j.Reward))
	if j.Score != nil {
		score = *j.Score
	}
	if !(score >= 0 && score <= 1) {
		return v, fmt.Errorf("score must be from 0 to 1")
	}
	v = env.TurnVerdict{
		Outcome: shard.OutcomeWrong, RawScore: *j.Reward, NormalizedScore: score, Reward: *j.Reward, Milestones: j.Milestones,
		Feedback: stdio.Clip(j.Feedback, maxTextBytes), Extracted: stdio.Clip(j.Extracted, maxTextBytes), ExecuteSeconds: j.Seconds,
	}
	if score == 1 {
		v.Outcome = shard.OutcomeOK
	}
	if j.Outcome != nil {
		switch v.Outcome = *j.Outcome; v.Outcome {
		case shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeInvalid, shard.OutcomeTimeout:
		default:
			return v, fmt.Errorf("outcome must be ok, wrong, invalid or timeout")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Parts)) {
		if name == "" || len(name) > maxNameBytes {
			return v, fmt.Errorf("the name of a part has 1 to %d bytes", maxNameBytes)
		}
		if !(math.Abs(j.Parts[name]) <= maxReward) {
			return v, fmt.Errorf("the part %q must be from %g to %g", name, -maxReward, maxReward)
		}
		v.Parts = append(v.Parts, shard.RewardPart{Name: name, Value: j.Parts[name]})
	}
	switch {
	case len(v.Parts) > maxParts:
		return v, fmt.Errorf("there may be %d parts", maxParts)
	case len(j.Milestones) > maxMilestones:
		return v, fmt.Errorf("there may be %d milestones", maxMilestones)
	case !(j.Seconds >= 0) || math.IsInf(j.Seconds, 0):
		return v, fmt.Errorf("seconds must be 0 or more")
	}
	return v, nil
}
