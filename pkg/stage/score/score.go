// Package score scores responses: a shard of rollouts in, a shard of scores
// out, one for each trace.
package score

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Inputs are the files that a score task reads and the one it makes.
type Inputs struct {
	Plan      string
	FirstRow  int // of the plan's rows that the rollouts are of
	LastRow   int // exclusive; 0 for all rows
	Rollout   string
	Iteration int // of an evaluation the policy version
	Shard, Of int
	Output    string

	Evaluation bool
	Wave       int
	Before     string // the score file of the wave before; empty for wave 0
	// Seconds is the budget of a trace, generation and programs; 0 for none.
	Seconds float64
	// Policy is the folder of any version: all have the same tokenizer, by which
	// what an environment tells the policy is cut. Empty where it is not known.
	Policy string
}

// readPlan reads what the rollouts are of.
func (in Inputs) readPlan(ctx context.Context, f stage.Files) ([]shard.Instance, seal.Input, error) {
	if in.LastRow == 0 {
		return stage.ReadTable[shard.Instance](ctx, f, in.Plan)
	}
	return stage.ReadPart[shard.Instance](ctx, f, in.Plan, in.FirstRow, in.LastRow)
}

// Run scores every trace of a rollout shard, as many at a time as the task has
// threads for, and seals the scores in the shard's order. A failure of ours on
// one trace is that row's outcome, never the policy's reward; a trace that
// cannot have been had in this environment is an error. Where scores are
// slow, those that a killed task had reached are not made again.
func Run(ctx context.Context, job stage.Job, spec recipe.Score, environment env.Env, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	rollouts, rolloutInput, err := stage.ReadTable[shard.Rollout](ctx, job.Files, in.Rollout)
	if err != nil {
		return seal.Manifest{}, err
	}
	instances, plan, err := in.readPlan(ctx, job.Files)
	if err != nil {
		return seal.Manifest{}, err
	}
	cited := []seal.Input{rolloutInput, plan}
	earlier := map[shard.TraceName]shard.Score{}
	if in.Before != "" {
		rows, input, err := stage.ReadTable[shard.Score](ctx, job.Files, in.Before)
		if err != nil {
			return seal.Manifest{}, err
		}
		cited = append(cited, input)
		earlier = byName(rows)
	}
	tasks := tasksOf(instances)
	traces := shard.Traces(rollouts)
	verdicts := make([]verdict, len(traces))
	s := scorer{environment: environment, attempt: job.Attempt, embedding: spec.Embedding, embed: spec.Embed, budget: in.Seconds, log: job.Log}
	assisted, helped := environment.(env.Assisted)
	if helped && spec.Assistant != nil && (!in.Evaluation || spec.Assistant.Evaluations) {
		assistant, release, err := openAssistant(job, spec.Assistant)
		if err != nil {
			return seal.Manifest{}, err
		}
		defer release()
		assisted.Assist(assistant)
	}
	if helped && in.Policy != "" {
		m, err := seal.Read(ctx, in.Policy, job.Reading)
		if err != nil && !(job.Plain && errors.Is(err, seal.ErrNotSealed)) {
			return seal.Manifest{}, err
		}
		cited = append(cited, job.Input(in.Policy, m))
		said, err := tokenizer.Load(in.Policy)
		if err != nil {
			return seal.Manifest{}, err
		}
		assisted.CutBy(said.Tail)
	}
	if environment.Traits().Slow {
		var rows map[int]json.RawMessage
		if s.journal, rows, err = seal.OpenJournal(in.Output, rolloutInput.ContentSHA256+" "+job.RecipeSHA256); err != nil {
			return seal.Manifest{}, err
		}
		defer s.journal.Close()
		for i, row := range rows {
			if i < len(verdicts) {
				verdicts[i].done = json.Unmarshal(row, &verdicts[i]) == nil && verdicts[i].Score.Name() == traces[i][0].Name()
			}
		}
	}
	firstRow := make([]int, len(traces))
	for i := 1; i < len(traces); i++ {
		firstRow[i] = firstRow[i-1] + len(traces[i-1])
	}
	executed := phase.Enter(phase.Execute)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(AtATime(environment.Traits(), job.Threads))
	for _, i := range longestFirst(environment, tasks, traces) {
		trace := traces[i]
		if verdicts[i].done {
			continue
		}
		group.Go(func() error {
			task, ok := environment.Set().Task(tasks[trace[0].InstanceID])
			if !ok {
				return exitcode.Dataf("rollout %q row %d: instance %q has no task in plan %q", in.Rollout, firstRow[i], trace[0].InstanceID, in.Plan)
			}
			var err error
			if verdicts[i], err = s.trace(within, task, trace, earlier[trace[0].Name()]); err != nil {
				return fmt.Errorf("rollout %q row %d: %w", in.Rollout, firstRow[i], err)
			}
			if s.journal != nil && verdicts[i].failed == nil {
				return s.journal.Append(i, verdicts[i])
			}
			return nil
		})
	}
	err = group.Wait()
	executed()
	if err != nil {
		return seal.Manifest{}, err
	}
	logFailed(job.Log, verdicts)
	if err := tooManyFailed(environment.Traits(), verdicts); err != nil {
		return seal.Manifest{}, err
	}
	if spec.Embedding == recipe.EmbeddingEndpoint && !in.Evaluation {
		if err := s.askForEmbeddings(ctx, spec.Endpoint, traces, verdicts); err != nil {
			return seal.Manifest{}, err
		}
	}
	m := job.Manifest(stageName(in), in.Iteration, in.Shard, in.Of, started, cited...)
	rows, metrics := gather(traces, verdicts)
	m.Metrics, m.Usage = metrics, map[string]float64{}
	for _, row := range rows {
		if row.Protection != "" {
			m.Usage[shard.UsageSandbox+row.Protection]++
		}
	}
	m, err = shard.Write(in.Output, rows, nil, job.Attempt, m)
	if err == nil && s.journal != nil {
		err = s.journal.Remove()
	}
	return m, err
}

