// Package evaluate measures a policy on held-out problems. An evaluation is a
// plan of the held-out tasks, rollouts and scores like those of training, and
// here the rows that people read: one for each attempt, by problem, sample and
// step (ExIt §5.3: a first answer and then K revisions,
// each from the answer before).
package evaluate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// Instances is the plan of an evaluation: the first problems of each set.
func Instances(environment env.Env, spec recipe.Evaluation, seed uint64) ([]shard.Instance, error) {
	if err := spec.CheckTasks(environment); err != nil {
		return nil, err
	}
	var rows []shard.Instance
	for _, m := range spec.Measured() {
		tasks := environment.Set().Tasks(env.Split(m.Set))[:m.Problems]
		for _, task := range env.SpreadByCost(environment.Set(), tasks, func(t env.Task) string { return t.ID }) {
			messages, err := environment.Prompt(task, shard.KindInitial, env.Parent{})
			if err != nil {
				return nil, fmt.Errorf("prompt of task %q: %w", task.ID, err)
			}
			id := fmt.Sprintf("e%06d", len(rows))
			rows = append(rows, shard.Instance{
				InstanceID: id, GroupID: id, TaskID: task.ID, Env: environment.Set().Environment(task.ID), Set: m.Set, Kind: string(shard.KindInitial),
				Messages: messages, Origin: string(shard.OriginBase), Seed: int64(seed),
			})
		}
	}
	return rows, nil
}

// Plan seals the plan of a run's evaluations.
func Plan(ctx context.Context, job stage.Job, spec recipe.Evaluation, environment env.Env, output string) (seal.Manifest, error) {
	if err := ctx.Err(); err != nil {
		return seal.Manifest{}, err
	}
	started := time.Now()
	rows, err := Instances(environment, spec, job.Seed)
	if err != nil {
		return seal.Manifest{}, err
	}
	return shard.WriteInBlocks(output, rows, job.Attempt, job.Manifest("evalplan", 0, 0, 1, started))
}

// Inputs are the files that a shard of an evaluation is gathered from, and the
// one that comes of it.
type Inputs struct {
	Plan              string
	FirstRow, LastRow int             // of the plan, LastRow exclusive
	Waves             []stage.WaveRef // of the shard, in order
	PolicyVersion     int
	Shard, Of         int
	Output            string
}

// Run gathers a shard of an evaluation.
func Run(ctx context.Context, job stage.Job, spec recipe.Evaluation, environment env.Env, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	instances, cited, err := stage.ReadPart[shard.Instance](ctx, job.Files, in.Plan, in.FirstRow, in.LastRow)
	if err != nil {
		return seal.Manifest{}, fmt.Errorf("reading the plan of shard %d of %d: %w", in.Shard, in.Of, err)
	}
	inputs := []seal.Input{cited}
	final := map[shard.TraceName]Trace{}
	for _, wave := range in.Waves {
		rows, citedRollout, err := stage.ReadTable[shard.Rollout](ctx, job.Files, wave.Rollout)
		if err != nil {
			return seal.Manifest{}, err
		}
		scores, citedScore, err := stage.ReadTable[shard.Score](ctx, job.Files, wave.Score)
		if err != nil {
			return seal.Manifest{}, err
		}
		inputs = append(inputs, citedRollout, citedScore)
		if err := take(final, rows, scores); err != nil {
			return seal.Manifest{}, fmt.Errorf("gathering %q: %w", wave.Rollout, err)
		}
	}
	rows, err := Rows(spec, environment, instances, final, in.PolicyVersion)
	if err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("evaluate", in.PolicyVersion, in.Shard, in.Of, started, inputs...)
	m.PolicyVersion = in.PolicyVersion
	m.Metrics = map[string]float64{"responses": float64(len(rows)), "response_tokens": 0}
	for _, row := range rows {
		m.Metrics["response_tokens"] += float64(row.ResponseTokens)
	}
	return shard.Write(in.Output, rows, nil, job.Attempt, m)
}

// Trace is a whole trace with its score.
type Trace struct {
	Rows  []shard.Rollout
	Score shard.Score
}

// take files the traces of a wave: those of a later wave are whole too.
func take(final map[shard.TraceName]Trace, rows []shard.Rollout, scores []shard.Score) error {
	traces := shard.Traces(rows)
	if len(traces) != len(scores) {
		return exitcode.Dataf("there are %d traces and scores of %d", len(traces), len(scores))
	}
	for i, trace := range traces {
		if scores[i].Name() != trace[0].Name() {
			return exitcode.Dataf("score %d is of instance %q sample %d, the trace is of instance %q sample %d",
				i, scores[i].InstanceID, scores[i].Sample, trace[0].InstanceID, trace[0].Sample)
		}
		final[trace[0].Name()] = Trace{trace, scores[i]}
	}
	return nil
}

