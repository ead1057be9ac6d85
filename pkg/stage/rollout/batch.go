package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// Batch is the traces of some rows of a plan.
type Batch struct {
	settings    Settings
	environment env.Env
	evaluation  bool
	traces      []planned
	resumed     []shard.Rollout // of the traces, as the wave before left them
}

// planned is a trace of an instance of the plan.
type planned struct {
	*Trace
	instance shard.Instance
	sample   int
}

// NewBatch makes the traces of instances, which are the plan's rows from in.FirstRow on,
// by row and then by sample.
func NewBatch(s Settings, environment env.Env, instances []shard.Instance, in Inputs) (*Batch, error) {
	of := s.sampling(in.Evaluation)
	b := &Batch{settings: s, environment: environment, evaluation: in.Evaluation}
	for i, instance := range instances {
		task, ok := environment.Set().Task(instance.TaskID)
		if !ok {
			return nil, exitcode.Dataf("plan %q row %d names task %q, which environment %q does not have", in.Plan, in.FirstRow+i, instance.TaskID, environment.Set().Name())
		}
		samples, err := of(instance)
		if err != nil {
			return nil, err
		}
		for _, number := range samples.numbers {
			t := &Trace{
				Task: task, Kind: shard.Kind(instance.Kind), Prompt: instance.Messages, Scaffold: samples.scaffold,
				Sampling: samples.settings(number), MaxNewTokens: samples.maxNewTokens,
				dropThinking: s.Rollout.Thinking == recipe.ThinkingDrop,
				blind:        in.Evaluation && env.TraitsOf(environment, task.ID).Validated,
			}
			t.Stream, t.DraftStream = trainingStreams(s.Seed, in.Iteration, instance.InstanceID, number)
			t.Choices = rng.New(s.Seed, rng.PurposeScaffold, in.Iteration, instance.InstanceID, number)
			if in.Evaluation {
				t.Stream, t.DraftStream = evaluationStreams(s.Seed, task.ID, number)
				t.Choices = rng.New(s.Seed, rng.PurposeScaffold, 0, task.ID, number)
			}
			b.traces = append(b.traces, planned{t, instance, number})
		}
	}
	return b, nil
}

// trainingStreams are the streams of a sample of an instance. The first context
// of the first attempt has the instance's own.
func trainingStreams(seed uint64, iteration int, instanceID string, sample int) (contexts func(step, part int) rng.Stream, drafts func(step, turn, draft int) rng.Stream) {
	contexts = func(step, part int) rng.Stream {
		name := instanceID
		if step > 0 || part > 0 {
			name = fmt.Sprintf("%s\x00step %d\x00part %d", instanceID, step, part)
		}
		return rng.New(seed, rng.PurposeSample, iteration, name, sample)
	}
	drafts = func(step, turn, draft int) rng.Stream {
		return rng.New(seed, rng.PurposeSample, iteration, fmt.Sprintf("%s\x00step %d\x00turn %d\x00draft %d", instanceID, step, turn, draft), sample)
	}
	return contexts, drafts
}

// evaluationStreams are the streams of a sample of a held-out task: an attempt
// has its own number where others have the iteration.
func evaluationStreams(seed uint64, taskID string, sample int) (contexts func(step, part int) rng.Stream, drafts func(step, turn, draft int) rng.Stream) {
	contexts = func(step, part int) rng.Stream {
		name := taskID
		if part > 0 {
			name = fmt.Sprintf("%s\x00part %d", taskID, part)
		}
		return rng.New(seed, rng.PurposeEvaluation, step, name, sample)
	}
	drafts = func(step, turn, draft int) rng.Stream {
		return rng.New(seed, rng.PurposeEvaluation, step, fmt.Sprintf("%s\x00turn %d\x00step %d", taskID, turn, draft), sample)
	}
	return contexts, drafts
}

// Resume keeps the traces that waited in the wave before, whose rows and
// scores are given, and that a score lets go on.
func (b *Batch) Resume(sampler *Sampler, rows []shard.Rollout, scores []shard.Score) error {
	byName := map[shard.TraceName]planned{}
	for _, t := range b.traces {
		byName[shard.TraceName{InstanceID: t.instance.InstanceID, Sample: int32(t.sample)}] = t
	}
	traces := shard.Traces(rows)
	if len(traces) != len(scores) {
		return exitcode.Dataf("there are %d traces and scores of %d", len(traces), len(scores))
	}
	b.traces, b.resumed = []planned{}, nil
	known := map[shard.TraceName][]judged{}
	for i, rows := range traces {
		name := rows[0].Name()
		t, ok := byName[name]
		if !ok || scores[i].Name() != name {
			return exitcode.Dataf("trace %d, of instance %q sample %d, is not of this shard, or its score is of another", i, name.InstanceID, name.Sample)
		}
		fresh := *t.Trace
		t.Trace = &fresh
		t.parts = nil
		t.resume(rows, scores[i], sampler.closes)
		shares := b.shares(t)
		known[shares] = append(known[shares], t.judgedIn(t.sample, scores[i])...)
		if shard.GoesOn(rows, scores[i]) {
			b.traces = append(b.traces, t)
			b.resumed = append(b.resumed, rows...)
		}
	}
	for _, all := range known {
		slices.SortFunc(all, func(a, b judged) int {
			return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Sample, b.Sample), cmp.Compare(a.Turn, b.Turn))
		})
	}
	for _, t := range b.traces {
		t.known = known[b.shares(t)]
	}
	return nil
}

