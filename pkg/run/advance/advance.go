// Package advance moves a run on through Slurm: it looks at the files of the run
// and at its jobs, submits what is ready, and leaves. Gates, small jobs that
// follow each array, do the same until the run is done.
package advance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/prune"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// MaxAttemptsAtAll bounds the attempts at a task whose failures do not count,
// against a cluster that kills everything it is given.
const MaxAttemptsAtAll = 100

// Advancer looks at the files of a run and at its jobs, submits what is
// ready, and leaves. It runs in controller jobs: each array is followed by one.
type Advancer struct {
	Run      *rundir.Run
	Cluster  *slurm.Cluster
	Site     site.Resolved
	Attempt  seal.Attempt
	Binaries string // folder of the binaries as the nodes see it; empty finds them on PATH
	Version  string
	Needs    func(graph.Node) int64 // bytes that the tasks of a node write, for which there must be room; may be nil
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
	live        map[graph.Task]bool
	failures    map[graph.Task]int // failures that count
	broken      map[graph.Task]bool
	attempts    map[graph.Task]int
	evidence    map[graph.Task]string // of the last failure
	overruns    map[graph.Task]int    // of the time limit
	shortages   map[graph.Task]int    // of memory
	nodes       nodeRecords
	gates       int                  // gates that wait to start, the watchdog aside
	watchdog    string               // the id of its job, if that waits to start
	alarmed     bool                 // an alarm waits to start
	fallen      string               // how the last gate ended, if it ended badly and no other is there
	watched     bool                 // one of them follows the first end among tasks whose shards do not wait for each other
	known       map[graph.Node][]int // attempts that were submitted before Slurm was asked
	forgiven    time.Time            // failures of submissions up to here do not count
}

// Advance moves the run on by whatever is ready now.
func (a *Advancer) Advance(ctx context.Context) (Advanced, error) {
	limits, err := a.Cluster.Limits(ctx)
	if err != nil {
		return Advanced{}, err
	}
	if err := a.renewWatchdog(ctx, limits); err != nil {
		return Advanced{}, err
	}
	if err := a.Run.RestoreTasks(ctx, a.Attempt, a.Version); err != nil {
		return Advanced{}, err
	}
	making, err := a.takeWarmStart(ctx, limits)
	if err != nil {
		return Advanced{}, err
	}
	surveyor := survey.New(a.Run.Graph)
	view, err := a.look(ctx, surveyor, limits)
	if err != nil {
		return Advanced{}, err
	}
	if err := a.cancelHopeless(ctx, view); err != nil {
		return Advanced{}, err
	}
	surveyor.GaveUp = func(t graph.Task) bool {
		return view.failures[t] >= a.Run.Recipe.Schedule.MaxAttempts || view.attempts[t] >= MaxAttemptsAtAll
	}
	surveyor.Broken = func(t graph.Task) bool { return view.broken[t] }
	found, err := drive.CloseAll(ctx, a.Run, surveyor, a.Attempt, a.Version)
	if err != nil {
		return Advanced{}, err
	}
	if err := prune.AsScheduled(ctx, surveyor.Inventory, found); err != nil {
		return Advanced{}, err
	}
	result := Advanced{Done: found.Done, Live: len(view.live)}
	if found.Done {
		return result, a.leave(ctx)
	}
	if err := a.checkPlaces(limits); err != nil {
		return result, err
	}
	if err := a.rehearse(ctx, limits); err != nil {
		return result, err
	}
	changed, err := a.saveSite()
	if err != nil {
		return result, err
	}
	ready := unawaited(found.Ready, making)
	if len(view.live) == 0 && len(ready) == 0 && len(making) == 0 {
		return result, errors.Join(a.stuck(found, view), a.cancelWatchdog(ctx, view))
	}
	if changed { // gates that wait were told of another
		view.gates, view.watched, view.watchdog, view.alarmed = 0, false, "", false
	}
	// Before anything else is submitted: whatever ends this process, the run is
	// looked at again.
	if view.watchdog == "" {
		if err := a.submitWatchdog(ctx, limits); err != nil {
			return result, err
		}
	}
	if err := errors.Join(a.setAlarm(ctx, view, found.Due, limits), a.cancelLate(ctx, surveyor.Inventory, view)); err != nil {
		return result, err
	}
	result.Live = len(view.live) // without those that were cancelled
	budget, err := a.budget(ctx, limits)
	if err != nil {
		return result, err
	}
	groups, left := Within(ByNode(ready, view.live), budget)
	if left > 0 {
		a.Log("left for later: %s; the queue takes %s of yours, which all your runs share", plural.Count(left, "task"), plural.Count(limits.MaxSubmit, "job"))
	}
	full := false // the queue
	for _, group := range groups {
		if p, paused := rundir.ReadPause(a.Run.Dir); paused {
			return result, p.Err(a.Run.Dir)
		}
		s, submitted, err := a.submit(ctx, group, view, limits)
		if full = errors.Is(err, slurm.ErrQueueFull); err != nil && !full {
			return result, err
		}
		if submitted {
			result.Submitted = append(result.Submitted, s)
			result.Live += s.tasks()
			if s.Gate != nil {
				view.gates++
			}
		}
		if full {
			break // a gate submits the rest when there is room
		}
	}
	if job, waits := readTimed(watchdogPath(a.Run.Dir)); waits {
		a.Cluster.Comment(ctx, job.ID, a.progress(surveyor.Inventory, result.Live))
	}
	live := a.watch(view, result.Submitted)
	switch {
	case len(live) > 0 && (!view.watched || slices.ContainsFunc(result.Submitted, a.goesByShard)):
		err = a.lastGate(ctx, slurm.Dependency{AfterFirst: live}, limits)
	case view.gates == 0:
		// Whatever should have advanced the run is gone: put a gate behind
		// everything that lives.
		err = a.lastGate(ctx, slurm.Dependency{AfterAny: append(a.liveJobs(view, result.Submitted), ids(making)...)}, limits)
	}
	return result, err
}