// AtATime is how many traces are scored at a time.
func AtATime(traits env.Traits, threads int) int {
	return cmp.Or(traits.AtATime, max(1, threads/max(1, traits.Threads))) * max(1, traits.Batch)
}

// longestFirst is the order in which traces are scored: one that takes long and
// comes last would let the other cores wait.
func longestFirst(environment env.Env, tasks map[string]string, traces [][]shard.Rollout) []int {
	order := make([]int, len(traces))
	for i := range order {
		order[i] = i
	}
	if of := environment.Set().Cost; of != nil {
		cost := func(i int) float64 { return of(tasks[traces[i][0].InstanceID]) }
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(cost(j), cost(i)) })
	}
	return order
}

// mostFailedLogged is how many scores that could not be had are logged, each with its
// response; the score rows have all of them.
const mostFailedLogged = 8

// logFailed names responses whose scoring failed.
func logFailed(log func(string, ...any), verdicts []verdict) {
	failed := 0
	for _, v := range verdicts {
		if v.failed == nil {
			continue
		}
		if failed++; failed <= mostFailedLogged {
			log("instance %q sample %d has no score and is left out (infra): %v", v.Score.InstanceID, v.Score.Sample, v.failed)
		}
	}
	if failed > mostFailedLogged {
		log("%s left out without a score (infra)", plural.Count(failed-mostFailedLogged, "more response"))
	}
}

// tooManyFailed reports a task of which the scoring of more traces failed, by our
// fault, than the environment bears. Whoever tries again, perhaps on another node,
// finds the other scores in the journal. Where the environment names no share that
// it bears, its scores need nothing of a node, and another try would fail as this
// one did.
func tooManyFailed(traits env.Traits, verdicts []verdict) error {
	var failed []error
	asked := 0
	for _, v := range verdicts {
		if v.failed != nil {
			failed = append(failed, v.failed)
		}
		if v.failed != nil || v.Judged {
			asked++
		}
	}
	if traits.MaxFailedSetting != "" && stage.FailsAgain(failed, asked) {
		return exitcode.WithHint(exitcode.Usagef("scoring failed in the same way for %s: %w", plural.Count(len(failed), "response"), failed[0]),
			"another try would fail as this one did: fix the program; lathe env try shows what it answers")
	}
	if traits.MaxFailedSetting == "" || float64(len(failed)) <= traits.MaxFailed*float64(len(verdicts)) {
		return nil
	}
	return exitcode.WithHint(fmt.Errorf("%s could not be scored; the first: %w", plural.Of(len(failed), len(verdicts), "response"), failed[0]),
		"the task can be tried again; %s is the share that may be left out", traits.MaxFailedSetting)
}

func stageName(in Inputs) string {
	if in.Evaluation {
		return "evalscore"
	}
	return "score"
}

// gather puts the scores into their order, and counts those of traces that
// have ended.
func gather(traces [][]shard.Rollout, verdicts []verdict) ([]shard.Score, map[string]float64) {
	rows := make([]shard.Score, len(verdicts))
	metrics := map[string]float64{"responses": 0, "reward_sum": 0}
	counted := newAudit()
	for i, v := range verdicts {
		rows[i] = v.Score
		if shard.GoesOn(traces[i], v.Score) {
			metrics[shard.MetricWaiting]++
			continue // its last score is counted, in a later wave
		}
		metrics["responses"]++
		metrics["outcome_"+v.Score.Outcome]++
		metrics["reward_sum"] += v.Score.Reward
		metrics["execute_seconds"] += v.Score.ExecuteSeconds
		if v.Judged {
			counted.add(v.Score, v.Reason, v.Form, v.Others)
		}
	}
	counted.into(metrics)
	return rows, metrics
}

