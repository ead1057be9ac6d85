package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Launcher starts tasks as processes: on this machine, or as steps of an
// allocation.
type Launcher interface {
	// Cores is how many cores the tasks may use together.
	Cores() int
	// Launch starts an array of one shard and reports its end once, from a
	// goroutine of its own.
	Launch(ctx context.Context, array executor.Array, done func(executor.Result)) error
	// Close waits until every launched task has ended.
	Close() error
}

// Progress is what the driver tells whoever watches.
type Progress struct {
	Event   string // launched, done, failed, retry, finished
	Task    Task
	Result  executor.Result
	Survey  Survey
	Running int // tasks
}

// Driver advances a run in the foreground until it is done, fails or is
// stopped. Everything it decides it reads from the files; killing it loses
// the work in flight and nothing else.
type Driver struct {
	Run      *Run
	Launcher Launcher
	Attempt  seal.Attempt
	Binaries string         // folder of the binaries; empty finds them on PATH
	Watch    func(Progress) // may be nil
	Version  string

	planner  *Planner
	running  map[Task]launched
	failures map[Task]int // failures of a task's own, in this process
	broken   map[Task]bool
	cores    int // in use
	last     map[Task]ended
}

// launched is a task that runs.
type launched struct {
	array executor.Array
	since time.Time
}

// ended is how a task last ended.
type ended struct {
	attempt int
	result  executor.Result
}

// Drive runs until the goals are sealed. Shards that gave up within the
// quorum end it with exitcode.LeftOut.
func (d *Driver) Drive(ctx context.Context) error {
	d.planner = NewPlanner(d.Run.Graph)
	d.running, d.failures, d.broken, d.last = map[Task]launched{}, map[Task]int{}, map[Task]bool{}, map[Task]ended{}
	d.planner.GaveUp = func(t Task) bool { return d.failures[t] >= d.Run.Recipe.Schedule.MaxAttempts }
	d.planner.Broken = func(t Task) bool { return d.broken[t] }
	if err := d.sweep(ctx); err != nil {
		return err
	}
	if err := d.Run.restoreTasks(ctx, d.Attempt, d.Version); err != nil {
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
	for {
		survey, err := closeAll(ctx, d.Run, d.planner, d.Attempt, d.Version)
		if err != nil {
			return err
		}
		if err := prune(ctx, d.planner, survey); err != nil {
			return err
		}
		if survey.Done {
			if err := d.sweep(ctx); err != nil {
				return err
			}
			d.tell(Progress{Event: "finished", Survey: survey})
			return LeftOut(ctx, d.Run)
		}
		if err := d.launch(inFlight, survey, results); err != nil {
			return err
		}
		if len(d.running) == 0 {
			return d.stuck(survey)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-results:
			if err := d.settle(ctx, f); err != nil {
				return err
			}
		}
	}
}

// sweepAge is how old a temporary file must be when its writer, on another
// host, may be alive. Clocks differ.
const sweepAge = time.Hour

// sweep removes what killed tasks of earlier attempts and drivers left.
func (d *Driver) sweep(ctx context.Context) error {
	_, err := Sweep(ctx, d.Run.Dir, seal.SweepOptions{MinAge: sweepAge})
	return err
}

type finished struct {
	task   Task
	result executor.Result
}

// launch starts ready tasks as long as there are cores.
func (d *Driver) launch(ctx context.Context, survey Survey, results chan<- finished) error {
	for _, t := range survey.Ready {
		if _, already := d.running[t]; already {
			continue
		}
		array := d.array(t)
		if d.cores > 0 && d.cores+array.CPUs > d.Launcher.Cores() {
			return nil // keep the order of urgency: nothing jumps the queue
		}
		if err := d.Launcher.Launch(ctx, array, func(r executor.Result) { results <- finished{t, r} }); err != nil {
			return fmt.Errorf("starting %s: %w", t, err)
		}
		d.running[t] = launched{array, time.Now()}
		d.cores += array.CPUs
		d.tell(Progress{Event: "launched", Task: t, Survey: survey, Running: len(d.running)})
	}
	return nil
}

// settle judges a task that has ended: by its outputs, not by its exit code.
func (d *Driver) settle(ctx context.Context, f finished) error {
	t, r := f.task, f.result
	array := d.running[t].array
	delete(d.running, t)
	d.cores -= array.CPUs
	d.last[t] = ended{array.Attempt, r}
	done, err := d.planner.Sealed(ctx, t)
	if err != nil {
		return err
	}
	if done {
		d.tell(Progress{Event: "done", Task: t, Result: r, Running: len(d.running)})
		return nil
	}
	verdict := Judge(r.Cause)
	if verdict == Again {
		d.tell(Progress{Event: "retry", Task: t, Result: r, Running: len(d.running)})
		return nil
	}
	d.failures[t]++
	if verdict == Never {
		d.failures[t], d.broken[t] = d.Run.Recipe.Schedule.MaxAttempts, true
	}
	event := "retry"
	if d.planner.GaveUp(t) {
		event = "failed"
	}
	d.tell(Progress{Event: event, Task: t, Result: r, Running: len(d.running)})
	return nil
}

// stuck explains why nothing can be started although the run is not done.
func (d *Driver) stuck(survey Survey) error {
	for _, s := range survey.Stuck {
		task := Task{Node: s.Node, Shard: s.Shards[0]}
		for _, t := range []Task{task, {Node: Node{Stage: StageRollout, Iteration: s.Node.Iteration}, Shard: task.Shard}} {
			last, seen := d.last[t]
			if !seen {
				continue
			}
			r, log := last.result, d.Run.Dir.Rel(last.result.Log)
			if record, ok := readExitRecord(d.Run.Dir, t, last.attempt, 0); ok {
				err := error(&exitcode.Error{Code: record.Code, Err: fmt.Errorf("%s failed: %s", t, record.Message)})
				if record.Hint != "" {
					err = exitcode.WithHint(err, "%s", record.Hint)
				}
				return exitcode.WithHint(err, "its log is %s", log)
			}
			err := error(&exitcode.Error{Code: r.Cause.ExitCode(), Err: fmt.Errorf("%s failed: %s", t, r.Evidence)})
			if r.Cause == executor.CauseIO {
				// A full disk takes neither a record nor a log.
				err = fmt.Errorf("%w; %s", err, room(d.Run.Dir))
			}
			return exitcode.WithHint(err, "its log is %s", log)
		}
		return exitcode.WithHint(fmt.Errorf("%s cannot be done: %s", s.Node, s.Reason), "see lathe status %s", d.Run.Dir)
	}
	return exitcode.Bugf("run %q is not done and nothing in it is ready", d.Run.Dir)
}

// room says how much may still be written into a run.
func room(d Dir) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(string(d), &stat); err != nil {
		return fmt.Sprintf("%q cannot be looked at: %v", d, err)
	}
	return fmt.Sprintf("the file system of %q has %d bytes and %d names free", d, stat.Bavail*uint64(stat.Bsize), stat.Ffree)
}

