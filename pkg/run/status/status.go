// Package status says what is known about a run: done, running, failed or
// unknown, with the evidence.
package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// State is what is known about a run or a stage of it. It is never guessed.
type State string

// The states.
const (
	StatePending State = "pending" // nothing of it runs
	StateRunning State = "running"
	StateDone    State = "done"   // sealed
	StateFailed  State = "failed" // its attempts are used up
	StateStuck   State = "stuck"  // nothing of it runs, and the controller job that should have submitted more could not
	StateUnknown State = "unknown"
)

// Status is a run as lathe status shows it.
type Status struct {
	Run        string        `json:"run"`
	RunID      string        `json:"run_id"`
	Name       string        `json:"name"`
	State      State         `json:"state"`
	Evidence   string        `json:"evidence"`
	Iterations int           `json:"iterations"`
	Lineage    []string      `json:"lineage,omitempty"` // what the run comes from, the last first
	Learned    int           `json:"iterations_learned"`
	Mix        string        `json:"environments,omitempty"` // names and weights of several
	Executor   string        `json:"executor,omitempty"`
	Stuck      string        `json:"stuck,omitempty"`  // why nobody could submit what is ready
	Paused     string        `json:"paused,omitempty"` // by whom and since when nothing more is started
	Stages     []StageStatus `json:"stages"`
	Waits      []rundir.Wait `json:"waits,omitempty"`     // tasks that a slow program of the user's keeps waiting
	Sandboxes  []string      `json:"sandboxes,omitempty"` // that programs ran under, of the policy or of your own
	Warnings   []string      `json:"warnings,omitempty"`  // what a result would suffer from
}

// StageStatus counts the tasks of a stage over the whole run.
type StageStatus struct {
	Stage    graph.Stage `json:"stage"`
	State    State       `json:"state"`
	Evidence string      `json:"evidence"`
	Total    int         `json:"total"`
	Done     int         `json:"done"`
	Running  int         `json:"running"`
	Pending  int         `json:"pending"`
	Failed   int         `json:"failed"`
	Unknown  int         `json:"unknown"`
}

// Read looks at the files of a run, at the driver's heartbeat, and at
// what seen says about its jobs (nil when Slurm was not asked; seenErr when it
// did not answer).
func Read(ctx context.Context, r *rundir.Run, seen *advance.Seen, seenErr error) (Status, error) {
	s := Status{
		Run: string(r.Dir), RunID: r.Identity.RunID, Name: r.Identity.Name, Iterations: r.Recipe.Schedule.Iterations,
		Lineage: r.Lineage(),
	}
	if r.Recipe.Env.Mix() != nil {
		s.Mix = r.Recipe.Env.String()
	}
	if seen == nil {
		seen = &advance.Seen{}
	}
	surveyor := survey.New(r.Graph)
	found, err := s.survey(ctx, r, surveyor, seen, seenErr)
	if err != nil {
		return Status{}, err
	}
	if s.State == StateFailed && seen.Failed == nil {
		seen = &advance.Seen{Failed: failuresHere(r)}
	}
	for k := 1; k <= s.Iterations && ctx.Err() == nil; k++ {
		if done, _ := surveyor.Made(ctx, graph.Task{Node: r.Graph.LastLearn(k)}); done {
			s.Learned = k
		}
	}
	for _, stage := range graph.Stages() {
		if st, ok := stageStatus(ctx, r, surveyor.Inventory, found, stage, seen); ok {
			s.Stages = append(s.Stages, st)
		}
	}
	if err := ctx.Err(); err != nil {
		return Status{}, err
	}
	s.Sandboxes = surveyor.Sandboxes()
	s.Warnings = shard.Rooms{Training: surveyor.Room(graph.StageRollout), Evaluation: surveyor.Room(graph.StageEvalRollout)}.Warnings()
	if s.State != StateDone {
		s.Waits = rundir.ReadWaits(r.Dir, time.Now())
	}
	return s, nil
}

// ReadState is what [Read] says of the run as a whole when Slurm is not
// asked, without a look at every task.
func ReadState(ctx context.Context, r *rundir.Run) (State, error) {
	var s Status
	_, err := s.survey(ctx, r, survey.New(r.Graph), &advance.Seen{}, nil)
	return s.State, err
}

