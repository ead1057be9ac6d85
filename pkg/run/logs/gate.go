package logs

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// compareControls orders controller jobs before tasks.
func compareControls(a, b Entry) int {
	switch isGate := a.task.Stage == Gate; {
	case isGate == (b.task.Stage == Gate):
		return 0
	case isGate:
		return -1
	}
	return +1
}

// addController has the log of the controller jobs, to which all of them write, say how the
// last one ended if that keeps the run from going on. Without a log there is an entry all
// the same.
func addController(ctx context.Context, r *rundir.Run, advancer *advance.Advancer, entries map[string]*Entry) error {
	failed := Entry{State: Failed, Cause: executor.CauseFailed}
	if stuck, is := advance.ReadStuck(r.Dir); is {
		failed.Cause, failed.Evidence = executor.CauseOfExit(stuck.Code), stuck.String()
		failed.Job, failed.Node, failed.End = stuck.Job, stuck.Host, stuck.Time
	} else if advancer != nil {
		seen, err := advance.SeeJobs(ctx, advancer)
		if err != nil {
			return err
		}
		failed.Evidence = seen.Fallen
	}
	if failed.Evidence == "" {
		return nil
	}
	gates := map[string]*Entry{}
	if err := readFolder(r.Dir, Filter{Stage: Gate}, gates); err != nil {
		return err
	}
	failed.task = graph.Task{Node: graph.Node{Stage: Gate}}
	failed.Task = failed.task.String()
	log := &failed
	for _, e := range gates {
		if log == &failed || e.Attempt > log.Attempt {
			log = e
		}
	}
	failed.Attempt, failed.Log, failed.part = log.Attempt, log.Log, log.part
	if failed.End.IsZero() {
		failed.End = log.End
	}
	entries[attemptName(failed.task, failed.Attempt)] = &failed
	return nil
}
