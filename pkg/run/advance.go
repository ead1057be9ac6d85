package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// maxAttemptsAtAll bounds the attempts at a task whose failures do not count,
// against a cluster that kills everything it is given.
const maxAttemptsAtAll = 100

// Advancer looks at the files of a run and at its jobs, submits what is
// ready, and leaves. It runs in gate jobs: each array is followed by one.
type Advancer struct {
	Run      *Run
	Cluster  *slurm.Cluster
	Site     site.Resolved
	Attempt  seal.Attempt
	Binaries string // folder of the binaries as the nodes see it; empty finds them on PATH
	Version  string
	Log      func(format string, args ...any)
}

// Advanced is what an advance found and did.
type Advanced struct {
	Done      bool
	Submitted []Submission
	Live      int // tasks that are pending or running, those just submitted included
}

// jobsView is what is known about the submitted tasks of a run.
type jobsView struct {
	submissions []Submission
	states      slurm.States
	live        map[Task]bool
	failures    map[Task]int // failures that count
	broken      map[Task]bool
	attempts    map[Task]int
	evidence    map[Task]string // of the last failure
	gates       int             // gates that wait to start
	known       map[Node][]int  // attempts that were submitted before Slurm was asked
	patience    time.Time       // until when to wait for outputs that other nodes have sealed
	forgiven    time.Time       // failures of submissions up to here do not count
}

// Advance moves the run on by whatever is ready now.
func (a *Advancer) Advance(ctx context.Context) (Advanced, error) {
	limits, err := a.Cluster.Limits(ctx)
	if err != nil {
		return Advanced{}, err
	}
	if err := a.Run.restoreTasks(ctx, a.Attempt, a.Version); err != nil {
		return Advanced{}, err
	}
	planner := NewPlanner(a.Run.Graph)
	view, err := a.look(ctx, planner, limits)
	if err != nil {
		return Advanced{}, err
	}
	planner.GaveUp = func(t Task) bool {
		return view.failures[t] >= a.Run.Recipe.Schedule.MaxAttempts || view.attempts[t] >= maxAttemptsAtAll
	}
	planner.Broken = func(t Task) bool { return view.broken[t] }
	survey, err := closeAll(ctx, a.Run, planner, a.Attempt, a.Version)
	if err != nil {
		return Advanced{}, err
	}
	if err := prune(ctx, planner, survey); err != nil {
		return Advanced{}, err
	}
	result := Advanced{Done: survey.Done, Live: len(view.live)}
	if survey.Done {
		_, err := Sweep(ctx, a.Run.Dir, seal.SweepOptions{LiveJobs: view.liveIDs(), MinAge: sweepAge})
		return result, err
	}
	if err := a.saveSite(); err != nil {
		return result, err
	}
	full := false // the queue
	for _, group := range byNode(survey.Ready, view.live) {
		s, submitted, err := a.submit(ctx, group, view.known[group[0].Node], limits)
		if full = errors.Is(err, slurm.ErrQueueFull); err != nil && !full {
			return result, err
		}
		if submitted {
			result.Submitted = append(result.Submitted, s)
			result.Live += len(s.Shards)
			if s.Gate != nil {
				view.gates++
			}
		}
		if full {
			break // a gate submits the rest when there is room
		}
	}
	switch {
	case result.Live == 0 && len(survey.Ready) == 0:
		return result, a.stuck(survey, view)
	case view.gates == 0:
		// Whatever should have advanced the run is gone: put a gate behind
		// everything that lives.
		err = a.lastGate(ctx, a.liveJobs(view, result.Submitted), limits)
	}
	return result, err
}

// closeAll surveys and closes until there is nothing left to close.
func closeAll(ctx context.Context, r *Run, p *Planner, attempt seal.Attempt, version string) (Survey, error) {
	for {
		survey, err := p.Survey(ctx)
		if err != nil || len(survey.Closable) == 0 {
			return survey, err
		}
		for _, closing := range survey.Closable {
			if err := SealClosing(r, closing, attempt, version); err != nil {
				return survey, err
			}
		}
	}
}