// look asks Slurm once about every submission that has something missing which
// is still needed, and files each of its tasks under live, done or failed. It reads
// no other records: what it costs does not grow with what is done. Of a run that is
// done nothing is needed.
func (a *Advancer) look(ctx context.Context, v *survey.Surveyor, limits slurm.Limits) (*jobsView, error) {
	listed, err := listSubmissions(a.Run.Dir)
	if err != nil {
		return nil, err
	}
	view := &jobsView{
		live: map[graph.Task]bool{}, failures: map[graph.Task]int{}, broken: map[graph.Task]bool{}, attempts: map[graph.Task]int{}, evidence: map[graph.Task]string{},
		overruns: map[graph.Task]int{}, shortages: map[graph.Task]int{},
		known: listed, forgiven: forgivenUntil(a.Run.Dir),
	}
	found, err := v.Survey(ctx)
	if err != nil || found.Done {
		return view, err
	}
	var jobs, gates []slurm.Job
	last, lastKnown := readLastGate(a.Run.Dir)
	if lastKnown {
		gates = append(gates, last.Job)
	}
	needed := func(n graph.Node) bool {
		count, looked := found.Counts[n]
		return looked && count.Sealed < count.Total
	}
	// The gate behind the last that was done of a stage may wait still. Any before it
	// would do nothing that one behind what came later does not.
	newest := listed.newest()
	for _, s := range listed.read(a.Run.Dir, func(n graph.Node) bool { return needed(n) || n.Iteration == newest[n.Stage] }) {
		if s.Gate != nil && submittedFrom(a.Run.Dir.Jobs(), *s.Gate) {
			gates = append(gates, *s.Gate)
		}
		if !needed(s.Node()) || len(s.Jobs) > 0 && !submittedFrom(a.Run.Dir.Jobs(), s.Jobs[0]) {
			continue
		}
		settled, err := s.settled(ctx, v.Inventory)
		if err != nil {
			return nil, err
		}
		if !settled {
			view.submissions = append(view.submissions, s)
			jobs = append(jobs, s.Jobs...)
		}
	}
	jobs = append(jobs, gates...)
	watchdog, watchdogKnown := readTimed(watchdogPath(a.Run.Dir))
	if watchdogKnown {
		jobs = append(jobs, watchdog)
	}
	alarm, alarmKnown := readTimed(alarmPath(a.Run.Dir))
	if alarmKnown {
		jobs = append(jobs, alarm)
	}
	if view.states, err = a.Cluster.States(ctx, limits, jobs); err != nil {
		return nil, err
	}
	for _, gate := range gates {
		// One that runs, this process or another, may be about to leave.
		if view.states.Of(gate.Tasks()[0]).Phase == slurm.PhasePending {
			view.gates++
			view.watched = view.watched || lastKnown && last.First && gate.ID == last.ID
		}
	}
	if watchdogKnown && view.states.Of(watchdog.Tasks()[0]).Phase == slurm.PhasePending {
		view.watchdog = watchdog.ID
	}
	view.alarmed = alarmKnown && view.states.Of(alarm.Tasks()[0]).Phase == slurm.PhasePending
	timed := gates
	for job, known := range map[*slurm.Job]bool{&watchdog: watchdogKnown, &alarm: alarmKnown} {
		if known {
			timed = append(timed, *job)
		}
	}
	view.fallen = view.fallenGate(timed)
	if err := v.Await(ctx, view.awaited(time.Now(), a.Run.Graph.ExtendedAt())); err != nil {
		return nil, err
	}
	for _, s := range view.submissions {
		if err := a.file(ctx, v.Inventory, view, s); err != nil {
			return nil, err
		}
	}
	return view, nil
}

