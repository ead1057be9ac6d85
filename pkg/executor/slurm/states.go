package slurm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// Phase is how far a task has come.
type Phase string

// The phases.
const (
	PhasePending Phase = "pending"
	PhaseRunning Phase = "running"
	PhaseEnded   Phase = "ended"
	PhaseUnknown Phase = "unknown" // nobody knows the task
)

// State is what Slurm says about a task. Whether its work is done is another
// question, which its sealed outputs answer.
type State struct {
	Phase    Phase          `json:"phase"`
	Cause    executor.Cause `json:"cause,omitempty"` // of the end; empty while the task is pending or running
	Exit     int            `json:"exit"`            // exit code; -1 when a signal ended the task or none is known
	Signal   string         `json:"signal,omitempty"`
	Nodes    string         `json:"nodes,omitempty"`
	Restarts int            `json:"restarts"`          // times the task was requeued
	Earlier  []string       `json:"earlier,omitempty"` // how the accounting says that each start before this one ended, the oldest first
	Hopeless bool           `json:"hopeless"`          // it counts as ended and is in the queue still, where it will never start
	Start    time.Time      `json:"start,omitzero"`
	End      time.Time      `json:"end,omitzero"`
	Evidence string         `json:"evidence"` // what was read, and where
}

// States is what Slurm knows about the jobs it was asked for.
type States struct {
	tasks map[TaskID]State
	note  string // why tasks that are not found may still exist
}

// Of returns the state of a task. A task that is nowhere to be seen is
// unknown: neither done nor failed.
func (s States) Of(task TaskID) State {
	if state, found := s.tasks[task]; found {
		return state
	}
	return State{Phase: PhaseUnknown, Cause: executor.CauseUnknown, Exit: -1, Evidence: fmt.Sprintf("job %s: %s", task, s.note)}
}

// Live reports whether a task of the job is pending or running.
func (s States) Live(job Job) bool {
	return slices.ContainsFunc(job.Tasks(), func(t TaskID) bool {
		phase := s.Of(t).Phase
		return phase == PhasePending || phase == PhaseRunning
	})
}

// Hopeless lists the tasks that wait in the queue and will never start.
func (s States) Hopeless() []TaskID {
	var tasks []TaskID
	for task, state := range s.tasks {
		if state.Hopeless {
			tasks = append(tasks, task)
		}
	}
	slices.SortFunc(tasks, func(a, b TaskID) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index)) })
	return tasks
}

