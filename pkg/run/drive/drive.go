// Package drive moves a run on in the foreground: it starts what is ready, on this
// machine or as steps of an allocation, and scores what has ended.
package drive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/prune"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Launcher starts tasks as processes: on this machine, or as steps of an
// allocation.
type Launcher interface {
	// Cores is how many cores the tasks may use together.
	Cores() int
	// Spare is whether a task may be given more of them than it asks for.
	Spare() bool
	// Launch starts an array of one shard and reports its end once, from a
	// goroutine of its own.
	Launch(ctx context.Context, array executor.Array, done func(executor.Result)) error
	// Close waits until every launched task has ended.
	Close() error
}

// Progress is what the driver tells whoever watches.
type Progress struct {
	Event   string // launched, done, failed, retry, late, finished
	Task    graph.Task
	Result  executor.Result
	Survey  survey.Result
	Running int // tasks
}

// Driver advances a run in the foreground until it is done, fails or is
// stopped. Everything it decides it reads from the files; killing it loses
// the work in flight and nothing else.
type Driver struct {
	Run      *rundir.Run
	Launcher Launcher
	Attempt  seal.Attempt
	Binaries string         // folder of the binaries; empty finds them on PATH
	Monitor  string         // which tasks have a monitor beside them, as a site profile has it
	Watch    func(Progress) // may be nil
	Version  string
	Needs    func(graph.Node) int64               // bytes that the tasks of a node write, for which there must be room; may be nil
	GPUs     GPUCounter                           // of this machine; nil where they are not counted
	Clock    survey.Clock                         // the zero value for the real one
	Wake     func(due time.Time) <-chan time.Time // when what is due, if anything, has come; nil for the real clock

	surveyor *survey.Surveyor
	running  map[graph.Task]*launched
	failures map[graph.Task]int // failures of a task's own, in this process
	broken   map[graph.Task]bool
	cores    int // in use
	gpus     int // in use
	checked  bool
	last     map[graph.Task]ended
}

// launched is a task that runs.
type launched struct {
	array executor.Array
	stop  context.CancelFunc
	late  bool // it was stopped because its iteration was closed without it
}

// ended is how a task last ended.
type ended struct {
	attempt int
	result  executor.Result
}

// Drive runs until the goals are sealed. Shards that gave up within the
// quorum end it with exitcode.LeftOut.
//
// What the end of a task makes possible follows from what is known, so the
// folders are looked at again only when a node is done or nothing is left to
// start: another process may resume the same run.
func (d *Driver) Drive(ctx context.Context) error {
	d.surveyor = survey.New(d.Run.Graph)
	d.running, d.failures, d.broken, d.last = map[graph.Task]*launched{}, map[graph.Task]int{}, map[graph.Task]bool{}, map[graph.Task]ended{}
	d.surveyor.GaveUp = func(t graph.Task) bool { return d.failures[t] >= d.Run.Recipe.Schedule.MaxAttempts }
	d.surveyor.Broken = func(t graph.Task) bool { return d.broken[t] }
	if d.Clock.Now != nil {
		d.surveyor.Clock = d.Clock
	}
	if d.Wake == nil {
		d.Wake = wake
	}
	if err := d.sweep(ctx); err != nil {
		return err
	}
	if err := d.Run.RestoreTasks(ctx, d.Attempt, d.Version); err != nil {
		return err
	}
	results := make(chan finished)
	inFlight, cancel := context.WithCancel(ctx)
	defer func() { // leave no task behind
		cancel()
		for range d.running {
			<-results
		}
	}()
	pauses := time.NewTicker(lookForPause)
	defer pauses.Stop()
	for fresh := true; ; {
		found, err := CloseAll(ctx, d.Run, d.surveyor, d.Attempt, d.Version)
		if err != nil {
			return err
		}
		if fresh {
			if err := prune.AsScheduled(ctx, d.surveyor.Inventory, found); err != nil {
				return err
			}
		}
		if found.Done {
			if err := d.sweep(ctx); err != nil {
				return err
			}
			d.tell(Progress{Event: "finished", Survey: found})
			return closing.LeftOut(ctx, d.Run)
		}
		if err := d.stopLate(ctx); err != nil {
			return err
		}
		if p, paused := rundir.ReadPause(d.Run.Dir); paused {
			d.stopPaused(p)
			if len(d.running) == 0 {
				return p.Err(d.Run.Dir)
			}
		} else if err := d.launch(inFlight, found, results); err != nil {
			return err
		}
		if len(d.running) == 0 {
			if fresh {
				return d.stuck(found)
			}
			d.surveyor.Refresh()
			fresh = true
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.Wake(found.Due):
		case <-pauses.C:
			fresh = false
		case f := <-results:
			if fresh, err = d.settle(ctx, f); err != nil {
				return err
			}
			if fresh {
				d.surveyor.Refresh()
			}
		}
	}
}

