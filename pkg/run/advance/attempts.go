package advance

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
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

// causeOf says why an attempt at a task that Slurm saw end has not done its
// work. What Slurm did to it, Slurm knows best; else the task has left a record
// of its own.
func (a *Advancer) causeOf(t graph.Task, s Submission, state slurm.State) (cause executor.Cause, evidence string) {
	switch state.Cause {
	case executor.CauseTimeout, executor.CauseOutOfMemory, executor.CauseNodeFail, executor.CausePreempted, executor.CauseLaunchFailed:
		return state.Cause, state.Evidence
	}
	record, ok := rundir.ReadExitRecord(a.Run.Dir, t, s.Attempt, state.Restarts)
	if !ok && state.Signal == "SIGKILL" {
		if line := memoryLine(a.Run.Dir.Log(t, s.Attempt)); line != "" {
			return executor.CauseOutOfMemory, line
		}
	}
	if !ok {
		return state.Cause, state.Evidence
	}
	var ran time.Duration
	if !state.Start.IsZero() {
		ran = state.End.Sub(state.Start)
	}
	return a.CauseOfRecord(t, record, s.Minutes, ran)
}

// CauseOfRecord is what a task's own record of its end says, after it had run for a
// while; minutes are those that it had asked for, 0 for what the recipe says. Of what
// told it to stop it knows the signal: SIGUSR2 is what the job script has Slurm send
// before the time limit, and before a preemption where the site has Slurm warn
// (SlurmctldParameters=preempt_send_user_signal).
func (a *Advancer) CauseOfRecord(t graph.Task, record rundir.ExitRecord, minutes int, ran time.Duration) (cause executor.Cause, evidence string) {
	cause, evidence = record.Cause(), record.Message
	minutes = cmp.Or(minutes, a.Run.Graph.Request(t.Stage).Minutes)
	told := slurm.ToldToStop(minutes, a.Site.Site)
	switch {
	case cause != executor.CauseStopped:
	case told > 0 && ran >= told:
		return executor.CauseTimeout, fmt.Sprintf("%s, when its time (resources.stages.%s.minutes: %d) was nearly over", evidence, t.Stage, minutes)
	case record.Signal == "SIGUSR2":
		return executor.CausePreempted, evidence + " of Slurm's, long before its time was over"
	}
	return cause, evidence
}

// memoryLine is what slurmstepd wrote at the end of a task's log when it killed the task
// for its memory; empty when it did not. Where memory is watched by accounting samples
// and not by a control group (JobAcctGatherParams=OverMemoryKill), or where the kernel
// killed but a child, the job's state is FAILED, as of any SIGKILL, and the log alone
// says why.
func memoryLine(log string) string {
	const most = 8 << 10
	file, size, err := plainfile.Open(log)
	if err != nil {
		return ""
	}
	defer file.Close()
	end := make([]byte, min(size, most))
	n, _ := file.ReadAt(end, size-int64(len(end)))
	for line := range strings.Lines(string(end[:n])) {
		if !strings.HasPrefix(line, "slurmstepd") {
			continue
		}
		for _, words := range []string{"exceeded memory limit", "oom_kill event", "oom-kill event"} {
			if strings.Contains(line, words) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