// look asks Slurm once about every submission that has something missing.
func (a *Advancer) look(ctx context.Context, planner *Planner, limits slurm.Limits) (*jobsView, error) {
	all, err := readSubmissions(a.Run.Dir)
	if err != nil {
		return nil, err
	}
	view := &jobsView{
		live: map[Task]bool{}, failures: map[Task]int{}, broken: map[Task]bool{}, attempts: map[Task]int{}, evidence: map[Task]string{},
		known: map[Node][]int{}, patience: time.Now().Add(visibilityTimeout), forgiven: forgivenUntil(a.Run.Dir),
	}
	var jobs, gates []slurm.Job
	if gate, ok := readLastGate(a.Run.Dir); ok {
		gates = append(gates, gate)
	}
	for _, s := range all {
		view.known[s.Node()] = append(view.known[s.Node()], s.Attempt)
		missing := false
		for _, shard := range s.Shards {
			done, err := planner.settled(ctx, Task{s.Node(), shard}, s.Submitted)
			if err != nil {
				return nil, err
			}
			missing = missing || !done
		}
		if missing {
			view.submissions = append(view.submissions, s)
			jobs = append(jobs, s.Jobs...)
		}
		if s.Gate != nil {
			gates = append(gates, *s.Gate)
		}
	}
	jobs = append(jobs, gates...)
	if len(jobs) == 0 {
		return view, nil
	}
	if view.states, err = a.Cluster.States(ctx, limits, jobs); err != nil {
		return nil, err
	}
	for _, gate := range gates {
		// One that runs, this process or another, may be about to leave.
		if view.states.Of(gate.Tasks()[0]).Phase == slurm.PhasePending {
			view.gates++
		}
	}
	for _, s := range view.submissions {
		if err := a.judge(ctx, planner, view, s); err != nil {
			return nil, err
		}
	}
	return view, nil
}

// judge files each task of a submission under live, done or failed.
func (a *Advancer) judge(ctx context.Context, planner *Planner, view *jobsView, s Submission) error {
	for _, job := range s.Jobs {
		for i, id := range job.Tasks() {
			t := Task{s.Node(), job.Shards[i]}
			state := view.states.Of(id)
			view.attempts[t]++
			if state.Phase == slurm.PhasePending || state.Phase == slurm.PhaseRunning {
				view.live[t] = true
				continue
			}
			if err := view.await(ctx, planner.Outputs(t), state); err != nil {
				return err
			}
			done, err := planner.Sealed(ctx, t)
			if err != nil {
				return err
			}
			if done {
				continue
			}
			cause, evidence := a.causeOf(t, s.Attempt, state)
			if !s.Submitted.After(view.forgiven) {
				continue
			}
			view.evidence[t] = fmt.Sprintf("attempt %d, job %s: %s", s.Attempt, id, evidence)
			switch Judge(cause) {
			case Counted:
				view.failures[t]++
			case Never:
				view.failures[t], view.broken[t] = a.Run.Recipe.Schedule.MaxAttempts, true
			}
		}
	}
	return nil
}

// await waits until the outputs of a task that has just ended well on another
// node show here. What ended long ago has nothing more to show.
func (v *jobsView) await(ctx context.Context, outputs []string, state slurm.State) error {
	if state.Cause != executor.CauseOK {
		return nil
	}
	until := v.patience
	if shows := state.End.Add(visibilityTimeout); !state.End.IsZero() && shows.Before(until) {
		until = shows
	}
	for _, output := range outputs {
		_, err := seal.Read(ctx, output, seal.Options{Visibility: max(0, time.Until(until))})
		if err != nil && !errors.Is(err, seal.ErrNotSealed) && !errors.Is(err, seal.ErrDamaged) {
			return err
		}
	}
	return nil
}

// causeOf says why an attempt at a task that Slurm saw end has not done its
// work. What Slurm did to it, Slurm knows best; else the task has left a record
// of its own.
func (a *Advancer) causeOf(t Task, attempt int, state slurm.State) (cause executor.Cause, evidence string) {
	switch state.Cause {
	case executor.CauseTimeout, executor.CauseOutOfMemory, executor.CauseNodeFail, executor.CausePreempted, executor.CauseLaunchFailed:
		return state.Cause, state.Evidence
	}
	record, ok := readExitRecord(a.Run.Dir, t, attempt, state.Restarts)
	if !ok {
		return state.Cause, state.Evidence
	}
	cause, evidence = executor.CauseOfExit(record.Code), record.Message
	minutes := a.Run.Graph.Request(t.Stage).Minutes
	told := slurm.ToldToStop(minutes, a.Site.Site)
	if cause == executor.CauseStopped && told > 0 && !state.Start.IsZero() && state.End.Sub(state.Start) >= told {
		return executor.CauseTimeout, fmt.Sprintf("%s, when its time (resources.stages.%s.minutes: %d) was nearly over", evidence, t.Stage, minutes)
	}
	return cause, evidence
}

