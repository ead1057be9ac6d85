package advance

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// Attempt is one submission of a task, and what is known of its end.
type Attempt struct {
	Task     graph.Task
	Number   int    // of the submission, from 0
	Job      string // with its index in an array
	State    slurm.State
	Cause    executor.Cause // what Slurm did to it, else what the task says of itself; empty while it lives
	Evidence string
}

// Attempts asks Slurm, once, about the submissions of tasks that are wanted.
func Attempts(ctx context.Context, a *Advancer, wanted func(graph.Task) bool) ([]Attempt, error) {
	all, err := ReadSubmissions(a.Run.Dir)
	if err != nil {
		return nil, err
	}
	var attempts []Attempt
	var ids []slurm.TaskID
	var jobs []slurm.Job
	var of []Submission
	for _, s := range all {
		for _, job := range s.Jobs {
			before := len(attempts)
			for i, id := range job.Tasks() {
				if t := (graph.Task{Node: s.Node(), Shard: job.Shards[i]}); wanted(t) {
					attempts, ids = append(attempts, Attempt{Task: t, Number: s.Attempt, Job: id.String()}), append(ids, id)
					of = append(of, s)
				}
			}
			if len(attempts) > before {
				jobs = append(jobs, job)
			}
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	limits, err := a.Cluster.Limits(ctx)
	if err != nil {
		return nil, err
	}
	states, err := a.Cluster.States(ctx, limits, jobs)
	if err != nil {
		return nil, err
	}
	for i := range attempts {
		t := &attempts[i]
		t.State = states.Of(ids[i])
		t.Evidence = t.State.Evidence
		if t.State.Phase == slurm.PhaseEnded || t.State.Phase == slurm.PhaseUnknown {
			t.Cause, t.Evidence = a.causeOf(t.Task, of[i], t.State)
		}
	}
	return attempts, nil
}
