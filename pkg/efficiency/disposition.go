package efficiency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The dispositions of an attempt.
const (
	dispositionKept      = "kept"          // its outputs are the run's
	dispositionPreempted = "preempted"     //
	dispositionTimeout   = "timeout"       //
	dispositionNodeFail  = "node_fail"     //
	dispositionMemory    = "out_of_memory" //
	dispositionCancelled = "cancelled"     //
	dispositionRequeued  = "requeued"      //
	dispositionStopped   = "stopped"       //
	dispositionFailed    = "failed"        //
	dispositionKilled    = "killed"        //
	dispositionLate      = "late"          //
	dispositionOpen      = "running"       // its task has no outputs yet, and no later attempt
	dispositionUnknown   = "unknown"       // it is of no task of the run
)

// causeStraggler is a loss of attempts that were kept.
const causeStraggler = "straggler"

// What is lost is lost to one of these.
const (
	toPreemption = "preemption"
	toRetries    = "retries"
	toStragglers = "stragglers"
)

// causes are those of losses, in the order of the table.
var causes = []struct{ to, name, means string }{
	{toPreemption, dispositionPreempted, "preempted by a job of higher priority"},
	{toRetries, dispositionTimeout, "the time limit was exceeded"},
	{toRetries, dispositionNodeFail, "the node failed"},
	{toRetries, dispositionMemory, "out of memory"},
	{toRetries, dispositionCancelled, "a person or Lathe cancelled it"},
	{toRetries, dispositionRequeued, "Slurm requeued the job, for an unknown reason"},
	{toRetries, dispositionStopped, "by a signal from an unknown sender"},
	{toRetries, dispositionFailed, "the program reported an error"},
	{toRetries, dispositionKilled, "ended without a message: SIGKILL, lack of memory, or a node failure"},
	{toStragglers, dispositionLate, "the run continued without it"},
	{toStragglers, causeStraggler, "slowest task of each array, its time beyond the median"},
}

// end is when the last sample of an attempt was taken.
func (a Attempt) end() time.Time { return a.Start.Add(time.Duration(a.Seconds * float64(time.Second))) }

// ofSlurm reports whether an attempt is of a job of Slurm: others have the names that
// package seal gives them.
func (a Attempt) ofSlurm() bool { return a.Job != "" && a.Job[0] >= '0' && a.Job[0] <= '9' }

// output is what is sealed of an attempt's task.
type output struct {
	task  graph.Task
	known bool      // it is of a task of the run
	kept  bool      // this attempt has sealed it
	at    time.Time // when somebody did; zero for nobody
}

// readOutputs looks at the outputs of the task of each attempt.
func readOutputs(ctx context.Context, r *rundir.Run, attempts []Attempt) ([]output, error) {
	outputs := make([]output, len(attempts))
	for i, a := range attempts {
		o := &outputs[i]
		if o.task, o.known = parseTask(a.Task); !o.known || r.Graph.Check(o.task) != nil {
			continue
		}
		for _, path := range r.Graph.Outputs(o.task) {
			m, err := seal.Record(ctx, path)
			switch {
			case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
				continue
			case err != nil:
				return nil, err
			}
			o.kept = o.kept || m.Attempt == a.Number && m.Job == a.Job
			if o.at.IsZero() || m.Ended.Before(o.at) {
				o.at = m.Ended
			}
		}
	}
	return outputs, nil
}

// evidence is what is known of how the attempts of a run ended.
type evidence struct {
	slurm   slurmReport
	records map[string][]rundir.ExitRecord // by task and attempt, the oldest first
	pause   rundir.Pause
	tasks   map[string]map[string]bool // of each job
	again   map[string]int             // the last attempt of a job, by task and job
	latest  map[string]int             // the last attempt at a task
}

// decide says what became of each attempt.
func decide(ctx context.Context, r *rundir.Run, attempts []Attempt, outputs []output, t slurmReport) error {
	e := gather(rundir.ReadExitRecords(r.Dir), attempts, t)
	e.pause, _ = rundir.ReadPause(r.Dir)
	inventory := survey.NewInventory(r.Graph)
	for i := range attempts {
		a, o := &attempts[i], outputs[i]
		if !o.known {
			a.Disposition = dispositionUnknown
			continue
		}
		dropped := false
		if r.Graph.Check(o.task) == nil {
			var err error
			if dropped, err = inventory.Dropped(ctx, o.task); err != nil {
				return err
			}
		}
		a.Disposition, a.Evidence = e.disposition(*a, o, dropped)
		if reported, heard := e.reported(*a); heard && a.Disposition != dispositionKept && reported.end.After(a.end()) {
			a.heldUntil(reported.end)
		}
	}
	return nil
}

