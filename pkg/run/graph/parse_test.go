package graph_test

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

func TestParseTask(t *testing.T) {
	t.Parallel()
	for _, task := range []graph.Task{
		{Node: graph.Node{Stage: graph.StageWarm, Iteration: 1}},
		{Node: graph.Node{Stage: graph.StageRollout, Iteration: 12}, Shard: 104},
		{Node: graph.Node{Stage: graph.StageScore, Iteration: 3, Wave: 2}, Shard: 7},
		{Node: graph.Node{Stage: graph.StageGradient, Iteration: 3, Step: 11}, Shard: 2},
	} {
		for attempt := range 2 {
			got, number, ok := graph.ParseTask(fmt.Sprintf("%s.%d", task, attempt))
			if !ok || got != task || number != attempt {
				t.Errorf("%s.%d is read as %v, attempt %d, %v", task, attempt, got, number, ok)
			}
		}
		if got, _, ok := graph.ParseTask(task.String()); !ok || got != task {
			t.Errorf("%s is read as %v, %v", task, got, ok)
		}
		if got, number, ok := graph.ParseNode(fmt.Sprintf("%s.%d", task.Node, 7)); !ok || got != task.Node || number != 7 {
			t.Errorf("%s.7 is read as %v, attempt %d, %v", task.Node, got, number, ok)
		}
	}
	for _, name := range []string{"", "rollout", "rollout-3-00001", "rollout-000003-00001.x", "server-rollout-000003-00001.0", "rollout-000003-00001.99999999999999999999"} {
		if got, _, ok := graph.ParseTask(name); ok {
			t.Errorf("%q is read as %v", name, got)
		}
		if got, _, ok := graph.ParseNode(name); ok {
			t.Errorf("%q is read as %v", name, got)
		}
	}
}
