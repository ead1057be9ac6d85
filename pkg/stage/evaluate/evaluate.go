// Package evaluate measures a policy on held-out problems: a first answer and
// then K self-improvement steps, each from the answer before (paper 000,
// section 5.3). Where a task takes many messages (tool use), step k is an
// episode of its own, in which each message has been improved on k times before
// the environment saw it.
package evaluate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
)

// GreedySample is the sample number of the greedy chain.
const GreedySample = -1

// Inputs say what one evaluation task measures.
type Inputs struct {
	PolicyFolder  string
	PolicyVersion int
	FirstProblem  int // of the test split
	LastProblem   int // exclusive
	Shard, Of     int
	Output        string
}

// Run measures the problems of one shard and seals every response.
func Run(ctx context.Context, job stage.Job, world env.Env, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	cited, err := job.VerifyPolicy(ctx, in.PolicyFolder)
	if err != nil {
		return seal.Manifest{}, err
	}
	sampler, err := rollout.OpenSampler(ctx, job, in.PolicyFolder)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer sampler.Close()
	rows, err := Measure(ctx, job, world, sampler, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("evaluate", in.PolicyVersion, in.Shard, in.Of, started, cited...)
	m.PolicyVersion = in.PolicyVersion
	var tokens float64
	for _, row := range rows {
		tokens += float64(row.ResponseTokens)
	}
	m.Metrics = map[string]float64{
		"responses": float64(len(rows)), "response_tokens": tokens, "seconds": time.Since(started).Seconds(),
	}
	if err := sampler.Note(&m); err != nil {
		return seal.Manifest{}, err
	}
	return shard.Write(in.Output, rows, nil, job.Attempt, m)
}

// chain is one line of answers to one problem.
type chain struct {
	task    env.Task
	sample  int
	history []shard.Message // the last answer's conversation; empty while there is none
	last    shard.EvaluationRow
}

// Measure returns one row for each answer: by problem, then sample (greedy
// first), then step.
func Measure(ctx context.Context, job stage.Job, world env.Env, sampler *rollout.Sampler, in Inputs) ([]shard.EvaluationRow, error) {
	spec := job.Recipe.Evaluation
	tasks := world.Tasks(env.Test)
	if in.LastProblem > len(tasks) {
		return nil, exitcode.Usagef("evaluation.problems: the test split has %d problems, problem %d is wanted", len(tasks), in.LastProblem)
	}
	var chains []*chain
	for _, task := range tasks[in.FirstProblem:in.LastProblem] {
		if spec.Greedy {
			chains = append(chains, &chain{task: task, sample: GreedySample})
		}
		for sample := range spec.Samples {
			chains = append(chains, &chain{task: task, sample: sample})
		}
	}
	maxNewTokens := job.Recipe.Rollout.NewTokens()
	if spec.MaxNewTokens > 0 {
		maxNewTokens = []int{spec.MaxNewTokens}
	}
	steps := make([][]shard.EvaluationRow, spec.Steps+1) // [step][chain]
	whole := job.Recipe.Env.ToolUse != nil
	for step := range steps {
		episodes := make([]*rollout.Episode, len(chains))
		for i, c := range chains {
			kind := shard.KindInitial
			var history []shard.Message
			if !whole && len(c.history) > 0 {
				kind, history = shard.KindImprove, c.history
			}
			messages, err := world.Prompt(c.task, kind, history)
			if err != nil {
				return nil, err
			}
			episodes[i] = &rollout.Episode{
				Task: c.task, Conversation: messages,
				Stream: rng.New(job.Recipe.Seed, rng.PurposeEvaluation, step, c.task.ID, c.sample),
			}
		}
		iterated := 0
		if whole {
			iterated = step
		}
		if err := play(ctx, job, world, sampler, chains, episodes, maxNewTokens, iterated); err != nil {
			return nil, err
		}
		for i, c := range chains {
			if err := c.answered(ctx, world, episodes[i], whole); err != nil {
				return nil, err
			}
			c.last.Step, c.last.PolicyVersion = int32(step), int32(in.PolicyVersion)
			steps[step] = append(steps[step], c.last)
		}
	}
	var rows []shard.EvaluationRow
	for i := range chains {
		for step := range steps {
			rows = append(rows, steps[step][i])
		}
	}
	return rows, nil
}

// answered judges the chain's next answer. An answer that has no room for an
// improvement stays.
func (c *chain) answered(ctx context.Context, world env.Env, e *rollout.Episode, whole bool) error {
	if !e.Spoke() && len(c.history) > 0 {
		c.last.ResponseTokens = 0
		return nil
	}
	verdict, response := env.NoRoom(), ""
	if e.Spoke() {
		var err error
		if verdict, err = world.Score(ctx, c.task, e.Conversation, e.Finish()); err != nil {
			return err
		}
		c.history = e.Conversation
		if response = e.Response(); whole {
			response = transcript(e)
		}
	}
	c.last = shard.EvaluationRow{
		TaskID: c.task.ID, Kind: c.task.Kind, Level: int32(c.task.Level), Sample: int32(c.sample),
		Prompt: prompt(e), Response: response, Extracted: verdict.Extracted,
		Score: verdict.NormalizedScore, Outcome: string(verdict.Outcome), ResponseTokens: int32(e.ResponseTokens()),
		Milestones: append([]string{}, verdict.Milestones...),
	}
	return nil
}

// play samples the chains of both kinds: greedy, and at the evaluation's
// temperature. With iterated above 0 each message of the policy is improved on
// that often before the environment sees it.
func play(ctx context.Context, job stage.Job, world env.Env, sampler *rollout.Sampler, chains []*chain, episodes []*rollout.Episode, maxNewTokens []int, iterated int) error {
	of := map[*rollout.Episode]*chain{}
	var greedy, sampled []*rollout.Episode
	for i, c := range chains {
		of[episodes[i]] = c
		if c.sample == GreedySample {
			greedy = append(greedy, episodes[i])
		} else {
			sampled = append(sampled, episodes[i])
		}
	}
	iteration := rollout.Iteration{Steps: iterated, Stream: func(e *rollout.Episode, turn, step int) rng.Stream {
		name := fmt.Sprintf("%s\x00turn %d\x00step %d", e.Task.ID, turn, step)
		return rng.New(job.Recipe.Seed, rng.PurposeEvaluation, iterated, name, of[e].sample)
	}}
	for _, part := range []struct {
		episodes []*rollout.Episode
		policy.Sampling
	}{{greedy, policy.Sampling{}}, {sampled, policy.Sampling{Temperature: float32(job.Recipe.Evaluation.Temperature)}}} {
		var err error
		if iterated > 0 {
			err = sampler.Iterate(ctx, world, part.episodes, part.Sampling, maxNewTokens, iteration)
		} else {
			err = sampler.Play(ctx, world, part.episodes, part.Sampling, maxNewTokens)
		}
		if err != nil {
			return err
		}
	}
	// A measurement without some of its answers would be another measurement.
	for i, e := range episodes {
		if err := e.Failed(); err != nil {
			return fmt.Errorf("task %q: %w", chains[i].task.ID, err)
		}
	}
	return nil
}

// prompt is the text of the last message before the policy first spoke.
func prompt(e *rollout.Episode) string {
	for i, m := range e.Conversation {
		if m.Role == "assistant" && i > 0 {
			return e.Conversation[i-1].Content
		}
	}
	if n := len(e.Conversation); n > 0 {
		return e.Conversation[n-1].Content
	}
	return ""
}

// transcript is what was said in an episode of several turns once its prompt
// was over, a line for each message.
func transcript(e *rollout.Episode) string {
	var said []string
	for _, m := range e.Conversation {
		if len(said) > 0 || m.Role == "assistant" {
			said = append(said, m.Content)
		}
	}
	return strings.Join(said, "\n")
}
