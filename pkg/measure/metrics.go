package measure

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
// seals it as iter/K/metrics.parquet and usage.parquet once the iteration is
// complete. The rows are sorted by iteration, stage (in the order of an iteration),
// shard and name.
//
// Iteration 0 has the warm start, whose checkpoints are its shards, and the
// first plan. A shard that was late is with the iteration that it was carried
// into, under the iteration that sampled it. Metrics are the same in every run of
// a recipe. Usage is of an attempt: beside what the stages note of their devices
// and servers there is, for each task,
//
//	task_seconds   from its start to its seal
//	attempt        which try it was, from 0
//
// Where gradients are computed in shards the names of the stages gradient and
// learn begin with their optimizer step, as in "step-003/grad_norm"; those of
// later waves of rollouts and scores begin with the wave, as in "w01/responses".
func Metrics(ctx context.Context, r *rundir.Run, k int) ([]shard.Metric, []shard.Usage, error) {
	metrics, usage, err := sealedMetrics(ctx, r, k)
	if !errors.Is(err, seal.ErrNotSealed) && !errors.Is(err, seal.ErrDamaged) {
		return metrics, usage, err
	}
	started := time.Now()
	g := gathering{run: r, iteration: k}
	if err := g.gather(ctx); err != nil {
		return nil, nil, fmt.Errorf("gathering the metrics of iteration %d: %w", k, err)
	}
	if !g.complete {
		return g.metrics, g.usage, nil
	}
	m := r.Graph.Expected(graph.Task{Node: graph.Node{Stage: graph.StageMetrics, Iteration: k}})
	m.Started, m.Inputs, m.BinaryVersion = started, g.inputs, r.Identity.BinaryVersion
	_, err = shard.Write(r.Dir.Metrics(k), g.metrics, nil, seal.AttemptFromEnv(), m)
	if err == nil {
		_, err = shard.Write(r.Dir.Usage(k), g.usage, nil, seal.AttemptFromEnv(), m)
	}
	if seal.Unwritable(err) { // a run of somebody else's, whose metrics are gathered each time
		err = nil
	}
	return g.metrics, g.usage, err
}

// sealedMetrics reads both tables of an iteration.
func sealedMetrics(ctx context.Context, r *rundir.Run, k int) ([]shard.Metric, []shard.Usage, error) {
	metrics, _, err := shard.Read[shard.Metric](ctx, r.Dir.Metrics(k), r.Graph.Reading(0))
	if err != nil {
		return nil, nil, err
	}
	usage, _, err := shard.Read[shard.Usage](ctx, r.Dir.Usage(k), r.Graph.Reading(0))
	return metrics, usage, err
}

type gathering struct {
	run       *rundir.Run
	iteration int
	metrics   []shard.Metric
	usage     []shard.Usage
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
	order := func(a, b shard.Metric) int {
		return cmp.Or(cmp.Compare(a.Iteration, b.Iteration), cmp.Compare(rank[a.Stage], rank[b.Stage]),
			cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(g.metrics, order)
	slices.SortFunc(g.usage, func(a, b shard.Usage) int { return order(shard.Metric(a), shard.Metric(b)) })
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
	sharded := g.run.Graph.Sharded()
	if sharded && t.OfUpdate() {
		prefix = fmt.Sprintf("step-%03d/", t.Step)
	}
	if t.Wave > 0 {
		prefix = fmt.Sprintf("w%02d/", t.Wave)
	}
	row := func(name string, value float64) shard.Metric {
		return shard.Metric{Iteration: int32(iteration), Stage: string(t.Stage), Shard: int32(number), Name: prefix + name, Value: value}
	}
	for name, value := range t.metrics {
		g.metrics = append(g.metrics, row(name, value))
	}
	use := func(name string, value float64) { g.usage = append(g.usage, shard.Usage(row(name, value))) }
	for name, value := range t.usage {
		use(name, value)
	}
	use("task_seconds", t.span.seconds())
	use("attempt", float64(t.outputs[0].manifest.Attempt))
	for _, o := range t.outputs {
		g.inputs = append(g.inputs, seal.Input{Path: g.run.Dir.Rel(o.path), ContentSHA256: o.manifest.ContentSHA256})
	}
}
