package advance

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// Seen is what a batch system says about the submitted tasks of a run.
type Seen struct {
	Running, Pending, Failed, Unknown map[graph.Task]string // evidence by task
	Gates                             int                   // that wait or run
	Fallen                            string                // how the last gate ended, if it ended badly and no other is there
}

// SeeJobs asks Slurm about the submitted tasks of a run.
func SeeJobs(ctx context.Context, a *Advancer) (Seen, error) {
	seen := Seen{Running: map[graph.Task]string{}, Pending: map[graph.Task]string{}, Failed: map[graph.Task]string{}, Unknown: map[graph.Task]string{}}
	limits, err := a.Cluster.Limits(ctx)
	if err != nil {
		return seen, err
	}
	view, err := a.look(ctx, survey.New(a.Run.Graph), limits)
	if err != nil {
		return seen, err
	}
	seen.Gates, seen.Fallen = view.gates, view.fallen
	if view.watchdog != "" {
		seen.Gates++
	}
	in := map[slurm.Phase]map[graph.Task]string{slurm.PhaseRunning: seen.Running, slurm.PhasePending: seen.Pending, slurm.PhaseUnknown: seen.Unknown}
	for _, s := range view.submissions {
		for id, t := range s.all() {
			state := view.states.Of(id)
			if in := in[state.Phase]; in != nil {
				in[t] = fmt.Sprintf("job %s: %s", id, state.Evidence)
			}
			if view.failures[t] >= a.Run.Recipe.Schedule.MaxAttempts {
				seen.Failed[t] = view.evidence[t]
			}
		}
	}
	return seen, nil
}
