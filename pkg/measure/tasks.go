package measure

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// finishedTask is a task of a run with the manifests of its outputs.
type finishedTask struct {
	graph.Task
	outputs []output
	whole   bool // every output is sealed
	metrics map[string]float64
	usage   map[string]float64
	span    span
}

type output struct {
	path     string
	manifest seal.Manifest
}

// nodes lists the arrays of tasks of one iteration, in the order in which it
// goes through them. Iteration 0 is the warm start and the first plan.
func nodes(g graph.Graph, k int) []graph.Node {
	if k == 0 {
		var list []graph.Node
		for chunk := 1; chunk <= g.WarmChunks(); chunk++ {
			list = append(list, graph.Node{Stage: graph.StageWarm, Iteration: chunk})
		}
		return append(list, graph.Node{Stage: graph.StageBuffer})
	}
	list := append(g.Waved(graph.Node{Stage: graph.StageRollout, Iteration: k}), graph.Node{Stage: graph.StageBuffer, Iteration: k})
	return append(list, g.LearnNodes(k)...)
}

// evaluations lists the arrays that measure policies.
func evaluations(g graph.Graph) []graph.Node {
	list := []graph.Node{{Stage: graph.StageEvalPlan}}
	for _, version := range g.EvaluatedVersions() {
		list = append(list, g.Waved(graph.Node{Stage: graph.StageEvalRollout, Iteration: version})...)
		list = append(list, graph.Node{Stage: graph.StageEvaluate, Iteration: version})
	}
	return list
}

// finishedTasks returns the tasks of nodes that have sealed something. A damaged
// file is an error, not something missing.
func finishedTasks(ctx context.Context, g graph.Graph, list []graph.Node) ([]finishedTask, error) {
	var tasks []finishedTask
	for _, node := range list {
		for shard := range g.Shards(node) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			t, err := finish(ctx, g, graph.Task{Node: node, Shard: shard})
			if err != nil {
				return nil, err
			}
			if len(t.outputs) > 0 {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks, nil
}

func finish(ctx context.Context, g graph.Graph, task graph.Task) (finishedTask, error) {
	t := finishedTask{Task: task, whole: true, metrics: map[string]float64{}, usage: map[string]float64{}}
	for _, path := range g.Outputs(task) {
		m, err := seal.Record(ctx, path)
		if errors.Is(err, seal.ErrNotSealed) {
			t.whole = false
			continue
		}
		if err == nil {
			err = g.Accept(path, m)
		}
		if err != nil {
			return t, err
		}
		if len(t.outputs) == 0 || m.Started.Before(t.span.from) {
			t.span.from = m.Started
		}
		if m.Ended.After(t.span.to) {
			t.span.to = m.Ended
		}
		t.outputs = append(t.outputs, output{path, m})
		// Outputs of one task repeat its metrics or have different ones.
		maps.Copy(t.metrics, m.Metrics)
		maps.Copy(t.usage, m.Usage)
	}
	return t, nil
}

// span is a stretch of time.
type span struct{ from, to time.Time }

func (s span) seconds() float64 { return max(0, s.to.Sub(s.from).Seconds()) }
