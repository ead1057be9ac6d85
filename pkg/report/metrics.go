package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Metrics returns what the tasks of iteration k measured, in long format, and
// seals it as iter/K/metrics.parquet once the iteration is complete. The
// rows are sorted by iteration, stage (in the order of an iteration), shard
// and name.
//
// Iteration 0 has the warm start, whose checkpoints are its shards, and the
// first plan. A shard that was late is with the iteration that it was carried
// into, under the iteration that sampled it. Beside what the stages put into
// their manifests there is, for each task,
//
//	task_seconds   from its start to its seal
//	attempt        which try it was, from 0
//
// and where gradients are computed in shards the names of the stages gradient
// and learn begin with their optimizer step, as in "step-003/grad_norm"; those of
// later waves of rollouts and scores begin with the wave, as in "w01/responses".
// Unlike the data files of a run, times make this table differ between two
// runs of one recipe.
func Metrics(ctx context.Context, r *rundir.Run, k int) ([]shard.Metric, error) {
	rows, _, err := shard.Read[shard.Metric](ctx, r.Dir.Metrics(k), r.Graph.Reading(0))
	if err == nil {
		return rows, nil
	}
	if !errors.Is(err, seal.ErrNotSealed) && !errors.Is(err, seal.ErrDamaged) {
		return nil, err
	}
	started := time.Now()
	g := gathering{run: r, iteration: k}
	if err := g.gather(ctx); err != nil {
		return nil, fmt.Errorf("gathering the metrics of iteration %d: %w", k, err)
	}
	if !g.complete {
		return g.rows, nil
	}
	m := r.Graph.Expected(graph.Task{Node: graph.Node{Stage: graph.StageMetrics, Iteration: k}})
	m.Started, m.Inputs, m.BinaryVersion = started, g.inputs, r.Identity.BinaryVersion
	_, err = shard.Write(r.Dir.Metrics(k), g.rows, nil, seal.AttemptFromEnv(), m)
	return g.rows, err
}

// ReadMetrics returns what the tasks of all iterations measured, sealed or
// not, from iteration 0 on. It writes nothing.
func ReadMetrics(ctx context.Context, r *rundir.Run) ([]shard.Metric, error) {
	var all []shard.Metric
	for k := 0; k <= r.Recipe.Schedule.Iterations; k++ {
		rows, _, err := shard.Read[shard.Metric](ctx, r.Dir.Metrics(k), r.Graph.Reading(0))
		if errors.Is(err, seal.ErrNotSealed) || errors.Is(err, seal.ErrDamaged) {
			g := gathering{run: r, iteration: k}
			err = g.gather(ctx)
			rows = g.rows
		}
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of iteration %d: %w", k, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

type gathering struct {
	run       *rundir.Run
	iteration int
	rows      []shard.Metric
	inputs    []seal.Input
	complete  bool
}

func (g *gathering) gather(ctx context.Context) error {
	of, k := g.run.Graph, g.iteration
	list := nodes(of, k)
	closing, err := closing.Read(ctx, g.run.Dir, k, g.run.Graph.Reading(0))
	closed := err == nil
	if err != nil && !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	g.complete = closed || k == 0
	for _, node := range list {
		tasks, err := finishedTasks(ctx, of, []graph.Node{node})
		if err != nil {
			return err
		}
		whole := 0
		for _, t := range tasks {
			if t.whole {
				whole++
			}
			// A shard that was late may turn up before or after this look:
			// it is with the iteration that carries it.
			if node.OfTraces() && closed && !closing.Includes(t.Shard) {
				continue
			}
			g.take(t)
		}
		if !node.OfTraces() && whole < of.Shards(node) {
			g.complete = false
		}
	}
	for _, ref := range closing.Carried {
		for _, node := range of.Waved(graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}) {
			t, err := finish(ctx, of, graph.Task{Node: node, Shard: ref.Shard})
			if err != nil {
				return err
			}
			g.take(t)
		}
	}
	rank := map[string]int{}
	for i, stage := range graph.Stages() {
		rank[string(stage)] = i
	}
	slices.SortFunc(g.rows, func(a, b shard.Metric) int {
		return cmp.Or(cmp.Compare(a.Iteration, b.Iteration), cmp.Compare(rank[a.Stage], rank[b.Stage]),
			cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// take adds the metrics of one task.
func (g *gathering) take(t finishedTask) {
	if len(t.outputs) == 0 {
		return
	}
	iteration, number, prefix := t.Iteration, t.Shard, ""
	if t.Stage == graph.StageWarm {
		iteration, number = 0, t.Iteration
	}
	sharded := g.run.Recipe.Schedule.GradientShards > 1
	if sharded && (t.Stage == graph.StageGradient || t.Stage == graph.StageLearn) {
		prefix = fmt.Sprintf("step-%03d/", t.Step)
	}
	if t.Wave > 0 {
		prefix = fmt.Sprintf("w%02d/", t.Wave)
	}
	add := func(name string, value float64) {
		g.rows = append(g.rows, shard.Metric{
			Iteration: int32(iteration), Stage: string(t.Stage), Shard: int32(number), Name: prefix + name, Value: value,
		})
	}
	for name, value := range t.metrics {
		add(name, value)
	}
	add("task_seconds", t.span.seconds())
	add("attempt", float64(t.outputs[0].manifest.Attempt))
	for _, o := range t.outputs {
		g.inputs = append(g.inputs, seal.Input{Path: g.run.Dir.Rel(o.path), ContentSHA256: o.manifest.ContentSHA256})
	}
}
