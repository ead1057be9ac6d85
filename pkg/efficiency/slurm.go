package efficiency

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
)

// slurmReport is what Slurm reports of the jobs of a run.
type slurmReport struct {
	starts map[string][]start // by JOB_TASK
	user   string
	// cause is what a task's record says ended it after a while; nil where Slurm was not
	// asked.
	cause func(t graph.Task, record rundir.ExitRecord, minutes int, ran time.Duration) (executor.Cause, string)
}

// start is one start of a job: one that was requeued has several.
type start struct {
	begin, end  time.Time
	disposition string // empty where it is the task that knows
	evidence    string
}

// startSkew is how far a node's clock may be behind the controller's, which counts in
// whole seconds; endSkew is how long after a task the job that it ran in may end.
const (
	startSkew = 5 * time.Second
	endSkew   = time.Minute
)

// of is what Slurm says of an attempt: a monitor begins after the start that it is of.
// A job that is not the task's alone speaks of those only that ended with it.
func (t slurmReport) of(a Attempt, alone bool) (start, bool) {
	var found start
	for _, s := range t.starts[a.Job] {
		if !s.begin.After(a.Start.Add(startSkew)) && !s.begin.Before(found.begin) {
			found = s
		}
	}
	return found, found.disposition != "" && (alone || found.end.Sub(a.end()) < endSkew)
}

// dispositionOfCause has the causes that say what was done to a task.
var dispositionOfCause = map[executor.Cause]string{
	executor.CausePreempted: dispositionPreempted, executor.CauseTimeout: dispositionTimeout, executor.CauseNodeFail: dispositionNodeFail,
	executor.CauseOutOfMemory: dispositionMemory, executor.CauseCancelled: dispositionCancelled,
}

// dispositionOfState has the states of Slurm that do.
var dispositionOfState = map[string]string{
	"PREEMPTED": dispositionPreempted, "TIMEOUT": dispositionTimeout, "DEADLINE": dispositionTimeout, "NODE_FAIL": dispositionNodeFail, "OUT_OF_MEMORY": dispositionMemory,
	"CANCELLED": dispositionCancelled, "REVOKED": dispositionCancelled, "REQUEUED": dispositionRequeued,
}

// ask asks Slurm about the jobs of attempts whose outputs are not the run's: its
// accounting for every start of each, then, as lathe logs does, for what the run has
// submitted, which the queue knows for a while where no accounts are kept.
func ask(ctx context.Context, a *advance.Advancer, attempts []Attempt, outputs []output) (slurmReport, error) {
	t := slurmReport{starts: map[string][]start{}, cause: a.CauseOfRecord}
	lost, jobs := map[graph.Task]bool{}, map[string]bool{}
	for i, attempt := range attempts {
		// Whose jobs they are, any of them says.
		if job, _, _ := strings.Cut(attempt.Job, "_"); attempt.ofSlurm() && (!outputs[i].kept || len(jobs) == 0) {
			jobs[job] = true
		}
		if outputs[i].known && !outputs[i].kept {
			lost[outputs[i].task] = true
		}
	}
	limits, err := a.Cluster.Limits(ctx)
	if err != nil {
		return t, err
	}
	if limits.Accounting && len(jobs) > 0 {
		out, err := a.Cluster.AskAbout(ctx, slices.Sorted(maps.Keys(jobs)), "sacct", "-n", "-X", "-P", "-D", "-o", "JobID,State,Start,End,User")
		if err != nil {
			return t, err
		}
		t.takeAccounts(out)
	}
	submitted, err := advance.Attempts(ctx, a, func(task graph.Task) bool { return lost[task] })
	if err != nil {
		return t, err
	}
	for _, s := range submitted {
		t.takeSubmission(s)
	}
	return t, nil
}

// takeAccounts reads what sacct prints of JobID, State, Start, End and User. What
// has not begun, tasks of an array in one line among it, is passed over.
func (t *slurmReport) takeAccounts(out string) {
	users := map[string]bool{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 5 {
			continue
		}
		if fields[4] != "" {
			users[fields[4]] = true
		}
		state, _, _ := strings.Cut(fields[1], " ") // CANCELLED by 1000
		begin, end := secondsSince1970(fields[2]), secondsSince1970(fields[3])
		if begin.IsZero() {
			continue
		}
		job := jobTask(fields[0])
		t.starts[job] = append(t.starts[job], start{begin, end, dispositionOfState[state], "sacct: " + state})
	}
	t.user = strings.Join(slices.Sorted(maps.Keys(users)), ", ")
}

// takeSubmission adds what is known of the last start of a job that the run submitted.
func (t *slurmReport) takeSubmission(s advance.Attempt) {
	disposition := dispositionOfCause[s.Cause]
	switch {
	case s.State.Start.IsZero() || s.Cause == "":
		return
	case disposition == "" && s.State.Cause == executor.CauseCancelled: // and it had time to say that it stops
		disposition = dispositionCancelled
	case disposition == "" && s.State.Signal == "SIGKILL":
		disposition = dispositionKilled
	}
	if disposition == "" {
		return
	}
	job := jobTask(s.Job)
	t.starts[job] = append(t.starts[job], start{s.State.Start, s.State.End, disposition, s.Evidence})
}

// jobTask is the name of a job as manifests have it: JOB_TASK, with 0 for a job that is
// no array.
func jobTask(id string) string {
	if strings.Contains(id, "_") {
		return id
	}
	return id + "_0"
}

// secondsSince1970 reads a time as package slurm asks for it; Unknown is the zero time.
func secondsSince1970(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// readState says how far the run is, as lathe status does, and with which exit code
// what has ended did.
func (r *Report) readState(ctx context.Context, run *rundir.Run, a *advance.Advancer, unasked error) error {
	var seen *advance.Seen
	if a != nil && advance.HasSubmissions(run.Dir) {
		var s advance.Seen
		if s, unasked = advance.SeeJobs(ctx, a); unasked == nil {
			seen = &s
		}
	}
	s, err := status.Read(ctx, run, seen, unasked)
	if err != nil {
		return ctx.Err() // lathe status says what is wrong with the run; its samples are as they are
	}
	r.State = string(s.State)
	if s.Paused != "" {
		r.State += ", " + s.Paused
	}
	switch s.State {
	case status.StateDone:
		if code := exitcode.Code(closing.LeftOut(ctx, run)); code == exitcode.OK || code == exitcode.LeftOut {
			r.Exit = &code
		}
	case status.StateFailed:
		for _, record := range rundir.ReadExitRecords(run.Dir) { // the last holds
			if record.Code != exitcode.Stopped {
				r.Exit = &record.Code
			}
		}
	}
	return ctx.Err()
}
