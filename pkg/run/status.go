package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// State is what is known about a run or a stage of it. It is never guessed.
type State string

// The states.
const (
	StatePending State = "pending" // nothing of it runs
	StateRunning State = "running"
	StateDone    State = "done"   // sealed
	StateFailed  State = "failed" // its attempts are used up
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
	Learned    int           `json:"iterations_learned"`
	Executor   string        `json:"executor,omitempty"`
	Stages     []StageStatus `json:"stages"`
}

// StageStatus counts the tasks of a stage over the whole run.
type StageStatus struct {
	Stage    Stage  `json:"stage"`
	State    State  `json:"state"`
	Evidence string `json:"evidence"`
	Total    int    `json:"total"`
	Done     int    `json:"done"`
	Running  int    `json:"running"`
	Pending  int    `json:"pending"`
	Failed   int    `json:"failed"`
	Unknown  int    `json:"unknown"`
}

// Seen is what a batch system says about the submitted tasks of a run.
type Seen struct {
	Running, Pending, Failed, Unknown map[Task]string // evidence by task
	Gates                             int             // that wait or run
}

// SeeJobs asks Slurm about the submitted tasks of a run.
func SeeJobs(ctx context.Context, a *Advancer) (Seen, error) {
	seen := Seen{Running: map[Task]string{}, Pending: map[Task]string{}, Failed: map[Task]string{}, Unknown: map[Task]string{}}
	limits, err := a.Cluster.Limits(ctx)
	if err != nil {
		return seen, err
	}
	planner := NewPlanner(a.Run.Graph)
	view, err := a.look(ctx, planner, limits)
	if err != nil {
		return seen, err
	}
	seen.Gates = view.gates
	for _, s := range view.submissions {
		for _, job := range s.Jobs {
			for i, id := range job.Tasks() {
				t := Task{s.Node(), job.Shards[i]}
				state := view.states.Of(id)
				text := fmt.Sprintf("job %s: %s", id, state.Evidence)
				switch string(state.Phase) {
				case "running":
					seen.Running[t] = text
				case "pending":
					seen.Pending[t] = text
				case "unknown":
					seen.Unknown[t] = text
				}
				if view.failures[t] >= a.Run.Recipe.Schedule.MaxAttempts {
					seen.Failed[t] = view.evidence[t]
				}
			}
		}
	}
	return seen, nil
}

// HasSubmissions reports whether a run was ever handed to Slurm.
func HasSubmissions(d Dir) bool {
	all, err := readSubmissions(d)
	return err == nil && len(all) > 0
}

// ReadStatus looks at the files of a run, at the driver's heartbeat, and at
// what seen says about its jobs (nil when Slurm was not asked; seenErr when it
// did not answer).
func ReadStatus(ctx context.Context, r *Run, seen *Seen, seenErr error) (Status, error) {
	s := Status{
		Run: string(r.Dir), RunID: r.Identity.RunID, Name: r.Identity.Name, Iterations: r.Recipe.Schedule.Iterations,
	}
	if seen == nil {
		seen = &Seen{}
	}
	planner := NewPlanner(r.Graph)
	survey, err := s.survey(ctx, r, planner, seen, seenErr)
	if err != nil {
		return Status{}, err
	}
	if s.State == StateFailed && seen.Failed == nil {
		seen = &Seen{Failed: failuresHere(r)}
	}
	for k := 1; k <= s.Iterations; k++ {
		if done, _ := planner.Made(ctx, Task{Node: r.Graph.lastLearn(k)}); done {
			s.Learned = k
		}
	}
	for _, stage := range Stages() {
		if st, ok := stageStatus(ctx, r, planner, survey, stage, seen); ok {
			s.Stages = append(s.Stages, st)
		}
	}
	return s, nil
}

// ReadState is what [ReadStatus] says of the run as a whole when Slurm is not
// asked, without a look at every task.
func ReadState(ctx context.Context, r *Run) (State, error) {
	var s Status
	_, err := s.survey(ctx, r, NewPlanner(r.Graph), &Seen{}, nil)
	return s.State, err
}

// survey looks at the files of the run and judges its state.
func (s *Status) survey(ctx context.Context, r *Run, planner *Planner, seen *Seen, seenErr error) (Survey, error) {
	survey, err := planner.Survey(ctx)
	if err == nil {
		s.judge(r, survey, seen, seenErr)
	}
	return survey, err
}