// Measure evaluates a policy in this process on problems first to last
// (exclusive) of the test split, as the settings say.
func Measure(ctx context.Context, s rollout.Settings, environment env.Env, sampler *rollout.Sampler, first, last, policyVersion int) ([]shard.EvaluationRow, error) {
	instances, err := Instances(environment, s.Evaluation, s.Seed)
	if err != nil {
		return nil, err
	}
	batch, err := rollout.NewBatch(s, environment, instances[first:last], rollout.Inputs{FirstRow: first, LastRow: last, Evaluation: true})
	if err != nil {
		return nil, err
	}
	if assisted, ok := environment.(env.Assisted); ok {
		assisted.CutBy(sampler.Chat.Tokenizer().Tail)
	}
	final := map[shard.TraceName]Trace{}
	var scores []shard.Score
	for wave := 0; ; wave++ {
		if err := batch.Play(ctx, sampler); err != nil {
			return nil, err
		}
		rows := batch.Rows(wave, policyVersion)
		if scores, err = score.Verdicts(ctx, environment, instances, rows, scores, s.Evaluation.Seconds); err != nil {
			return nil, err
		}
		if err := take(final, rows, scores); err != nil {
			return nil, err
		}
		if !batch.Waits() {
			return Rows(s.Evaluation, environment, instances[first:last], final, policyVersion)
		}
		if err := batch.Resume(sampler, rows, scores); err != nil {
			return nil, err
		}
	}
}

// Rows lists the attempts of an evaluation by problem, then sample (greedy
// first), then step. An attempt without room has the outcome no_room and no answer: what
// it would have come to is not known. A trace that is missing, or that we could not score, is an error: a measurement
// without some of its answers would be another measurement.
func Rows(spec recipe.Evaluation, environment env.Env, instances []shard.Instance, traces map[shard.TraceName]Trace, policyVersion int) ([]shard.EvaluationRow, error) {
	var all []shard.EvaluationRow
	for _, instance := range instances {
		measured, err := spec.Of(instance.Set)
		if err != nil {
			return nil, err
		}
		first := 0
		if measured.Greedy {
			first = rollout.GreedySample
		}
		task, ok := environment.Set().Task(instance.TaskID)
		if !ok {
			return nil, exitcode.Dataf("the plan names task %q, which environment %q does not have", instance.TaskID, environment.Set().Name())
		}
		for sample := first; sample < measured.Samples; sample++ {
			trace, ok := traces[shard.TraceName{InstanceID: instance.InstanceID, Sample: int32(sample)}]
			switch {
			case !ok:
				return nil, exitcode.Dataf("instance %q has no response %d", instance.InstanceID, sample)
			case !shard.Outcome(trace.Score.Outcome).Policys():
				return nil, fmt.Errorf("task %q, sample %d could not be scored: %s", task.ID, sample, trace.Score.Feedback)
			}
			rows := trace.attempts(task, env.TraitsOf(environment, task.ID).Transcript)
			for i := range rows {
				rows[i].Set, rows[i].Sample, rows[i].Step, rows[i].PolicyVersion = measured.Set, int32(sample), int32(i), int32(policyVersion)
			}
			all = append(all, rows...)
		}
	}
	return all, nil
}

// attempts makes a row of each attempt.
func (t Trace) attempts(task env.Task, transcript bool) []shard.EvaluationRow {
	steps := int(t.Rows[len(t.Rows)-1].Step) + 1
	rows := make([]shard.EvaluationRow, steps)
	for step := range rows {
		var contexts []shard.Rollout
		tokens := int32(0)
		for _, row := range t.Rows {
			if int(row.Step) == step {
				contexts = append(contexts, row)
				tokens += row.ResponseTokens
			}
		}
		verdict := shard.TurnScore{Outcome: string(shard.OutcomeNoRoom)}
		spoke, executed, generated := false, 0.0, 0.0
		earlier := []shard.EvaluationTurn{}
		for _, turn := range t.Score.Turns {
			if int(turn.Step) != step {
				continue
			}
			if spoke {
				earlier = append(earlier, shard.EvaluationTurn{
					Outcome: verdict.Outcome, Score: verdict.NormalizedScore, RawScore: verdict.RawScore,
					RewardParts: append([]shard.RewardPart{}, verdict.RewardParts...), ExecuteSeconds: verdict.ExecuteSeconds, GenerateSeconds: verdict.GenerateSeconds,
				})
			}
			verdict, spoke = turn, true
			executed += turn.ExecuteSeconds
			generated += turn.GenerateSeconds
		}
		rows[step] = shard.EvaluationRow{
			TaskID: task.ID, Kind: task.Kind, Level: int32(task.Level), Prompt: prompt(contexts[0]), Extracted: verdict.Extracted,
			Score: verdict.NormalizedScore, Outcome: verdict.Outcome, ResponseTokens: tokens, Milestones: append([]string{}, verdict.Milestones...),
			AttemptKind: contexts[0].Kind, RawScore: verdict.RawScore, RewardParts: append([]shard.RewardPart{}, verdict.RewardParts...), ExecuteSeconds: executed, GenerateSeconds: generated, EarlierTurns: earlier,
		}
		if spoke {
			rows[step].Response = said(contexts, transcript)
		}
	}
	return rows
}

// prompt is the text of the last message before the policy first spoke.
func prompt(context shard.Rollout) string {
	if context.PromptMessages == 0 {
		return ""
	}
	return context.Messages[context.PromptMessages-1].Content
}

// said is the policy's last message, or all that was said once the prompt was
// over, a line for each message.
func said(contexts []shard.Rollout, transcript bool) string {
	var lines []string
	last := ""
	for _, c := range contexts {
		for _, m := range c.Messages[c.PromptMessages:] {
			lines = append(lines, m.Content)
			if m.Role == "assistant" {
				last = m.Content
			}
		}
	}
	if transcript {
		return strings.Join(lines, "\n")
	}
	return last
}