// survey looks at the files of the run and concludes its state.
func (s *Status) survey(ctx context.Context, r *rundir.Run, surveyor *survey.Surveyor, seen *advance.Seen, seenErr error) (survey.Result, error) {
	found, err := surveyor.Survey(ctx)
	if err == nil {
		s.conclude(r, found, seen, seenErr)
	}
	return found, err
}

func stageStatus(ctx context.Context, r *rundir.Run, v *survey.Inventory, found survey.Result, stage graph.Stage, seen *advance.Seen) (StageStatus, bool) {
	st := StageStatus{Stage: stage}
	lost := 0     // outputs that nothing still to be done needs
	waiting := "" // why a task waits, in Slurm's words
	for _, n := range r.Graph.Nodes() {
		if n.Stage != stage {
			continue
		}
		for shard := range r.Graph.Shards(n) {
			if ctx.Err() != nil {
				return st, false
			}
			t := graph.Task{Node: n, Shard: shard}
			if exists, err := v.Exists(ctx, t); err == nil && !exists {
				continue // as far as is known nothing waits for this wave
			}
			st.Total++
			done, err := v.Made(ctx, t)
			switch {
			case err != nil:
				st.Unknown++
				st.Evidence = err.Error()
			case done || leftOut(ctx, v, t):
				st.Done++
			case found.Done && (t.Stage == graph.StageRollout || t.Stage == graph.StageScore):
				st.Done++ // late for good
			case found.Done:
				lost++
			case seen.Failed[t] != "":
				st.Failed++
				st.Evidence = seen.Failed[t]
			case seen.Running[t] != "":
				st.Running++
				st.Evidence = seen.Running[t]
			case seen.Unknown[t] != "" && seen.Pending[t] == "":
				st.Unknown++
				st.Evidence = seen.Unknown[t]
			default:
				st.Pending++
				waiting = cmp.Or(waiting, seen.Pending[t])
			}
		}
	}
	switch {
	case st.Total == 0:
		return st, false
	case st.Failed > 0:
		st.State = StateFailed
	case st.Done == st.Total:
		st.State, st.Evidence = StateDone, "every output is sealed"
	case lost > 0 && st.Done+lost == st.Total:
		st.State, st.Evidence = StateDone, fmt.Sprintf("%d of %d sealed; nothing still to be done needs what is missing: see lathe verify", st.Done, st.Total)
	case st.Running > 0:
		st.State = StateRunning
	case st.Unknown > 0:
		st.State = StateUnknown
	default:
		st.State, st.Evidence = StatePending, waiting
	}
	st.Evidence = cmp.Or(st.Evidence, fmt.Sprintf("%d of %d sealed", st.Done, st.Total))
	return st, true
}

// leftOut reports whether a rollout or score shard that is not sealed belongs to
// an iteration that was closed without it for good.
func leftOut(ctx context.Context, v *survey.Inventory, t graph.Task) bool {
	if t.Stage != graph.StageRollout && t.Stage != graph.StageScore {
		return false
	}
	closing, known, err := v.Closing(ctx, t.Iteration)
	if err != nil || !known {
		return false
	}
	dropped, err := v.Dropped(ctx, t)
	return closing.Lost(t.Shard) || dropped && err == nil
}