// CloseAll surveys and closes until there is nothing left to close.
func CloseAll(ctx context.Context, r *rundir.Run, s *survey.Surveyor, attempt seal.Attempt, version string) (survey.Result, error) {
	for {
		found, err := s.Survey(ctx)
		if err != nil || len(found.Closable) == 0 {
			return found, err
		}
		for _, c := range found.Closable {
			if err := closing.Seal(r, c, attempt, version); err != nil {
				return found, err
			}
			if _, err := s.Recheck(ctx, graph.Task{Node: graph.Node{Stage: graph.StageClose, Iteration: c.Iteration}}); err != nil {
				return found, err
			}
		}
	}
}

// SweepAge is how old a temporary file must be when its writer, on another
// host, may be alive. Clocks differ.
const SweepAge = time.Hour

// sweep removes what killed tasks of earlier attempts and drivers left.
func (d *Driver) sweep(ctx context.Context) error {
	_, err := rundir.Sweep(ctx, d.Run.Dir, seal.SweepOptions{MinAge: SweepAge})
	return err
}

type finished struct {
	task   graph.Task
	result executor.Result
}

// launch starts ready tasks as long as there are cores.
func (d *Driver) launch(ctx context.Context, found survey.Result, results chan<- finished) error {
	if err := d.checkGPUs(); err != nil {
		return err
	}
	waiting := slices.DeleteFunc(slices.Clone(found.Ready), func(t graph.Task) bool { return d.running[t] != nil })
	lasting, queued := 0, false
	for _, t := range waiting {
		if !t.Stage.Brief() {
			lasting++
		}
	}
	for _, t := range waiting {
		cores := d.share(t, lasting)
		if d.cores+cores > d.Launcher.Cores() {
			return nil // keep the order of urgency: nothing jumps the queue
		}
		if asked := d.Run.Graph.Request(t.Stage).GPUs; asked > 0 && (queued || d.lacksGPUs(asked)) {
			queued = true
			continue // but tasks that need no GPU pass those that wait for one
		}
		if d.Needs != nil {
			if err := CheckRoom(d.Run.Dir, t.Node, d.Needs(t.Node)/int64(d.Run.Graph.Shards(t.Node))); err != nil {
				return err
			}
		}
		array := d.array(t, cores)
		ctx, stop := context.WithCancel(ctx)
		if err := d.Launcher.Launch(ctx, array, func(r executor.Result) { results <- finished{t, r} }); err != nil {
			stop()
			return fmt.Errorf("starting %s: %w", t, err)
		}
		d.running[t] = &launched{array: array, stop: stop}
		d.cores += array.CPUs
		d.gpus += array.GPUs
		if !t.Stage.Brief() {
			lasting--
		}
		d.tell(Progress{Event: "launched", Task: t, Survey: found, Running: len(d.running)})
	}
	return nil
}

// stopLate stops what its iteration was closed without for good.
func (d *Driver) stopLate(ctx context.Context) error {
	for t, running := range d.running {
		late, err := d.surveyor.Dropped(ctx, t)
		if err != nil {
			return err
		}
		if late {
			running.late = true
			running.stop()
		}
	}
	return nil
}

// lookForPause is how often a driver looks whether its run was paused.
const lookForPause = time.Second

// stopPaused stops what a pause says is to stop.
func (d *Driver) stopPaused(p rundir.Pause) {
	for t, running := range d.running {
		if p.Stops(t.Node) {
			running.stop()
		}
	}
}

// wake is the real clock.
func wake(due time.Time) <-chan time.Time {
	if due.IsZero() {
		return nil
	}
	return time.After(time.Until(due))
}