// shares names the traces whose scored messages a trace may start from: of all samples of
// its instance in training, its own in an evaluation, whose samples are repeats that must
// not know of each other (MLE-RL §5.1).
func (b *Batch) shares(t planned) shard.TraceName {
	name := shard.TraceName{InstanceID: t.instance.InstanceID}
	if b.evaluation {
		name.Sample = int32(t.sample)
	}
	return name
}

// Waits reports whether a trace waits for a score.
func (b *Batch) Waits() bool {
	return slices.ContainsFunc(b.traces, func(t planned) bool { return t.waits != shard.WaitNone })
}

// Play lets the policy go on in all traces. More failures than may be are an
// error.
func (b *Batch) Play(ctx context.Context, sampler *Sampler) error {
	all := b.all()
	if err := sampler.Play(ctx, b.environment, all); err != nil {
		return err
	}
	if !b.evaluation {
		return tooManyFailed(b.settings.Rollout.Remote, b.environment.Traits(), all)
	}
	// A measurement without some of its answers would be another measurement.
	for _, t := range all {
		if t.failed != nil {
			return fmt.Errorf("task %q: %w", t.Task.ID, t.failed)
		}
	}
	return nil
}

// Rows are the traces as a rollout shard has them, each whole.
func (b *Batch) Rows(wave, policyVersion int) []shard.Rollout {
	rows := []shard.Rollout{}
	for _, t := range b.traces {
		for _, row := range t.Rows(wave) {
			row.InstanceID, row.GroupID = t.instance.InstanceID, t.instance.GroupID
			row.Sample, row.PolicyVersion = int32(t.sample), int32(policyVersion)
			rows = append(rows, row)
		}
	}
	return rows
}

// tokens is how many the contexts hold in which the policy goes on.
func (b *Batch) tokens() int {
	n := 0
	for _, t := range b.traces {
		n += len(t.last().tokens)
	}
	return n
}

// metrics counts what this wave has added to the rows.
func (b *Batch) metrics(rows []shard.Rollout) map[string]float64 {
	m := map[string]float64{"responses": float64(len(b.traces)), "prompt_tokens": 0, "response_tokens": 0, "cut_off": 0, shard.MetricAttempts: 0, shard.MetricNoRoom: 0}
	count := func(rows []shard.Rollout, sign float64) {
		for _, row := range rows {
			m["prompt_tokens"] += sign * float64(row.PromptTokens)
			m["response_tokens"] += sign * float64(row.ResponseTokens)
			if row.FinishReason == string(policy.FinishLength) {
				m["cut_off"] += sign
			}
			m[shard.MetricAttempts] += sign
			if row.Turns == 0 && row.FinishReason == string(policy.FinishLength) {
				m[shard.MetricNoRoom] += sign
			}
		}
	}
	count(rows, 1)
	count(b.resumed, -1)
	for _, t := range b.traces {
		if t.failed != nil {
			m["infra"]++
		}
		if t.waits != shard.WaitNone {
			m["waiting"]++
		}
	}
	if b.settings.Rollout.Remote != nil {
		addRemoteMetrics(m, b.all())
	}
	return m
}

// all lists the traces.
func (b *Batch) all() []*Trace {
	all := make([]*Trace, len(b.traces))
	for i, t := range b.traces {
		all[i] = t.Trace
	}
	return all
}

// wave is what one wave of a shard holds.
type wave struct {
	rows   []shard.Rollout
	scores []shard.Score
}

func readWave(ctx context.Context, files stage.Files, names stage.WaveRef) (w wave, cited []seal.Input, err error) {
	cited = make([]seal.Input, 2)
	if w.rows, cited[0], err = stage.ReadTable[shard.Rollout](ctx, files, names.Rollout); err != nil {
		return w, nil, err
	}
	w.scores, cited[1], err = stage.ReadTable[shard.Score](ctx, files, names.Score)
	return w, cited, err
}