// byNode groups ready tasks that are not under way into arrays.
func byNode(ready []Task, live map[Task]bool) [][]Task {
	var order []Node
	groups := map[Node][]Task{}
	for _, t := range ready {
		if live[t] {
			continue
		}
		if groups[t.Node] == nil {
			order = append(order, t.Node)
		}
		groups[t.Node] = append(groups[t.Node], t)
	}
	out := make([][]Task, len(order))
	for i, n := range order {
		out[i] = groups[n]
	}
	return out
}

// submit hands one array to Slurm, and a gate that follows it. It does
// nothing when another process is at the same array. With [slurm.ErrQueueFull]
// a part of the array may have been submitted, or all of it without a gate.
func (a *Advancer) submit(ctx context.Context, tasks []Task, known []int, limits slurm.Limits) (Submission, bool, error) {
	n := tasks[0].Node
	number, won, err := claim(a.Run.Dir, n, known, a.Attempt)
	if err != nil || !won {
		return Submission{}, false, err
	}
	s := Submission{Stage: n.Stage, Iteration: n.Iteration, Step: n.Step, Attempt: number, Submitted: time.Now().UTC()}
	for _, t := range tasks {
		s.Shards = append(s.Shards, t.Shard)
	}
	sort.Ints(s.Shards)
	var submitErr error
	s.Jobs, submitErr = a.Cluster.SubmitArray(ctx, ArrayOf(a.Run, n, s.Shards, number, a.Binaries), limits, a.Run.Dir.Jobs(), slurm.Dependency{})
	if submitErr != nil && !errors.Is(submitErr, slurm.ErrQueueFull) {
		submitErr = fmt.Errorf("submitting %s: %w", n, submitErr)
	}
	if len(s.Jobs) > 0 {
		gate, gateErr := a.gate(ctx, s.Jobs, limits)
		s.Gate = gate
		submitErr = errors.Join(submitErr, gateErr)
		s.Shards = s.Shards[:0]
		for _, job := range s.Jobs {
			s.Shards = append(s.Shards, job.Shards...)
		}
		a.Log("submitted %s attempt %d: %d tasks, job %s", n, number, len(s.Shards), s.Jobs[0].ID)
	}
	if err := writeSubmission(a.Run.Dir, s, a.Attempt); err != nil {
		return s, true, err
	}
	return s, len(s.Jobs) > 0, submitErr
}

// ArrayOf is an array of a run as Slurm takes it.
func ArrayOf(r *Run, n Node, shards []int, attempt int, binaries string) executor.Array {
	q := r.Graph.Request(n.Stage)
	cpus := max(1, q.CPUs)
	return executor.Array{
		Run: r.Identity.RunID, Stage: string(n.Stage), Iteration: n.Iteration, Step: n.Step, Attempt: attempt, Shards: shards,
		Command: TaskCommand(binaries, r.Dir, n), CPUs: cpus, MemoryGB: q.MemoryGB, GPUs: q.GPUs, Minutes: q.Minutes,
		LogDir: r.Dir.Logs(), Env: map[string]string{"LATHE_THREADS": strconv.Itoa(threadsOf(r.Recipe, cpus))},
	}
}

// gate submits the job that advances the run when the given ones have ended.
// It waits for nothing else: of gates that run at once, claims let one submit
// each array.
func (a *Advancer) gate(ctx context.Context, after []slurm.Job, limits slurm.Limits) (*slurm.Job, error) {
	wait := slurm.Dependency{AfterAny: ids(after)}
	if len(after) == 0 {
		wait.Delay = idleGateDelay
	}
	jobs, err := a.Cluster.SubmitArray(ctx, GateArray(a.Run, a.Binaries, a.Attempt.Number), limits, a.Run.Dir.Jobs(), wait)
	if err != nil {
		return nil, fmt.Errorf("submitting the gate: %w", err)
	}
	return &jobs[0], nil
}

