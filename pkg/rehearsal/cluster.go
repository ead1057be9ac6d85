package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Cluster is a Slurm on which a plain user disturbs tasks of his own: a preemption is
// a requeue, or SIGTERM where the site does not requeue, and a lost node is SIGKILL for
// everything that the run has there. Gates are tasks like others. Time limits there are
// Slurm's own, of whole minutes, and none are made.
type Cluster struct {
	Slurm   *slurm.Cluster
	Name    string // of the site profile
	Requeue bool   // the site requeues what it preempts
	Log     func(format string, args ...any)

	// Stay submits a run and stays until it is done.
	Stay func(ctx context.Context, run *rundir.Run) error
}

// String implements [fmt.Stringer].
func (p Cluster) String() string { return fmt.Sprintf("the Slurm of site %s", p.Name) }

// lookEvery is how often a disturbance that is due asks Slurm for somebody to disturb.
const lookEvery = 200 * time.Millisecond

// Carry implements [Place].
func (p Cluster) Carry(ctx context.Context, run *rundir.Run, what Disturbances) (Events, error) {
	d := disturber{Cluster: p, run: run, prefix: slurm.NamePrefix(run.Identity.RunID), tally: newTally(what), disturbed: map[string]bool{}}
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	var disturbing sync.WaitGroup
	disturbing.Go(func() { what.inTurn(watched, lookEvery, d.preempt, d.loseNode) })
	err := p.Stay(ctx, run)
	cancel()
	disturbing.Wait()
	submitted, countErr := advance.Submitted(run.Dir)
	d.Attempts = len(submitted) + d.requeued
	return d.Events, errors.Join(err, countErr, p.leave(context.WithoutCancel(ctx), run, err != nil))
}

// leave takes out of the queue what a run has there still: a watchdog at least.
func (p Cluster) leave(ctx context.Context, run *rundir.Run, failed bool) error {
	pause := rundir.Pause{By: "lathe rehearse", Since: time.Now().UTC().Truncate(time.Second), Stop: true}
	if failed { // gates submit nothing more
		if err := pause.Write(run.Dir, seal.AttemptFromEnv()); err != nil {
			return err
		}
	}
	_, err := advance.Cancel(ctx, p.Slurm, run.Dir, run.Identity.RunID, pause, failed)
	return err
}

// disturber disturbs the tasks of a run.
type disturber struct {
	Cluster
	run    *rundir.Run
	prefix string // of the names of its jobs
	*tally
	disturbed map[string]bool // attempts, by job and start
	requeued  int             // tasks that came back under the same id
}

// key names an attempt.
func (t target) key() string { return fmt.Sprint(t.id, " ", t.start.Unix()) }

// targets are the jobs at work that have not been disturbed.
func (d *disturber) targets() []target {
	ctx := context.Background() // short, and what is ordered is to be noted
	running, err := d.Slurm.Running(ctx, d.prefix)
	var submitted map[string]graph.Task
	if err == nil && len(running) > 0 {
		submitted, err = advance.Submitted(d.run.Dir)
	}
	if err != nil {
		d.Log("cannot disturb the run: %v", err)
		return nil
	}
	var all []target
	for _, job := range running {
		node := strings.TrimPrefix(job.Name, d.prefix)
		stage, _, _ := strings.Cut(node, "-")
		at := target{id: job.ID, task: node + " " + job.ID, stage: stage, node: job.Node, start: job.Start}
		if task, known := submitted[job.ID]; known {
			at.task = task.String()
		}
		if !d.disturbed[at.key()] {
			all = append(all, at)
		}
	}
	return all
}

func (d *disturber) preempt() bool {
	victim, found := d.leastHit(d.targets())
	if !found {
		return false
	}
	ctx, ran, err := context.Background(), true, error(nil)
	if d.Requeue {
		ran, err = d.Slurm.Requeue(ctx, victim.id)
	} else {
		err = d.Slurm.Signal(ctx, "TERM", victim.id)
	}
	if err != nil {
		d.Log("cannot preempt %s: %v", victim.task, err)
		return false
	}
	if ran {
		d.strike(executor.CausePreempted, victim)
	}
	if ran && d.Requeue && victim.stage != slurm.GateStage {
		d.requeued++
	}
	return ran
}

func (d *disturber) loseNode() bool {
	victims := d.busiestNode(d.targets())
	if len(victims) == 0 {
		return false
	}
	ids := make([]string, len(victims))
	for i, victim := range victims {
		ids[i] = victim.id
	}
	if err := d.Slurm.Signal(context.Background(), "KILL", ids...); err != nil {
		d.Log("cannot kill the tasks of node %s: %v", victims[0].node, err)
		return false
	}
	for _, victim := range victims {
		d.strike(executor.CauseNodeFail, victim)
	}
	return true
}

func (d *disturber) strike(cause executor.Cause, victim target) {
	now := time.Now()
	d.disturbed[victim.key()] = true
	d.note(Hit{
		Cause: cause, Task: victim.task, Stage: victim.stage, Node: victim.node,
		LostSeconds: max(0, now.Sub(victim.start).Seconds()), Killed: cause == executor.CauseNodeFail,
	}, now)
}
