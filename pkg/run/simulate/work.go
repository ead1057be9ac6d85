package simulate

import (
	"math/bits"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// load is the work in the tasks of a node, in units: prompts, each with its group of
// responses.
type load struct {
	rows  int     // that the tasks share: instances of a plan, or parts of a batch
	units float64 // of each row
}

// loadOf is the work of a node. Gradients are of a batch of rollout.prompts, however
// many parts it has, whether an array computes them or one task that learns; tasks that
// add them up or apply them have no unit, and those of any other stage one.
func loadOf(g graph.Graph, n graph.Node) load {
	switch {
	case n.OfTraces(), n.Stage == graph.StageEvaluate:
		_, rows := g.Rows(graph.Task{Node: n, Shard: g.Shards(n) - 1})
		return load{rows, 1}
	case n.Stage == graph.StageGradient:
		parts := g.Recipe.Schedule.GradientUnits
		return load{parts, float64(g.Recipe.Rollout.Prompts) / float64(g.Recipe.Loss.MiniBatches*parts)}
	case n.Stage == graph.StageLearn && !g.Sharded():
		return load{1, float64(g.Recipe.Rollout.Prompts * g.Recipe.Loss.Epochs)}
	case n.OfUpdate():
		return load{}
	}
	return load{1, 1}
}

// of is the work of one task.
func (l load) of(shard, shards int) float64 {
	first, last := graph.ShardRange(l.rows, shard, shards)
	return float64(max(1, last-first)) * l.units
}

// Sizes are the bytes of the files that grow with the policy; zero where its shape is
// not known.
type Sizes struct {
	Policy    int64 // that opening it reads: under policy.lora, adapter and base
	Trained   int64 // weights that an optimizer step writes: the policy or its adapter, and a critic
	Optimizer int64 // the state of the optimizer for them
	Gradient  int64 // one sum of their gradients, in float32
}

// traffic is what a task reads and writes of policies, optimizers' states and
// gradients, in bytes.
type traffic struct {
	read, written int64
	summed        int // files of gradients that it adds up
}

// trafficOf is that of a task, as if nothing were read from memory that another task of
// the node had read. A task of an optimizer step opens the policies that the step starts
// from, and one that applies gradients the optimizer's state too.
func (s Sizes) trafficOf(g graph.Graph, t graph.Task) traffic {
	switch {
	case t.Stage == graph.StageWarm:
		return s.warm(g, t)
	case t.Samples():
		return traffic{read: s.Policy}
	case !t.OfUpdate():
		return traffic{}
	}
	if g.InParts() && t.Stage != graph.StageGradient && t.Stage != graph.StageReduce {
		return s.inParts(g, t)
	}
	moved := traffic{read: max(s.Policy, s.Trained)}
	if t.Stage == graph.StageLearn && (t.Iteration > 1 || t.Step > 0) {
		moved.read += s.Optimizer
	}
	if g.Recipe.Loss.KL.Coef != 0 && g.Recipe.Policy.LoRA == nil {
		moved.read += s.Policy // the reference
	}
	if g.Recipe.Advantage.Teacher.Path != "" {
		moved.read += s.Policy // the teacher, taken to be as large
	}
	for _, part := range summed(g, t) {
		moved.read += s.Gradient * sums(g, part)
		moved.summed++
	}
	if t.Stage != graph.StageLearn {
		moved.written = s.Gradient * sums(g, t)
		return moved
	}
	moved.written = s.Trained + s.Optimizer
	if g.RefreshesReference(t.Iteration) && t.Node == g.LastLearn(t.Iteration) {
		moved.written += s.Policy
	}
	return moved
}

// Traffic is what the tasks of a node read and write together, in bytes.
func (s Sizes) Traffic(g graph.Graph, n graph.Node) (read, written int64) {
	for shard := range g.Shards(n) {
		moved := s.trafficOf(g, graph.Task{Node: n, Shard: shard})
		read, written = read+moved.read, written+moved.written
	}
	return read, written
}

// inParts is the traffic of a task of an update in parts, which reads and writes its
// share; what gathers the parts reads them back once.
func (s Sizes) inParts(g graph.Graph, t graph.Task) traffic {
	share, moved := int64(g.Shards(t.Node)), traffic{}
	switch t.Stage {
	case graph.StageLearn:
		moved.read = s.Trained + s.Optimizer
	case graph.StageSum:
		for _, part := range summed(g, t) {
			moved.read += s.Gradient * sums(g, part) / share
			moved.summed++
		}
		moved.written = s.Gradient / share
	case graph.StageApply:
		moved.read = (s.Trained + s.Gradient) / share
		if t.Iteration > 1 || t.Step > 0 {
			moved.read += s.Optimizer / share
		}
		moved.written = (s.Trained + s.Optimizer) / share
		if g.RefreshesReference(t.Iteration) && t.Step == g.OptimizerSteps()-1 {
			moved.read += s.Policy / share
			moved.written += s.Policy / share
		}
	}
	return moved
}

// warm is the traffic of a part of the warm start.
func (s Sizes) warm(g graph.Graph, t graph.Task) traffic {
	moved := traffic{written: s.Trained}
	if t.Iteration > 1 {
		moved.read = max(s.Policy, s.Trained) + s.Optimizer
	}
	if t.Iteration < g.WarmChunks() {
		moved.written += s.Optimizer
	}
	return moved
}

// summed lists the tasks whose sums of gradients a task adds up.
func summed(g graph.Graph, t graph.Task) []graph.Task {
	gradients := graph.Node{Stage: graph.StageGradient, Iteration: t.Iteration, Step: t.Step}
	var of graph.Node
	var first, last int
	switch {
	case t.Stage == graph.StageReduce:
		of = gradients
		first, last = graph.ShardRange(g.Shards(of), t.Shard, g.Shards(t.Node))
	case t.Stage == graph.StageSum, t.Stage == graph.StageLearn && g.Sharded() && !g.InParts():
		of = g.Summed(t.Iteration, t.Step)
		last = g.Shards(of)
	}
	var tasks []graph.Task
	for shard := first; shard < last; shard++ {
		tasks = append(tasks, graph.Task{Node: of, Shard: shard})
	}
	return tasks
}

// sums is the number of sums that a task of gradients writes: one for each block of
// 2^n units that begins at a multiple of 2^n and is no half of another such block, of
// all the units that it has (package learn).
func sums(g graph.Graph, t graph.Task) int64 {
	first, last := t.Shard, t.Shard+1
	shards := g.Shards(graph.Node{Stage: graph.StageGradient})
	if t.Stage == graph.StageReduce {
		first, last = graph.ShardRange(shards, t.Shard, g.Shards(t.Node))
	}
	first, last = g.Recipe.Schedule.GradientUnits*first/shards, g.Recipe.Schedule.GradientUnits*last/shards
	blocks := int64(0)
	for ; first < last; blocks++ {
		size := 1 << (bits.Len(uint(last-first)) - 1)
		if first > 0 {
			size = min(size, first&-first)
		}
		first += size
	}
	return blocks
}