// scorer gives scores.
type scorer struct {
	environment env.Env
	attempt     seal.Attempt // that a row names
	embedding   string       // of the recipe, as embed is
	embed       string
	budget      float64       // seconds of a trace; 0 for none
	journal     *seal.Journal // nil where scores are quick
	log         func(format string, args ...any)
}

// verdict is a row with what an audit wants to know of it. A journal keeps
// it as JSON.
type verdict struct {
	Score  shard.Score
	Judged bool // the environment has given a score
	Reason string
	Form   string
	Others []env.Other

	done   bool
	failed error // of the scoring, by our fault
}

// infraTries bounds how often an attempt is scored when the scoring itself
// fails.
const infraTries = 3

// trace scores the attempts of a trace that the wave before has not scored.
func (s scorer) trace(ctx context.Context, task env.Task, rows []shard.Rollout, before shard.Score) (verdict, error) {
	first := rows[0]
	v := verdict{Score: shard.Score{
		InstanceID: first.InstanceID, GroupID: first.GroupID, Sample: first.Sample, Outcome: first.Outcome,
		Attempt: int32(s.attempt.Number), Node: s.attempt.Host,
		RewardParts: []shard.RewardPart{}, Milestones: []string{}, Embedding: []float32{}, Turns: []shard.TurnScore{},
	}}
	if shard.Outcome(first.Outcome) != shard.OutcomeOK {
		return v, nil // nothing was said: our failure, or a preemption
	}
	last, found := env.NoRoom(), false
	clock := newClock(s.budget, rows, before)
	for _, attempt := range attemptsOf(task, rows) {
		attempt.Earlier = earlierTurns(before, attempt.step)
		attempt.SecondsLeft = clock.left()
		own, err := s.ask(ctx, attempt)
		if err == nil {
			err = s.bound(&own, task, first.Name())
		}
		switch {
		case err == nil:
		case exitcode.Code(err) == exitcode.Data, ctx.Err() != nil:
			return v, err
		default:
			v.Score.Outcome, v.Score.Feedback, v.failed = string(shard.OutcomeInfra), err.Error(), err
			return v, nil
		}
		for i, turn := range own.Turns {
			row := turn.Row()
			row.Step, row.Part = int32(attempt.step), attempt.parts[i]
			if i >= len(attempt.Earlier) {
				row.GenerateSeconds = clock.generated[row.Part]
				clock.generated[row.Part] = 0 // a wave adds one message under a budget
			}
			v.Score.Turns = append(v.Score.Turns, row)
		}
		if len(attempt.Own) > 0 || !found { // an attempt without room leaves the one before
			last, found = own, len(attempt.Own) > 0
		}
	}
	s.fill(&v, last, rows)
	return v, nil
}

// Verdicts are those on traces that are in memory, in their order. before are
// those of the wave before, if there was one. budget is that of a trace in seconds, 0 for
// none. What cannot be scored is an error.
func Verdicts(ctx context.Context, environment env.Env, instances []shard.Instance, rows []shard.Rollout, before []shard.Score, budget float64) ([]shard.Score, error) {
	tasks, earlier := tasksOf(instances), byName(before)
	s := scorer{environment: environment, budget: budget, log: func(string, ...any) {}}
	traces := shard.Traces(rows)
	scores := make([]shard.Score, len(traces))
	for i, trace := range traces {
		task, _ := environment.Set().Task(tasks[trace[0].InstanceID])
		v, err := s.trace(ctx, task, trace, earlier[trace[0].Name()])
		if err != nil {
			return nil, err
		}
		scores[i] = v.Score
	}
	return scores, nil
}

// tasksOf maps instances to their tasks.
func tasksOf(instances []shard.Instance) map[string]string {
	tasks := make(map[string]string, len(instances))
	for _, instance := range instances {
		tasks[instance.InstanceID] = instance.TaskID
	}
	return tasks
}

func byName(scores []shard.Score) map[shard.TraceName]shard.Score {
	named := map[shard.TraceName]shard.Score{}
	for _, row := range scores {
		named[row.Name()] = row
	}
	return named
}

// attempt is one attempt of a trace.
type attempt struct {
	env.Attempt
	step  int
	parts []int32 // context of each of the policy's messages
}