// conclude derives the state of the run from the evidence at hand.
func (s *Status) conclude(r *rundir.Run, found survey.Result, seen *advance.Seen, seenErr error) {
	heartbeat, has := readHeartbeat(r.Dir)
	running, known, evidence := false, true, ""
	if has {
		s.Executor = heartbeat.Executor
		running, known, evidence = heartbeat.alive(time.Now())
	}
	if advance.HasSubmissions(r.Dir) && !running {
		s.Executor = "slurm"
	}
	stuck, isStuck := advance.ReadStuck(r.Dir)
	if isStuck && !found.Done && !running && !heartbeat.Beat.After(stuck.Time) {
		s.Stuck = stuck.String()
	}
	tasks := len(seen.Running) + len(seen.Pending)
	switch {
	case found.Done:
		s.State, s.Evidence = StateDone, "every goal is sealed"
	case s.Stuck != "" && tasks == 0:
		s.State, s.Evidence = StateStuck, s.Stuck
		if seen.Gates > 0 {
			s.Evidence += "; " + plural.Count(seen.Gates, "controller job") + " waiting to try again"
		}
		s.Evidence += "; when the cause is fixed: lathe advance " + string(r.Dir)
	case running:
		s.State, s.Evidence = StateRunning, evidence
	case seenErr != nil:
		s.State, s.Evidence = StateUnknown, fmt.Sprintf("Slurm was asked about the submitted jobs and did not answer: %v", seenErr)
	case len(seen.Running) > 0:
		s.State, s.Evidence = StateRunning, fmt.Sprintf("%s running, %d in the queue", plural.Count(len(seen.Running), "task"), len(seen.Pending))
	case len(seen.Pending) > 0 || seen.Gates > 0:
		s.State, s.Evidence = StatePending, fmt.Sprintf("%s and %s in the queue", plural.Count(len(seen.Pending), "task"), plural.Count(seen.Gates, "controller job"))
	case len(seen.Failed) > 0:
		s.State, s.Evidence = StateFailed, anyOf(seen.Failed)
	case seen.Fallen != "":
		s.State, s.Evidence = StateStuck, seen.Fallen+"; see lathe logs "+string(r.Dir)+" --stage gate; when the cause is fixed: lathe advance "+string(r.Dir)
	case len(seen.Unknown) > 0:
		s.State, s.Evidence = StateUnknown, anyOf(seen.Unknown)
	case !known:
		s.State, s.Evidence = StateUnknown, evidence
	default:
		s.State, s.Evidence = StatePending, "nothing runs; resume with: lathe run --run "+string(r.Dir)
		if s.Executor == "slurm" {
			s.Evidence = "nothing is in the queue; resume with: lathe advance " + string(r.Dir)
		}
		if heartbeat.Ended && heartbeat.Failure != "" {
			s.State, s.Evidence = StateFailed, heartbeat.Failure
		}
	}
	if s.Stuck != "" && tasks > 0 {
		s.Evidence += "; " + s.Stuck
	}
	if p, paused := rundir.ReadPause(r.Dir); paused && s.State != StateDone {
		s.Paused = p.String()
		if s.State == StatePending {
			s.Evidence = "nothing runs"
		}
		s.Evidence += "; " + s.Paused + ", the command that started the run resumes it"
	}
}

// failuresHere are the last words of the tasks that failed under the last
// foreground driver.
func failuresHere(r *rundir.Run) map[graph.Task]string {
	h, _ := readHeartbeat(r.Dir)
	said := map[string]string{} // by the task's name
	for _, record := range rundir.ReadExitRecords(r.Dir) {
		if record.Code != exitcode.Stopped && !record.Time.Before(h.Started) {
			said[record.Task] = record.Message
		}
	}
	failed := map[graph.Task]string{}
	for _, n := range r.Graph.Nodes() {
		for shard := range r.Graph.Shards(n) {
			t := graph.Task{Node: n, Shard: shard}
			if message, is := said[t.String()]; is {
				failed[t] = message
			}
		}
	}
	return failed
}

func anyOf(m map[graph.Task]string) string {
	best := slices.MinFunc(slices.Collect(maps.Keys(m)), func(a, b graph.Task) int { return cmp.Compare(a.String(), b.String()) })
	return fmt.Sprintf("%s: %s", best, m[best])
}

// Print writes the status as a table.
func (s Status) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s): %s, %d of %s learned\n  %s\n", s.Run, s.RunID, s.State, s.Learned, plural.Count(s.Iterations, "iteration"), s.Evidence)
	for _, line := range s.Lineage {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if s.Mix != "" {
		fmt.Fprintf(w, "  environments: %s\n", s.Mix)
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "STAGE\tSTATE\tDONE\tRUNNING\tPENDING\tFAILED\tUNKNOWN\tEVIDENCE")
	for _, st := range s.Stages {
		fmt.Fprintf(table, "%s\t%s\t%d/%d\t%d\t%d\t%d\t%d\t%s\n",
			st.Stage, st.State, st.Done, st.Total, st.Running, st.Pending, st.Failed, st.Unknown, st.Evidence)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, wait := range s.Waits {
		fmt.Fprintf(w, "%s waits on %s: %s\n", wait.Task, wait.Host, wait.Message)
	}
	for _, sandbox := range s.Sandboxes {
		fmt.Fprintf(w, "programs ran under: %s\n", sandbox)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return nil
}