// file files each task of a submission under live, done or failed.
func (a *Advancer) file(ctx context.Context, v *survey.Inventory, view *jobsView, s Submission) error {
	for id, t := range s.all() {
		state := view.states.Of(id)
		counts := s.Submitted.After(view.forgiven)
		if counts {
			view.attempts[t]++
		}
		if state.Phase == slurm.PhasePending || state.Phase == slurm.PhaseRunning {
			view.live[t] = true
			continue
		}
		done, err := v.Sealed(ctx, t)
		if err != nil {
			return err
		}
		if done {
			view.nodes.wentWell(state)
			continue
		}
		cause, evidence := a.causeOf(t, s, state)
		view.nodes.failed(state, cause)
		switch cause {
		case executor.CauseTimeout:
			view.overruns[t]++
		case executor.CauseOutOfMemory:
			view.shortages[t]++
		}
		if !counts {
			continue
		}
		view.evidence[t] = fmt.Sprintf("attempt %d, job %s: %s", s.Attempt, id, evidence)
		switch drive.Classify(cause) {
		case drive.Counted:
			view.failures[t]++
		case drive.Never:
			view.failures[t], view.broken[t] = a.Run.Recipe.Schedule.MaxAttempts, true
		}
	}
	return nil
}

// awaited are the tasks that ended well on other nodes, whose outputs may still be on
// their way here, and until when. What was submitted before the run was extended made all
// that it was to make then.
func (view *jobsView) awaited(now, extended time.Time) map[graph.Task]time.Time {
	until := map[graph.Task]time.Time{}
	for _, s := range view.submissions {
		if s.Submitted.Before(extended) {
			continue
		}
		for id, t := range s.all() {
			state := view.states.Of(id)
			if state.Cause != executor.CauseOK {
				continue
			}
			until[t] = now.Add(rundir.VisibilityTimeout)
			if shown := state.End.Add(rundir.VisibilityTimeout); !state.End.IsZero() && shown.Before(until[t]) {
				until[t] = shown
			}
		}
	}
	return until
}

// ByNode groups ready tasks that are not under way into arrays.
func ByNode(ready []graph.Task, live map[graph.Task]bool) [][]graph.Task {
	var order []graph.Node
	groups := map[graph.Node][]graph.Task{}
	for _, t := range ready {
		if live[t] {
			continue
		}
		if groups[t.Node] == nil {
			order = append(order, t.Node)
		}
		groups[t.Node] = append(groups[t.Node], t)
	}
	out := make([][]graph.Task, len(order))
	for i, n := range order {
		out[i] = groups[n]
	}
	return out
}

// submit hands one array to Slurm, and a gate that follows it. It does
// nothing when another process is at the same array. With [slurm.ErrQueueFull]
// a part of the array may have been submitted, or all of it without a gate.
func (a *Advancer) submit(ctx context.Context, tasks []graph.Task, view *jobsView, limits slurm.Limits) (Submission, bool, error) {
	n := tasks[0].Node
	if a.Needs != nil {
		if err := drive.CheckRoom(a.Run.Dir, n, a.Needs(n)); err != nil {
			return Submission{}, false, err
		}
	}
	number, won, err := claim(a.Run.Dir, n, view.known[n], a.Attempt)
	if err != nil || !won {
		return Submission{}, false, err
	}
	s := Submission{Stage: n.Stage, Iteration: n.Iteration, Step: n.Step, Wave: n.Wave, Attempt: number, Submitted: time.Now().UTC()}
	shards := make([]int, len(tasks))
	for i, t := range tasks {
		shards[i] = t.Shard
	}
	slices.Sort(shards)
	var submitErr error
	asked := drive.ArrayOf(a.Run, n, shards, number, a.Binaries, a.Site.Site.Monitor)
	more := a.more(ctx, asked, tasks, view)
	if more.Exclude = view.nodes.faulty(s.Submitted); len(more.Exclude) > 0 {
		a.Log("%s keeps out of nodes %s for an hour: tasks of this run have failed there", n, strings.Join(more.Exclude, ", "))
	}
	s.Jobs, submitErr = a.Cluster.SubmitArray(ctx, more, limits, a.Run.Dir.Jobs(), slurm.Dependency{})
	if len(more.Exclude) > 0 && len(s.Jobs) == 0 && exitcode.Code(submitErr) == exitcode.Usage {
		a.Log("%s: the cluster has no other nodes: %v", n, submitErr)
		more.Exclude = nil
		s.Jobs, submitErr = a.Cluster.SubmitArray(ctx, more, limits, a.Run.Dir.Jobs(), slurm.Dependency{})
	}
	if (more.Minutes != asked.Minutes || more.MemoryGB != asked.MemoryGB) && len(s.Jobs) == 0 && exitcode.Code(submitErr) == exitcode.Usage {
		a.Log("%s: the cluster does not give a retry more: %v", n, submitErr)
		more = asked
		s.Jobs, submitErr = a.Cluster.SubmitArray(ctx, asked, limits, a.Run.Dir.Jobs(), slurm.Dependency{})
	}
	if more.Minutes != asked.Minutes {
		s.Minutes = more.Minutes
	}
	if more.MemoryGB != asked.MemoryGB {
		s.MemoryGB = more.MemoryGB
	}
	if submitErr != nil && !errors.Is(submitErr, slurm.ErrQueueFull) {
		submitErr = fmt.Errorf("submitting %s: %w", n, submitErr)
	}
	if len(s.Jobs) > 0 {
		if !a.goesByShard(s) { // else one gate follows all of them
			gate, gateErr := a.gate(ctx, slurm.Dependency{AfterAny: ids(s.Jobs)}, limits)
			s.Gate = gate
			submitErr = errors.Join(submitErr, gateErr)
		}
		a.Log("submitted %s attempt %d: %s, job %s", n, number, plural.Count(s.tasks(), "task"), s.Jobs[0].ID)
	}
	if err := writeSubmission(a.Run.Dir, s, a.Attempt); err != nil {
		return s, true, err
	}
	return s, len(s.Jobs) > 0, submitErr
}

