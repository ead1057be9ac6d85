// Package score judges responses: a shard of rollouts in, a shard of verdicts
// out, row for row.
package score

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// Inputs are the files that a score task reads and the one it makes.
type Inputs struct {
	Plan      string
	Rollout   string
	Iteration int
	Shard, Of int
	Output    string
}

// Run judges every response of a rollout shard. A failure of ours on one
// response is that row's outcome, never the policy's reward; a response that
// cannot have been had in this environment is an error.
func Run(ctx context.Context, job stage.Job, world env.Env, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	rollouts, rolloutInput, err := stage.ReadTable[shard.Rollout](ctx, job, in.Rollout)
	if err != nil {
		return seal.Manifest{}, err
	}
	instances, plan, err := stage.ReadTable[shard.Instance](ctx, job, in.Plan)
	if err != nil {
		return seal.Manifest{}, err
	}
	tasks := make(map[string]string, len(instances))
	for _, instance := range instances {
		tasks[instance.InstanceID] = instance.TaskID
	}
	rows := make([]shard.Score, len(rollouts))
	outcomes := map[string]float64{}
	var reward float64
	judged := newAudit()
	for i, r := range rollouts {
		if err := ctx.Err(); err != nil {
			return seal.Manifest{}, err
		}
		task, ok := world.Task(tasks[r.InstanceID])
		if !ok {
			return seal.Manifest{}, exitcode.Dataf("rollout %q row %d: instance %q has no task in plan %q",
				in.Rollout, i, r.InstanceID, in.Plan)
		}
		if rows[i], err = judge(ctx, job, world, task, r, judged); err != nil {
			return seal.Manifest{}, fmt.Errorf("rollout %q row %d: %w", in.Rollout, i, err)
		}
		outcomes["outcome_"+rows[i].Outcome]++
		reward += rows[i].Reward
	}
	m := job.Manifest("score", in.Iteration, in.Shard, in.Of, started,
		rolloutInput, plan)
	m.Metrics = outcomes
	judged.into(m.Metrics)
	m.Metrics["responses"] = float64(len(rows))
	m.Metrics["reward_sum"] = reward
	m.Metrics["seconds"] = time.Since(started).Seconds()
	return shard.Write(in.Output, rows, nil, job.Attempt, m)
}

// infraTries bounds how often a response is judged when the judging itself
// fails.
const infraTries = 3

func judge(ctx context.Context, job stage.Job, world env.Env, task env.Task, r shard.Rollout, judged *audit) (shard.Score, error) {
	row := shard.Score{
		InstanceID: r.InstanceID, GroupID: r.GroupID, Sample: r.Sample, Outcome: r.Outcome,
		Attempt: int32(job.Attempt.Number), Node: job.Attempt.Host,
		RewardParts: []shard.RewardPart{}, Milestones: []string{}, Embedding: []float32{},
	}
	if shard.Outcome(r.Outcome) != shard.OutcomeOK {
		return row, nil // nothing was said: our failure, or a preemption
	}
	silent := r.Turns == 0 && r.FinishReason == string(policy.FinishLength)
	verdict, err := env.NoRoom(), error(nil)
	if !silent {
		verdict, err = verdictOn(ctx, world, task, r)
	}
	if exitcode.Code(err) == exitcode.Data {
		return row, err
	}
	if err != nil {
		row.Outcome, row.Feedback = string(shard.OutcomeInfra), err.Error()
		return row, nil
	}
	row.Outcome, row.RawScore, row.NormalizedScore = string(verdict.Outcome), verdict.RawScore, verdict.NormalizedScore
	row.Reward, row.Feedback, row.Extracted = verdict.Reward, verdict.Feedback, verdict.Extracted
	row.ExecuteSeconds = verdict.ExecuteSeconds
	row.RewardParts = append(row.RewardParts, verdict.Parts...)
	row.Milestones = append(row.Milestones, verdict.Milestones...)
	judged.add(row, verdict)
	if job.Recipe.Score.Embedding == "ngrams" {
		text := r.Messages[len(r.Messages)-1].Content
		if silent || job.Recipe.Env.ToolUse != nil {
			text = saidIn(r)
		}
		row.Embedding = NGrams(text)
	}
	return row, nil
}

// verdictOn asks the environment, again where it fails.
func verdictOn(ctx context.Context, world env.Env, task env.Task, r shard.Rollout) (verdict env.Verdict, err error) {
	for range infraTries {
		verdict, err = world.Score(ctx, task, r.Messages, r.FinishReason)
		if err == nil || exitcode.Code(err) == exitcode.Data || ctx.Err() != nil {
			break
		}
	}
	return verdict, err
}

// saidIn is all that the policy said in an episode whose last message alone,
// such as <TASK_FINISHED>, tells nothing of what it has done.
func saidIn(r shard.Rollout) string {
	var said []string
	for i := len(r.Messages) - 1; i >= 0 && len(said) < int(r.Turns); i-- {
		if r.Messages[i].Role == "assistant" {
			said = append(said, r.Messages[i].Content)
		}
	}
	slices.Reverse(said)
	return strings.Join(said, "\n")
}