// settle scores a task that has ended: by its outputs, not by its exit code. It
// reports whether the task was the last of its node.
func (d *Driver) settle(ctx context.Context, f finished) (nodeDone bool, err error) {
	t, r := f.task, f.result
	array, late := d.running[t].array, d.running[t].late
	d.running[t].stop()
	delete(d.running, t)
	d.cores -= array.CPUs
	d.gpus -= array.GPUs
	d.last[t] = ended{array.Attempt, r}
	done, err := d.sealed(ctx, t, r)
	if err != nil {
		return false, err
	}
	if done {
		d.tell(Progress{Event: "done", Task: t, Result: r, Running: len(d.running)})
		return d.surveyor.Done(t.Node), nil
	}
	if late {
		d.tell(Progress{Event: "late", Task: t, Result: r, Running: len(d.running)})
		return false, nil
	}
	r = d.recorded(t, array.Attempt, r)
	verdict := Classify(r.Cause)
	if verdict == Again {
		d.tell(Progress{Event: "retry", Task: t, Result: r, Running: len(d.running)})
		return false, nil
	}
	d.failures[t]++
	if verdict == Never {
		d.failures[t], d.broken[t] = d.Run.Recipe.Schedule.MaxAttempts, true
	}
	d.recordKill(t, array.Attempt, r)
	event := "retry"
	if d.surveyor.GaveUp(t) {
		event = "failed"
	}
	d.tell(Progress{Event: event, Task: t, Result: r, Running: len(d.running)})
	return false, nil
}

// recorded is how a task ended by its own record, which knows more than its exit code.
func (d *Driver) recorded(t graph.Task, attempt int, r executor.Result) executor.Result {
	record, there := rundir.ReadExitRecord(d.Run.Dir, t, attempt, 0)
	if there && r.Signal == "" && record.Code == r.Exit {
		r.Cause, r.Evidence = record.Cause(), record.Message
	}
	return r
}

// recordKill leaves a record of the end of a task that could leave none itself.
func (d *Driver) recordKill(t graph.Task, attempt int, r executor.Result) {
	if r.Signal == "" && r.Cause != executor.CauseLaunchFailed {
		return
	}
	rundir.WriteExitRecord(d.Run.Dir, t, attempt, 0, rundir.ExitRecord{
		Task: t.String(), Attempt: attempt, Code: exitcode.Failed, Message: r.Evidence, Host: d.Attempt.Host, Time: time.Now().UTC(),
	})
}

// sealed reports whether the outputs of a task that has ended are sealed. What
// ended well on another node may take its time to show here.
func (d *Driver) sealed(ctx context.Context, t graph.Task, r executor.Result) (bool, error) {
	if patience := rundir.Visibility(); r.Cause == executor.CauseOK && patience > 0 {
		until := time.Now().Add(patience)
		for _, path := range d.Run.Graph.Outputs(t) {
			_, _ = seal.Read(ctx, path, d.Run.Graph.Reading(max(0, time.Until(until)))) // Recheck returns what is wrong
		}
	}
	return d.surveyor.Recheck(ctx, t)
}

// stuck explains why nothing can be started although the run is not done.
func (d *Driver) stuck(found survey.Result) error {
	for _, s := range found.Stuck {
		task := graph.Task{Node: s.Node, Shard: s.Shards[0]}
		for _, t := range []graph.Task{task, {Node: s.Node.Sampling(), Shard: task.Shard}} {
			last, seen := d.last[t]
			if !seen {
				continue
			}
			r, log := last.result, d.Run.Dir.Rel(last.result.Log)
			if record, ok := rundir.ReadExitRecord(d.Run.Dir, t, last.attempt, 0); ok {
				err := error(&exitcode.Error{Code: record.Code, Err: fmt.Errorf("%s failed: %s", t, record.Message)})
				if record.Hint != "" {
					err = exitcode.WithHint(err, "%s", record.Hint)
				}
				if IsFull(record.Message) {
					err = WithRoomHint(err, d.Run.Dir)
				}
				return exitcode.WithHint(err, "its log is %s", log)
			}
			err := error(&exitcode.Error{Code: r.Cause.ExitCode(), Err: fmt.Errorf("%s failed: %s", t, r.Evidence)})
			if r.Cause == executor.CauseIO {
				// A full disk takes neither a record nor a log.
				err = WithRoomHint(fmt.Errorf("%w; %s", err, room(d.Run.Dir)), d.Run.Dir)
			}
			return exitcode.WithHint(err, "its log is %s", log)
		}
		return exitcode.WithHint(fmt.Errorf("%s cannot be done: %s", s.Node, s.Reason), "see lathe status %s", d.Run.Dir)
	}
	return exitcode.Bugf("run %q is not done and nothing in it is ready", d.Run.Dir)
}