func (d *Driver) tell(p Progress) {
	if d.Watch != nil {
		d.Watch(p)
	}
}

// array is the next attempt at a task, as the launcher takes it. A machine
// with fewer cores than a task asks for gives it all it has.
func (d *Driver) array(t Task) executor.Array {
	array := ArrayOf(d.Run, t.Node, []int{t.Shard}, nextAttempt(d.Run.Dir, t), d.Binaries)
	array.CPUs = min(array.CPUs, d.Launcher.Cores())
	array.Env["LATHE_THREADS"] = strconv.Itoa(threadsOf(d.Run.Recipe, array.CPUs))
	return array
}

// threadsOf is how many threads the engine of a task uses.
func threadsOf(r recipe.Recipe, cpus int) int {
	if r.Resources.Threads > 0 {
		return r.Resources.Threads
	}
	return cpus
}

// nextAttempt is one more than the attempts that have left a log.
func nextAttempt(d Dir, t Task) int {
	attempt := 0
	for {
		if _, err := os.Lstat(d.Log(t, attempt)); errors.Is(err, os.ErrNotExist) {
			return attempt
		}
		attempt++
	}
}

// TaskCommand is the command line of the tasks of a node, without the shard.
func TaskCommand(binaries string, dir Dir, n Node) []string {
	binary := map[Stage]string{
		StageWarm: "lathe-learn", StageRollout: "lathe-rollout", StageScore: "lathe-score", StageBuffer: "lathe-buffer",
		StageGradient: "lathe-learn", StageLearn: "lathe-learn", StageEvaluate: "lathe-rollout",
	}[n.Stage]
	if binaries != "" {
		binary = filepath.Join(binaries, binary)
	}
	command := []string{binary, "--run", string(dir)}
	number := strconv.Itoa(n.Iteration)
	switch n.Stage {
	case StageWarm:
		return append(command, "--warm", number)
	case StageEvaluate:
		return append(command, "--evaluate", number)
	case StageGradient:
		return append(command, "--iteration", number, "--step", strconv.Itoa(n.Step), "--gradient")
	case StageLearn:
		return append(command, "--iteration", number, "--step", strconv.Itoa(n.Step))
	}
	return append(command, "--iteration", number)
}

// LeftOut reports the shards that a finished run did without.
func LeftOut(ctx context.Context, r *Run) error {
	n := 0
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
		if closing, err := ReadClosing(ctx, r.Dir, k); err == nil {
			n += len(closing.LeftOut)
		}
	}
	if n > 0 {
		return exitcode.LeftOutf("the run is done without %d shards that used up their attempts", n)
	}
	return nil
}