// States asks for the tasks of all the jobs at once: the queue, which knows
// what is to come, what runs, and for a while what has ended; then the
// accounting, if there is one, for what the queue has forgotten.
func (c *Cluster) States(ctx context.Context, limits Limits, jobs []Job) (States, error) {
	states := States{tasks: map[TaskID]State{}}
	if len(jobs) == 0 {
		return states, nil
	}
	wanted := map[TaskID]bool{}
	var ids []string
	for _, job := range jobs {
		ids = append(ids, bareID(job.ID))
		for _, task := range job.Tasks() {
			wanted[task] = true
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)

	out, err := c.AskAbout(ctx, ids, "squeue", "-h", "-t", "all", "-O", squeueFields)
	if err != nil {
		return States{}, explain(err)
	}
	if err := states.add("squeue", out, parseSqueue, wanted); err != nil {
		return States{}, err
	}
	states.note = "unknown to squeue"
	if !limits.Accounting {
		states.note += ", and the cluster has no accounting"
		return states, nil
	}
	if len(states.tasks) == len(wanted) && !states.requeued() {
		return states, nil
	}
	out, err = c.AskAbout(ctx, ids, "sacct", "-n", "-X", "-P", "-D", "-o", sacctFields)
	if err != nil {
		if ctx.Err() != nil {
			return States{}, err
		}
		states.note += ", and " + err.Error() // the queue's answer stands without it
		return states, nil
	}
	if err := states.add("sacct", out, parseSacct, wanted); err != nil {
		return States{}, err
	}
	states.note += " and to sacct"
	return states, nil
}

// requeued reports whether a task has had another start, of which the accounting knows
// more.
func (s States) requeued() bool {
	for _, state := range s.tasks {
		if state.Restarts > 0 {
			return true
		}
	}
	return false
}

// add reads a command's output and keeps what it says about wanted tasks. What is known
// of a task holds, and what the starts before it came to is added. Of several lines about
// one task, which sacct has for each time that it was requeued, the last is its state.
func (s *States) add(source, out string, parse func(string) ([]record, error), wanted map[TaskID]bool) error {
	records, err := parse(out)
	if err != nil {
		return err
	}
	starts := map[TaskID][]record{}
	for _, r := range records {
		for _, task := range r.tasks {
			if wanted[task] {
				starts[task] = append(starts[task], r)
			}
		}
	}
	for task, records := range starts {
		state, known := s.tasks[task]
		if known {
			records = records[:min(state.Restarts, len(records))]
		} else {
			last := len(records) - 1
			records[last].restarts = max(records[last].restarts, last)
			state, records = stateOf(records[last], source), records[:last]
		}
		for _, r := range records {
			state.Earlier = append(state.Earlier, strings.TrimSuffix(r.state+" on "+r.nodes, " on "))
		}
		if len(state.Earlier) > 0 {
			state.Evidence += ", after " + strings.Join(state.Earlier, ", ")
		}
		s.tasks[task] = state
	}
	return nil
}

// stateOf is what a record means.
func stateOf(r record, source string) State {
	state := State{Exit: -1, Nodes: r.nodes, Restarts: r.restarts, Start: r.start, Evidence: r.evidence(source)}
	state.Phase = phaseOf(r)
	if state.Phase != PhaseEnded {
		if state.Phase == PhasePending {
			state.Start = time.Time{} // squeue gives the expected start
		}
		if state.Phase == PhaseUnknown {
			state.Cause = executor.CauseUnknown
		}
		return state
	}
	state.End = r.end
	state.Hopeless = phaseOfState(r.state) == PhasePending
	switch {
	case r.signal != 0:
		state.Signal = executor.SignalName(syscall.Signal(r.signal))
	case !neverRan(r):
		state.Exit = r.code
	}
	state.Cause = causeOf(r)
	return state
}

func (r record) evidence(source string) string {
	text := source + ": " + r.state
	if r.reason != "" {
		text += ", reason " + r.reason
	}
	if r.code != 0 || r.signal != 0 {
		text += fmt.Sprintf(", exit code %d:%d", r.code, r.signal)
	}
	if r.restarts > 0 {
		text += ", requeued " + plural.Count(r.restarts, "time")
	}
	if r.nodes != "" {
		text += ", on " + r.nodes
	}
	return text
}

// neverRan reports that a task has no exit code because it did not run.
func neverRan(r record) bool {
	return r.start.IsZero() || phaseOfState(r.state) == PhasePending || (r.nodes == "" && r.state == "CANCELLED")
}

func phaseOf(r record) Phase {
	phase := phaseOfState(r.state)
	if phase == PhasePending && hopeless(r.reason) != "" {
		return PhaseEnded
	}
	return phase
}

// phaseOfState maps every job state of Slurm to a phase.
func phaseOfState(state string) Phase {
	switch state {
	case "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "POWER_UP_NODE":
		return PhasePending
	case "RUNNING", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED", "UPDATE_DB", "LAUNCH_FAILED", "RECONFIG_FAIL":
		return PhaseRunning
	case "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "REVOKED":
		return PhaseEnded
	}
	return PhaseUnknown
}

// hopeless is the cause for which a pending job will never start; empty when
// it may. Slurm leaves such jobs in the queue for ever. One that a person holds
// (JobHeldUser, JobHeldAdmin, requeued in held state) waits for that person.
func hopeless(reason string) executor.Cause {
	switch reason {
	case "DependencyNeverSatisfied":
		return executor.CauseFailed
	case "JobHoldMaxRequeue", "launch_failed_requeued_held", "launch failed requeued held":
		return executor.CauseLaunchFailed
	}
	return ""
}

// cannotOpen is the signal number that slurmd reports when it could not enter
// the job's folder or open its log.
const cannotOpen = 53

// causeOf is the cause of the end of a task.
func causeOf(r record) executor.Cause {
	if cause := hopeless(r.reason); cause != "" {
		return cause
	}
	if r.state != "FAILED" {
		return cmp.Or(causeOfState[r.state], executor.CauseUnknown)
	}
	if r.signal == cannotOpen {
		return executor.CauseLaunchFailed
	}
	cause, _ := executor.CauseOf(r.code, syscall.Signal(r.signal))
	if cause == executor.CauseOK { // FAILED and 0:0: whatever it was, it was not that
		return executor.CauseFailed
	}
	return cause
}

// causeOfState is the cause that a state says by itself.
var causeOfState = map[string]executor.Cause{
	"COMPLETED": executor.CauseOK, "TIMEOUT": executor.CauseTimeout, "DEADLINE": executor.CauseTimeout, "PREEMPTED": executor.CausePreempted,
	"NODE_FAIL": executor.CauseNodeFail, "BOOT_FAIL": executor.CauseLaunchFailed, "OUT_OF_MEMORY": executor.CauseOutOfMemory,
	"CANCELLED": executor.CauseCancelled, "REVOKED": executor.CauseCancelled,
}