func stageStatus(ctx context.Context, r *Run, planner *Planner, survey Survey, stage Stage, seen *Seen) (StageStatus, bool) {
	st := StageStatus{Stage: stage}
	lost := 0 // outputs that nothing still to be done needs
	for _, n := range r.Graph.Nodes() {
		if n.Stage != stage {
			continue
		}
		for shard := range r.Graph.Shards(n) {
			t := Task{n, shard}
			st.Total++
			done, err := planner.Made(ctx, t)
			switch {
			case err != nil:
				st.Unknown++
				st.Evidence = err.Error()
			case done || leftBehind(ctx, r, t):
				st.Done++
			case survey.Done && (t.Stage == StageRollout || t.Stage == StageScore):
				st.Done++ // late for good
			case survey.Done:
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
		st.State = StatePending
	}
	if st.Evidence == "" {
		st.Evidence = fmt.Sprintf("%d of %d sealed", st.Done, st.Total)
	}
	return st, true
}

// leftBehind reports whether a rollout or score shard that is not sealed
// belongs to an iteration that was closed without it.
func leftBehind(ctx context.Context, r *Run, t Task) bool {
	if t.Stage != StageRollout && t.Stage != StageScore {
		return false
	}
	closing, err := ReadClosing(ctx, r.Dir, t.Iteration)
	if err != nil {
		return false
	}
	for _, shard := range closing.LeftOut {
		if shard == t.Shard {
			return true
		}
	}
	return false
}

// judge concludes the state of the run from the evidence at hand.
func (s *Status) judge(r *Run, survey Survey, seen *Seen, seenErr error) {
	heartbeat, has := readHeartbeat(r.Dir)
	running, known, evidence := false, true, ""
	if has {
		s.Executor = heartbeat.Executor
		running, known, evidence = heartbeat.alive(time.Now())
	}
	if HasSubmissions(r.Dir) && !running {
		s.Executor = "slurm"
	}
	switch {
	case survey.Done:
		s.State, s.Evidence = StateDone, "every goal is sealed"
	case running:
		s.State, s.Evidence = StateRunning, evidence
	case seenErr != nil:
		s.State, s.Evidence = StateUnknown, fmt.Sprintf("Slurm was asked about the submitted jobs and did not answer: %v", seenErr)
	case len(seen.Running) > 0:
		s.State, s.Evidence = StateRunning, fmt.Sprintf("%d tasks run, %d wait in the queue", len(seen.Running), len(seen.Pending))
	case len(seen.Pending) > 0 || seen.Gates > 0:
		s.State, s.Evidence = StatePending, fmt.Sprintf("%d tasks and %d gates wait in the queue", len(seen.Pending), seen.Gates)
	case len(seen.Failed) > 0:
		s.State, s.Evidence = StateFailed, anyOf(seen.Failed)
	case len(seen.Unknown) > 0:
		s.State, s.Evidence = StateUnknown, anyOf(seen.Unknown)
	case !known:
		s.State, s.Evidence = StateUnknown, evidence
	default:
		s.State, s.Evidence = StatePending, "nothing runs; go on with: lathe run --run "+string(r.Dir)
		if s.Executor == "slurm" {
			s.Evidence = "nothing is in the queue; go on with: lathe advance " + string(r.Dir)
		}
		if heartbeat.Ended && heartbeat.Failure != "" {
			s.State, s.Evidence = StateFailed, heartbeat.Failure
		}
	}
}

// failuresHere are the last words of the tasks that failed under the last
// foreground driver.
func failuresHere(r *Run) map[Task]string {
	h, _ := readHeartbeat(r.Dir)
	failed := map[Task]string{}
	for _, n := range r.Graph.Nodes() {
		for shard := range r.Graph.Shards(n) {
			t := Task{n, shard}
			for attempt := 0; ; attempt++ {
				record, ok := readExitRecord(r.Dir, t, attempt, 0)
				if !ok {
					break
				}
				if record.Code != exitcode.Stopped && !record.Time.Before(h.Started) {
					failed[t] = record.Message
				}
			}
		}
	}
	return failed
}

func anyOf(m map[Task]string) string {
	var best Task
	found := false
	for t := range m {
		if !found || t.String() < best.String() {
			best, found = t, true
		}
	}
	return fmt.Sprintf("%s: %s", best, m[best])
}

// Print writes the status as a table.
func (s Status) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s): %s, %d of %d iterations learned\n  %s\n", s.Run, s.RunID, s.State, s.Learned, s.Iterations, s.Evidence)
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "STAGE\tSTATE\tDONE\tRUNNING\tPENDING\tFAILED\tUNKNOWN\tEVIDENCE")
	for _, st := range s.Stages {
		fmt.Fprintf(table, "%s\t%s\t%d/%d\t%d\t%d\t%d\t%d\t%s\n",
			st.Stage, st.State, st.Done, st.Total, st.Running, st.Pending, st.Failed, st.Unknown, st.Evidence)
	}
	return table.Flush()
}

// Failed notes how a driver's run ended, for lathe status.
func (h *Heartbeat) Failed(err error) {
	if err != nil && exitcode.Code(err) != exitcode.Stopped && !errors.Is(err, context.Canceled) {
		h.Failure = err.Error()
	}
}