func gather(records []rundir.ExitRecord, attempts []Attempt, t slurmReport) evidence {
	e := evidence{slurm: t, records: map[string][]rundir.ExitRecord{}, tasks: map[string]map[string]bool{}, again: map[string]int{}, latest: map[string]int{}}
	for _, record := range records {
		name := fmt.Sprintf("%s.%d", record.Task, record.Attempt)
		e.records[name] = append(e.records[name], record)
	}
	for _, a := range attempts {
		if e.tasks[a.Job] == nil {
			e.tasks[a.Job] = map[string]bool{}
		}
		e.tasks[a.Job][a.Task] = true
		e.again[a.Task+" "+a.Job] = max(e.again[a.Task+" "+a.Job], a.Number)
		e.latest[a.Task] = max(e.latest[a.Task], a.Number)
	}
	return e
}

// record is what an attempt has left of its failure.
func (e evidence) record(a Attempt) (rundir.ExitRecord, bool) {
	for _, record := range e.records[fmt.Sprintf("%s.%d", a.Task, a.Number)] {
		if !record.Time.Before(a.Start) || record.Time.IsZero() {
			return record, true
		}
	}
	return rundir.ExitRecord{}, false
}

// alone reports whether an attempt had its job for itself. A job that many tasks ran in
// is one that somebody holds: its end says nothing of those that had ended before, nor
// is it requeued for one of them.
func (e evidence) alone(a Attempt) bool { return len(e.tasks[a.Job]) == 1 }

// reported is what Slurm reports of an attempt.
func (e evidence) reported(a Attempt) (start, bool) { return e.slurm.of(a, e.alone(a)) }

// disposition is that of an attempt by what Slurm did to it, else by what it reported
// itself, else by what followed. dropped is true where its iteration was closed
// without its task for good.
func (e evidence) disposition(a Attempt, o output, dropped bool) (disposition, why string) {
	record, recorded := e.record(a)
	reported, heard := e.reported(a)
	_, byKill := executor.CauseOf(0, syscall.SIGKILL)
	if recorded && (!heard || reported.disposition == dispositionRequeued) && e.slurm.cause != nil { // it may know for what
		if cause, evidence := e.slurm.cause(o.task, record, 0, record.Time.Sub(a.Start)); dispositionOfCause[cause] != "" {
			reported.disposition, reported.evidence, heard = dispositionOfCause[cause], evidence, true
		}
	}
	switch {
	case o.kept && dropped:
		return dispositionLate, "its iteration was closed without it"
	case o.kept:
		return dispositionKept, ""
	case heard:
		disposition, why = reported.disposition, reported.evidence
	case recorded && strings.HasPrefix(record.Message, byKill):
		disposition, why = dispositionKilled, record.Message
	case recorded && record.Code != exitcode.Stopped:
		disposition, why = dispositionFailed, record.Message
	case a.ofSlurm() && e.alone(a) && e.again[a.Task+" "+a.Job] > a.Number:
		disposition, why = dispositionRequeued, "a later start of the same job"
	case recorded:
		disposition, why = dispositionStopped, record.Message
	case e.latest[a.Task] > a.Number:
		disposition, why = dispositionKilled, "a later attempt at the task"
	case !o.at.IsZero():
		return dispositionLate, "another attempt sealed first"
	default:
		return dispositionOpen, ""
	}
	switch {
	case disposition == dispositionKilled && a.parts.of("", monitor.CgroupOOMKills).grown > 0:
		return dispositionMemory, "its control group counts kills for lack of memory"
	case disposition != dispositionCancelled && disposition != dispositionStopped:
	case !o.at.IsZero() && o.at.Before(a.end()):
		return dispositionLate, "another attempt sealed first"
	case dropped:
		return dispositionLate, "its iteration was closed without it"
	case e.pause.Stops(o.task.Node) && !a.end().Before(e.pause.Since):
		return dispositionCancelled, "the run was " + e.pause.String()
	}
	return disposition, why
}
