package advance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The watchdog of a run is a gate that follows no task and starts after a while.
// Slurm may leave a task in the queue for ever, and the gates behind it too. While
// a run lives, one watchdog waits in the queue.

// submitWatchdog submits a watchdog.
func (a *Advancer) submitWatchdog(ctx context.Context, limits slurm.Limits) error {
	delay := time.Duration(a.Site.Site.WatchdogSeconds) * time.Second
	if delay == 0 {
		return nil
	}
	return a.submitTimed(ctx, watchdogPath(a.Run.Dir), delay, limits)
}

// An alarm is a gate that starts when an iteration is due to be closed with what is
// done of it (schedule.close_after_seconds). One at most waits in the queue: what
// is due later is set when it starts.

// setAlarm submits an alarm, unless one waits or nothing is due.
func (a *Advancer) setAlarm(ctx context.Context, view *jobsView, due time.Time, limits slurm.Limits) error {
	if view.alarmed || due.IsZero() {
		return nil
	}
	return a.submitTimed(ctx, alarmPath(a.Run.Dir), max(time.Second, time.Until(due)), limits)
}

// cancelLate cancels the tasks that run or wait although their iteration was closed
// without them for good.
func (a *Advancer) cancelLate(ctx context.Context, v *survey.Inventory, view *jobsView) error {
	var ids []string
	for _, s := range view.submissions {
		for id, t := range s.all() {
			if !view.live[t] {
				continue
			}
			late, err := v.Dropped(ctx, t)
			if err != nil {
				return err
			}
			if late {
				delete(view.live, t)
				ids = append(ids, id.String())
			}
		}
	}
	if len(ids) > 0 {
		a.Log("cancelling %s that their iteration was closed without", plural.Count(len(ids), "task"))
	}
	return a.Cluster.Cancel(ctx, ids...)
}

// submitTimed submits a gate that starts after a while, and notes it. Where the
// queue is full the next gate does.
func (a *Advancer) submitTimed(ctx context.Context, path string, delay time.Duration, limits slurm.Limits) error {
	gate, err := a.gate(ctx, slurm.Dependency{Delay: delay}, limits)
	if errors.Is(err, slurm.ErrQueueFull) {
		a.Log("no controller job that checks the run again after %v: %v", delay, err)
		return nil
	}
	if err != nil {
		return err
	}
	return seal.ReplaceJSON(path, gate, a.Attempt)
}

// renewWatchdog submits the next watchdog when this process is the last. It does
// so before anything else: if it is killed at any later step, the next looks.
func (a *Advancer) renewWatchdog(ctx context.Context, limits slurm.Limits) error {
	last, known := readTimed(watchdogPath(a.Run.Dir))
	if !known || last.Tasks()[0].Job != a.Attempt.JobID {
		return nil
	}
	return a.submitWatchdog(ctx, limits)
}

// cancelWatchdog cancels the watchdog of a run that cannot go on by itself.
func (a *Advancer) cancelWatchdog(ctx context.Context, view *jobsView) error {
	if view.watchdog == "" {
		return nil
	}
	return a.Cluster.Cancel(ctx, view.watchdog)
}

// cancelHopeless cancels the jobs that will never start, which releases what
// waits for their end.
func (a *Advancer) cancelHopeless(ctx context.Context, view *jobsView) error {
	var ids []string
	for _, task := range view.states.Hopeless() {
		a.Log("cancelling job %s, which will never start: %s", task, view.states.Of(task).Evidence)
		ids = append(ids, task.String())
	}
	return a.Cluster.Cancel(ctx, ids...)
}

func watchdogPath(d graph.Dir) string { return filepath.Join(d.Jobs(), "watchdog.json") }

func alarmPath(d graph.Dir) string { return filepath.Join(d.Jobs(), "alarm.json") }

func readTimed(path string) (gate slurm.Job, ok bool) {
	content, err := plainfile.Read(path, plainfile.MaxDocument)
	return gate, err == nil && json.Unmarshal(content, &gate) == nil && len(gate.Shards) == 1 && submittedFrom(filepath.Dir(path), gate)
}

// progress is how far the run is, in a line. A survey has gone back to the last version
// that there is.
func (a *Advancer) progress(v *survey.Inventory, live int) string {
	last := a.Run.Recipe.Schedule.Iterations
	learned := last
	for learned > 0 && !v.Done(a.Run.Graph.LastLearn(learned)) {
		learned--
	}
	return fmt.Sprintf("lathe %s: %d of %s learned, %s under way", a.Run.Dir, learned, plural.Count(last, "iteration"), plural.Count(live, "task"))
}
