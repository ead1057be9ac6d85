package command

import (
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// needsOf is how many bytes the tasks of a node write, as far as the dry run knows: what
// whoever starts it looks for room for. Nil where the policy's folder cannot be read.
func needsOf(r *rundir.Run) func(graph.Node) int64 {
	shape, stored, err := startShape(r.Recipe, r.Identity.PolicySource)
	if err != nil {
		return nil
	}
	s := storageOf(r.Recipe, *shape, stored)
	kept := storageByStage(r.Graph, s)
	return func(n graph.Node) int64 {
		switch n.Stage {
		case graph.StageWarm, graph.StageApply, graph.StageLearn: // what gathers parts needs as much where there are no links
			return s.Each
		case graph.StageSum:
			return s.Gradient
		case graph.StageGradient, graph.StageReduce:
			return s.Gradient * int64(r.Graph.Shards(n))
		case graph.StageRollout, graph.StageBuffer:
			return kept[n.Stage] / int64(max(1, r.Recipe.Schedule.Iterations))
		case graph.StageEvalRollout:
			return kept[n.Stage] / int64(max(1, len(r.Graph.EvaluatedVersions())))
		}
		return 0
	}
}