// attemptsOf puts the contexts of a trace together.
func attemptsOf(task env.Task, rows []shard.Rollout) []attempt {
	var attempts []attempt
	for _, row := range rows {
		if n := len(attempts); n == 0 || attempts[n-1].step != int(row.Step) {
			attempts = append(attempts, attempt{step: int(row.Step), Attempt: env.Attempt{Task: task, Kind: shard.Kind(row.Kind)}})
		}
		a := &attempts[len(attempts)-1]
		for _, at := range env.Said(row.Messages, int(row.PromptMessages)) {
			a.Own = append(a.Own, len(a.Messages)+at)
			a.parts = append(a.parts, row.Part)
		}
		a.Messages = append(a.Messages, row.Messages...)
		a.Finish = row.FinishReason
	}
	return attempts
}

// earlierTurns are the scores that the wave before has on an attempt.
func earlierTurns(before shard.Score, step int) []env.TurnVerdict {
	var turns []env.TurnVerdict
	for _, row := range before.Turns {
		if int(row.Step) == step {
			turns = append(turns, env.TurnVerdictOf(row))
		}
	}
	return turns
}

// ask asks the environment for a score, again where it fails. It is not asked
// where all is known.
func (s scorer) ask(ctx context.Context, a attempt) (given env.Verdict, err error) {
	switch n := len(a.Own); {
	case n == 0:
		return env.NoRoom(), nil
	case n == len(a.Earlier):
		return env.Verdict{TurnVerdict: a.Earlier[n-1], Turns: a.Earlier}, nil
	}
	for range infraTries {
		given, err = s.environment.Score(ctx, a.Attempt)
		if err == nil || exitcode.Code(err) == exitcode.Data || ctx.Err() != nil {
			break
		}
	}
	if err == nil && len(given.Turns) != len(a.Own) {
		err = exitcode.Bugf("environment %q has scores of %d of %d messages of task %q", s.environment.Set().Name(), len(given.Turns), len(a.Own), a.Task.ID)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = fmt.Errorf("scoring task %q: %w", a.Task.ID, err)
	}
	return given, err
}

// bound clips the rewards of a score, whatever environment gave it, to those that
// can be learned from, and logs each. What is no number is our failure.
func (s scorer) bound(v *env.Verdict, task env.Task, name shard.TraceName) error {
	clipped, err := boundTurn(&v.TurnVerdict)
	if len(v.Turns) > 0 {
		clipped, v.Turns = nil, slices.Clone(v.Turns) // the last of them is the score
	}
	for i := range v.Turns {
		more, errTurn := boundTurn(&v.Turns[i])
		clipped, err = append(clipped, more...), errors.Join(err, errTurn)
	}
	for _, what := range clipped {
		s.log("task %q, instance %q sample %d: %s", task.ID, name.InstanceID, name.Sample, what)
	}
	if err != nil {
		return fmt.Errorf("scoring task %q, instance %q sample %d: %w", task.ID, name.InstanceID, name.Sample, err)
	}
	return nil
}

// boundTurn says what it has clipped.
func boundTurn(v *env.TurnVerdict) (clipped []string, err error) {
	one := func(what string, value float64) float64 {
		bounded := shard.BoundReward(value)
		switch {
		case math.IsNaN(value):
			err = errors.Join(err, fmt.Errorf("the %s is not a number", what))
		case bounded != value:
			clipped = append(clipped, fmt.Sprintf("the %s %v is clipped to %v: more cannot be learned from", what, value, bounded))
		}
		return bounded
	}
	v.Reward, v.Parts = one("reward", v.Reward), slices.Clone(v.Parts)
	for i, part := range v.Parts {
		v.Parts[i].Value = one(fmt.Sprintf("part %q of the reward", part.Name), part.Value)
	}
	return clipped, err
}

// fill sets a row's own columns: those of the trace's last turn.
func (s scorer) fill(v *verdict, last env.Verdict, rows []shard.Rollout) {
	row := &v.Score
	row.Outcome, row.RawScore, row.NormalizedScore = string(last.Outcome), last.RawScore, last.NormalizedScore
	row.Reward, row.ValidationScore, row.Feedback, row.Extracted = last.Reward, last.ValidationScore, last.Feedback, last.Extracted
	row.RewardParts = append(row.RewardParts, last.Parts...)
	row.Milestones = append(row.Milestones, last.Milestones...)
	for _, turn := range row.Turns {
		row.ExecuteSeconds += turn.ExecuteSeconds
	}
	row.Protection = last.Protection
	v.Judged, v.Reason, v.Form, v.Others = true, last.Reason, last.Form, last.Others
	switch s.embedding {
	case recipe.EmbeddingNGrams:
		row.Embedding = NGrams(s.embedded(rows, row.Extracted))
	case recipe.EmbeddingPolicy:
		row.Embedding = append(row.Embedding, rows[len(rows)-1].Embedding...)
	}
}