// idleGateDelay is how long a gate that follows nothing waits before it looks
// again.
const idleGateDelay = 30 * time.Second

// lastGate submits a gate that belongs to no submission, and notes it.
func (a *Advancer) lastGate(ctx context.Context, after []slurm.Job, limits slurm.Limits) error {
	gate, err := a.gate(ctx, after, limits)
	if err != nil {
		return err
	}
	content, err := json.Marshal(gate)
	if err != nil {
		return err
	}
	return seal.Replace(lastGatePath(a.Run.Dir), append(content, '\n'), a.Attempt)
}

func lastGatePath(d Dir) string { return filepath.Join(d.Jobs(), "gate.json") }

func readLastGate(d Dir) (gate slurm.Job, ok bool) {
	content, err := os.ReadFile(lastGatePath(d))
	return gate, err == nil && json.Unmarshal(content, &gate) == nil && len(gate.Shards) == 1
}

// GateArray is a gate job of a run.
func GateArray(r *Run, binaries string, number int) executor.Array {
	q := r.Recipe.Resources.Stages.Gate
	return executor.Array{
		Run: r.Identity.RunID, Stage: slurm.GateStage, Attempt: number, Shards: []int{0}, NoShard: true,
		Command: []string{filepath.Join(binaries, "lathe"), "advance", "--run", string(r.Dir), "--executor", "slurm", "--site", sitePath(r.Dir)},
		CPUs:    max(1, q.CPUs), MemoryGB: q.MemoryGB, GPUs: q.GPUs, Minutes: q.Minutes, LogDir: r.Dir.Logs(),
	}
}

func ids(jobs []slurm.Job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.ID
	}
	return out
}

func (a *Advancer) liveJobs(view *jobsView, submitted []Submission) []slurm.Job {
	var live []slurm.Job
	for _, s := range view.submissions {
		for _, job := range s.Jobs {
			if view.states.Live(job) {
				live = append(live, job)
			}
		}
	}
	for _, s := range submitted {
		live = append(live, s.Jobs...)
	}
	return live
}

// liveIDs are the jobs that may still write.
func (v *jobsView) liveIDs() map[string]bool {
	live := map[string]bool{}
	for _, s := range v.submissions {
		for _, job := range s.Jobs {
			if v.states.Live(job) {
				live[job.Tasks()[0].Job] = true
			}
		}
	}
	return live
}

// sitePath is the site profile that the gates of a run use: the one that was
// last given, with every default written out.
func sitePath(d Dir) string { return filepath.Join(d.Jobs(), "site.yaml") }

func (a *Advancer) saveSite() error {
	if a.Site.Path == sitePath(a.Run.Dir) {
		return nil
	}
	return seal.Replace(sitePath(a.Run.Dir), a.Site.YAML, a.Attempt)
}

// SitePath returns the site profile that a run was last advanced with, if it
// was.
func SitePath(d Dir) (string, bool) {
	_, err := os.Stat(sitePath(d))
	return sitePath(d), err == nil
}

// stuck explains why a run that is not done has nothing to submit and
// nothing under way.
func (a *Advancer) stuck(survey Survey, view *jobsView) error {
	if len(survey.Stuck) == 0 {
		return exitcode.Bugf("run %q is not done and nothing in it is ready", a.Run.Dir)
	}
	s := survey.Stuck[0]
	err := fmt.Errorf("run %q failed: %s, shard %d: %s", a.Run.Dir, s.Node, s.Shards[0], s.Reason)
	for _, t := range []Task{{s.Node, s.Shards[0]}, {Node{Stage: StageRollout, Iteration: s.Node.Iteration}, s.Shards[0]}} {
		if evidence := view.evidence[t]; evidence != "" {
			err = fmt.Errorf("%w; %s", err, evidence)
			break
		}
	}
	return exitcode.WithHint(err, "its logs are %s; when the cause is mended: lathe advance --retry --run %s", a.Run.Dir.Logs(), a.Run.Dir)
}