func (d *Driver) tell(p Progress) {
	if d.Watch != nil {
		d.Watch(p)
	}
}

// asked is how many cores a task asks for. A machine with fewer gives it all it has.
func (d *Driver) asked(t graph.Task) int {
	return min(max(1, d.Run.Graph.Request(t.Stage).CPUs), d.Launcher.Cores())
}

// share is how many cores the first of the ready tasks is given, of which so many are not
// brief: what it asks for, and for the engine, unless the recipe has a number of threads,
// its part of the cores that would be idle. Those of brief tasks will be: it waits for them,
// rather than be without them for as long as it runs.
func (d *Driver) share(t graph.Task, lasting int) int {
	asked := d.asked(t)
	if d.Run.Recipe.Resources.Threads > 0 || !t.Stage.RunsEngine() || !d.Launcher.Spare() {
		return asked
	}
	idle := d.Launcher.Cores() - d.cores
	for other, running := range d.running {
		if other.Stage.Brief() {
			idle += running.array.CPUs
		}
	}
	return max(asked, idle/lasting)
}

// array is the next attempt at a task on so many cores, as the launcher takes it.
func (d *Driver) array(t graph.Task, cpus int) executor.Array {
	array := ArrayOf(d.Run, t.Node, []int{t.Shard}, nextAttempt(d.Run.Dir, t), d.Binaries, d.Monitor)
	array.CPUs = cpus
	array.Env["LATHE_THREADS"] = strconv.Itoa(threadsOf(d.Run.Recipe, array.CPUs))
	withMonitor(array, d.Binaries, d.Monitor)
	return array
}

// ArrayOf is an array of a run as Slurm takes it.
func ArrayOf(r *rundir.Run, n graph.Node, shards []int, attempt int, binaries, monitored string) executor.Array {
	q := r.Graph.Request(n.Stage)
	cpus := max(1, q.CPUs)
	array := executor.Array{
		Run: r.Identity.RunID, Stage: string(n.Stage), Resources: string(n.Stage.Resources()), Iteration: n.Iteration, Step: n.Step, Wave: n.Wave, Attempt: attempt, Shards: shards,
		Command: r.Graph.Command(binaries, n), CPUs: cpus, MemoryGB: q.MemoryGB, GPUs: q.GPUs, Minutes: q.Minutes,
		LogDir: r.Dir.Logs(), Env: WithTrust(map[string]string{"LATHE_THREADS": strconv.Itoa(threadsOf(r.Recipe, cpus))}),
	}
	withMonitor(array, binaries, monitored)
	return array
}

// withMonitor asks the tasks of an array to start a monitor beside themselves, if
// they are among those that are to have one.
func withMonitor(array executor.Array, binaries, monitored string) {
	if monitored == site.MonitorAll || monitored == site.MonitorGPUs && array.GPUs > 0 {
		array.Env[monitor.Variable] = filepath.Join(binaries, "lathe-monitor")
		array.Env[monitor.CoresVariable] = strconv.Itoa(array.CPUs)
	}
}

// WithTrust adds to the environment of tasks and gates whether this process
// trusts the folder of its run.
func WithTrust(environment map[string]string) map[string]string {
	if value := os.Getenv(rundir.TrustVariable); value != "" {
		environment[rundir.TrustVariable] = value
	}
	return environment
}

// threadsOf is how many threads the engine of a task uses.
func threadsOf(r recipe.Recipe, cpus int) int {
	if r.Resources.Threads > 0 {
		return r.Resources.Threads
	}
	return cpus
}

// nextAttempt is one more than the attempts that have left a log. Where logs cannot be
// looked at, whoever opens one says why.
func nextAttempt(d graph.Dir, t graph.Task) int {
	attempt := 0
	for {
		if _, err := os.Lstat(d.Log(t, attempt)); err != nil {
			return attempt
		}
		attempt++
	}
}
