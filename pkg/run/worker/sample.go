package worker

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// tasksOf names the tasks of a run that a task which samples or scores is about; nil for
// all, for every other.
func (w *Worker) tasksOf(ctx context.Context, job stage.Job, t graph.Task) (map[string]bool, error) {
	if !t.Samples() && !t.Judges() {
		return nil, nil
	}
	first, last := w.Run.Graph.Rows(t)
	rows, _, err := stage.ReadPart[shard.Instance](ctx, job.Files, w.Run.Graph.Plan(t.Node), first, last)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, row := range rows {
		names[row.TaskID] = true
	}
	return names, nil
}

func (w *Worker) rollout(ctx context.Context, job stage.Job, environment env.Env, t graph.Task) error {
	if err := w.goesOn(ctx, t, job.Reading); err != nil {
		return err
	}
	_, err := rollout.Run(ctx, job, rollout.SettingsOf(w.Run.Recipe), environment, w.rolloutInputs(t))
	return err
}

func (w *Worker) rolloutInputs(t graph.Task) rollout.Inputs {
	g := w.Run.Graph
	first, last := g.Rows(t)
	inputs := rollout.Inputs{
		Plan: g.Plan(t.Node), FirstRow: first, LastRow: last,
		PolicyFolder: w.Run.Dir.Policy(g.SampledBy(t.Node)), PolicyVersion: g.SampledBy(t.Node),
		Iteration: t.Iteration, Shard: t.Shard, Of: g.Shards(t.Node), Output: w.Output.Sampled(t.Node, t.Shard),
		Evaluation: t.HeldOut(), Wave: t.Wave,
	}
	if t.Wave > 0 {
		before := waveOf(w.Run.Dir, t.InWave(t.Wave-1), t.Shard)
		inputs.Before = &before
	}
	return inputs
}

func (w *Worker) score(ctx context.Context, job stage.Job, environment env.Env, t graph.Task) error {
	if err := w.goesOn(ctx, t, job.Reading); err != nil {
		return err
	}
	inputs := w.scoreInputs(t)
	if taken, err := w.takeScores(ctx, job, t, inputs.Output); err != nil || taken {
		return err
	}
	_, err := score.Run(ctx, job, w.Run.Recipe.Score, environment, inputs)
	return err
}

func (w *Worker) scoreInputs(t graph.Task) score.Inputs {
	g := w.Run.Graph
	first, last := g.Rows(t)
	inputs := score.Inputs{
		Plan: g.Plan(t.Node), FirstRow: first, LastRow: last, Rollout: w.Run.Dir.Sampled(t.Sampling(), t.Shard), Iteration: t.Iteration,
		Shard: t.Shard, Of: g.Shards(t.Node), Output: w.Output.Sampled(t.Node, t.Shard), Evaluation: t.HeldOut(), Wave: t.Wave,
		Policy: w.Run.Dir.Policy(0), Seconds: w.Run.Recipe.Seconds(t.HeldOut()),
	}
	if t.Wave > 0 {
		inputs.Before = w.Run.Dir.Sampled(t.InWave(t.Wave-1), t.Shard)
	}
	return inputs
}

// waveOf names the files of one wave of a shard of rollouts.
func waveOf(d graph.Dir, n graph.Node, shard int) stage.WaveRef {
	return stage.WaveRef{Rollout: d.Sampled(n.Sampling(), shard), Score: d.Sampled(n.Judging(), shard)}
}

// goesOn refuses a task of a later wave of a shard in which nothing waits.
func (w *Worker) goesOn(ctx context.Context, t graph.Task, o seal.Options) error {
	if t.Wave == 0 {
		return nil
	}
	before := t.InWave(t.Wave - 1).Judging()
	m, err := seal.Read(ctx, w.Run.Dir.Sampled(before, t.Shard), o)
	if err == nil && m.Metrics[shard.MetricWaiting] == 0 {
		err = exitcode.Usagef("nothing of shard %d waits after %s", t.Shard, before)
	}
	return err
}

// wavesOf lists the files of the waves of a shard that has ended.
func (w *Worker) wavesOf(ctx context.Context, n graph.Node, number int, o seal.Options) ([]stage.WaveRef, error) {
	count, err := closing.Waves(ctx, w.Run.Graph, n, number, o)
	if err != nil {
		return nil, err
	}
	waves := make([]stage.WaveRef, count)
	for wave := range waves {
		waves[wave] = waveOf(w.Run.Dir, n.InWave(wave), number)
	}
	return waves, nil
}

// gather makes the rows of an evaluation from what was sampled and scored.
func (w *Worker) gather(ctx context.Context, job stage.Job, environment env.Env, t graph.Task) error {
	g := w.Run.Graph
	waves, err := w.wavesOf(ctx, t.Sampling(), t.Shard, job.Reading)
	if err != nil {
		return err
	}
	first, last := g.Rows(t)
	_, err = evaluate.Run(ctx, job, w.Run.Recipe.Evaluation, environment, evaluate.Inputs{
		Plan: g.Plan(t.Node), FirstRow: first, LastRow: last, Waves: waves, PolicyVersion: t.Iteration,
		Shard: t.Shard, Of: g.Shards(t.Node), Output: w.Output.Evaluation(t.Iteration, t.Shard),
	})
	return err
}
