package efficiency

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// JoulesByIteration is what the GPUs of a run took in each training iteration, with
// what was lost and without the warm start and evaluations. An iteration of which no
// GPU was sampled, or one without its power, is not there.
func JoulesByIteration(ctx context.Context, r *rundir.Run) (map[int]float64, error) {
	attempts, err := readAttempts(ctx, r)
	if err != nil {
		return nil, err
	}
	joules, unknown := map[int]float64{}, map[int]bool{}
	for _, a := range attempts {
		task, known := parseTask(a.Task)
		if !known || !trains(task.Node) {
			continue
		}
		for _, g := range a.GPUs {
			if g.EnergyJoules == nil {
				unknown[task.Iteration] = true
			} else {
				joules[task.Iteration] += *g.EnergyJoules
			}
		}
	}
	for k := range unknown {
		delete(joules, k)
	}
	return joules, nil
}

// trains reports whether a node is of the training iterations.
func trains(n graph.Node) bool {
	return n.Stage != graph.StageWarm && n.Stage != graph.StageEvalPlan && !n.HeldOut()
}