// leave ends the work on a run that is done: it removes what killed writers have left,
// and takes out of the queue what has not started, which has nothing to do any more.
func (a *Advancer) leave(ctx context.Context) error {
	queue, err := a.Cluster.Queue(ctx, "")
	if err != nil {
		return err
	}
	live := map[string]bool{} // jobs that may still write, a person's too
	var waiting []string
	for _, job := range queue {
		live[job.ID] = true
		if job.Pending && isOf(job, a.Run.Dir, a.Run.Identity.RunID) {
			waiting = append(waiting, job.ID)
		}
	}
	_, err = rundir.Sweep(ctx, a.Run.Dir, seal.SweepOptions{LiveJobs: live, MinAge: drive.SweepAge})
	return errors.Join(err, a.Cluster.CancelWaiting(ctx, waiting...))
}

// sitePath is the site profile that the gates of a run use: the one that was
// last given, with every default written out.
func sitePath(d graph.Dir) string { return filepath.Join(d.Jobs(), "site.yaml") }

func (a *Advancer) saveSite() (changed bool, err error) {
	if a.Site.Path == sitePath(a.Run.Dir) {
		return false, nil
	}
	was, _ := plainfile.Read(sitePath(a.Run.Dir), plainfile.MaxDocument) // none at first
	return !bytes.Equal(was, a.Site.YAML), seal.Replace(sitePath(a.Run.Dir), a.Site.YAML, a.Attempt)
}

// SitePath returns the site profile that a run was last advanced with, if it
// was.
func SitePath(d graph.Dir) (string, bool) {
	_, err := os.Stat(sitePath(d))
	return sitePath(d), err == nil
}

// stuck explains why a run that is not done has nothing to submit and
// nothing under way.
func (a *Advancer) stuck(found survey.Result, view *jobsView) error {
	if len(found.Stuck) == 0 {
		return exitcode.Bugf("run %q is not done and nothing in it is ready", a.Run.Dir)
	}
	s := found.Stuck[0]
	err := fmt.Errorf("run %q failed: %s, shard %d: %s", a.Run.Dir, s.Node, s.Shards[0], s.Reason)
	for _, t := range []graph.Task{{Node: s.Node, Shard: s.Shards[0]}, {Node: s.Node.Sampling(), Shard: s.Shards[0]}} {
		if evidence := view.evidence[t]; evidence != "" {
			err = fmt.Errorf("%w; %s", err, evidence)
			break
		}
	}
	if drive.IsFull(err.Error()) {
		err = drive.WithRoomHint(err, a.Run.Dir)
	}
	return &failedError{exitcode.WithHint(err, "its logs are %s; when the cause is fixed: lathe advance --retry --run %s", a.Run.Dir.Logs(), a.Run.Dir)}
}

// failedError is that of a run whose attempts are used up.
type failedError struct{ err error }

func (e *failedError) Error() string { return e.err.Error() }
func (e *failedError) Unwrap() error { return e.err }

// HasFailed reports whether an error of [Advancer.Advance] says that the run has
// failed; any other is one of resuming it.
func HasFailed(err error) bool {
	var failed *failedError
	return errors.As(err, &failed)
}
