package simulate

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// stage is what the tasks of a stage have in common.
type stage struct {
	cpus, gpus int  // that a task is given
	byShard    bool // shards of a node do not wait for the rest of its array
	work       taskWork
}

func (s *simulation) stageOf(name graph.Stage) stage {
	q := s.Graph.Request(name)
	is := stage{cpus: max(1, q.CPUs), gpus: q.GPUs, byShard: advance.GoesByShard(s.Graph, graph.Node{Stage: name})}
	if s.Cores > 0 {
		is.cpus, is.gpus = min(is.cpus, s.Cores), 0
	}
	is.work, _ = s.Durations.of(name)
	return is
}

// node is an array of tasks.
type node struct {
	graph.Node
	stage
	load
	sampled  traffic         // of each, where all have the same
	stream   rng.Stream      // of what is drawn for them
	attempts []*attempt      // by shard: one that runs, its array's wait where it is in the queue, nil for neither
	troubled map[int]trouble // by shard
	done     int             // tasks
}

// trouble is what became of attempts at a task that is not done.
type trouble struct {
	tries    int // that have ended without a result
	failures int // of those, that count
	overruns int // of the time limit
}

// troubles counts an attempt that has ended without a result.
func (n *node) troubles(shard int, cause executor.Cause) {
	before := n.troubled[shard]
	before.tries++
	if cause == executor.CauseTimeout {
		before.overruns++
	}
	if drive.Classify(cause) == drive.Counted {
		before.failures++
	}
	if n.troubled == nil {
		n.troubled = map[int]trouble{}
	}
	n.troubled[shard] = before
}

// node is what is known of a node's tasks. Most are asked for one after the other.
func (s *simulation) node(of graph.Node) *node {
	if s.last != nil && s.last.Node == of {
		return s.last
	}
	n := s.nodes[of]
	if n == nil {
		n = &node{
			Node: of, stage: s.stages[of.Stage], load: loadOf(s.Graph, of), attempts: make([]*attempt, s.Graph.Shards(of)),
			sampled: s.Sizes.trafficOf(s.Graph, graph.Task{Node: of}),
			stream:  rng.New(s.Seed, rng.PurposeSimulate, of.Iteration, fmt.Sprintf("%s/%d/%d", of.Stage, of.Step, of.Wave), 0),
		}
		s.nodes[of] = n
	}
	s.last = n
	return n
}

// traffic is that of a task of a node.
func (s *simulation) traffic(n *node, shard int) traffic {
	if n.OfUpdate() {
		return s.Sizes.trafficOf(s.Graph, graph.Task{Node: n.Node, Shard: shard})
	}
	return n.sampled
}
