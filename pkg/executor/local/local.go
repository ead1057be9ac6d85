// Package local runs tasks as processes of this machine, or as steps of the
// Slurm allocation that it runs in.
package local

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// DefaultGrace is how long a task may take to seal or drop its work once it
// has been told to stop: the contract of every Lathe binary.
const DefaultGrace = 20 * time.Second

// Pool runs tasks as processes, never more at once than its cores allow. Its
// fields may be set before the first Launch.
type Pool struct {
	// Grace is the time between the request to stop and SIGKILL.
	Grace time.Duration
	// Interrupt, when it is not nil, is asked once for each task that starts for a
	// channel on which it may be told what a cluster is to do to the task. Where a
	// more urgent job takes its place (CausePreempted) it gets SIGTERM, where its time
	// limit is over (CauseTimeout) SIGUSR2, and SIGKILL after the grace time, as it
	// would from Slurm; where its node is lost (CauseNodeFail) SIGKILL at once.
	Interrupt func(array executor.Array, shard int) <-chan executor.Cause

	// FindGPUs, when it is not nil, finds the GPUs of this machine, once, when a task first
	// asks for one. Each is then given to one task at a time, which sees it alone, and tasks
	// that ask for none see none. Where it is nil GPUs are not counted, and tasks see those
	// that this process sees. Steps of an allocation get theirs from srun. Where it returns
	// nil, tasks that ask for GPUs run without, and see none.
	FindGPUs func() *GPUs

	cores     int
	processes int
	free      *semaphore.Weighted // cores
	slots     *semaphore.Weighted // processes
	starter   starter

	finding sync.Once
	found   *counted // nil before, and where GPUs are not counted

	mu     sync.Mutex // guards closed, and orders Launch before Close
	closed bool
	tasks  sync.WaitGroup
}

// New returns a pool of processes of this machine that use up to that many
// cores together.
func New(cores int) *Pool {
	return newPool(max(1, cores), 0, processStarter{})
}

// newPool bounds the tasks by cores, and by their number when processes is
// not 0.
func newPool(cores, processes int, s starter) *Pool {
	if processes <= 0 || processes > cores {
		processes = cores // a task takes at least one core
	}
	return &Pool{
		Grace: DefaultGrace, cores: cores, processes: processes, starter: s,
		free: semaphore.NewWeighted(int64(cores)), slots: semaphore.NewWeighted(int64(processes)),
	}
}

// Cores is how many cores the tasks may use together.
func (p *Pool) Cores() int { return p.cores }

// Spare is whether a task may be given cores beyond those that it asks for: those of one
// machine, but not those of an allocation, which may lie on several nodes.
func (p *Pool) Spare() bool { _, own := p.starter.(processStarter); return own }

// Launch starts the tasks of an array as cores become free, in the order of
// their shards, and calls done once for each, from goroutines of its own.
// It does not wait for a task to start. When ctx ends, tasks that run are
// told to stop and those that wait are reported as stopped.
//
// An error means that no task was started and done is not called.
func (p *Pool) Launch(ctx context.Context, array executor.Array, done func(executor.Result)) error {
	if err := array.Validate(); err != nil {
		return err
	}
	if array.CPUs > p.cores {
		return exitcode.Unavailablef("a task of %s requests %s; this machine has %d", array.Name(), plural.Count(array.CPUs, "core"), p.cores)
	}
	if err := p.CheckGPUs(array.SiteStage(), array.GPUs); err != nil {
		return err
	}
	binary, err := exec.LookPath(array.Command[0])
	if err != nil {
		return exitcode.Unavailablef("find the program of %s: %w", array.Name(), err)
	}
	array.Command = append([]string{binary}, array.Command[1:]...)
	if err := os.MkdirAll(array.LogDir, 0o777); err != nil {
		return exitcode.IOf("create the log folder: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return exitcode.Bugf("array %s is launched on a pool that is closed", array.Name())
	}
	p.tasks.Add(1)
	go func() {
		defer p.tasks.Done()
		for _, shard := range array.Shards {
			p.launchOne(ctx, array, shard, done)
		}
	}()
	return nil
}

// launchOne waits for a place and runs one task in it.
func (p *Pool) launchOne(ctx context.Context, array executor.Array, shard int, done func(executor.Result)) {
	gpus, release, err := p.place(ctx, array)
	if err != nil {
		now := time.Now()
		done(executor.Result{
			Shard: shard, Exit: -1, Cause: executor.CauseStopped, Evidence: "not started: " + err.Error(),
			Start: now, End: now, Log: array.Log(shard),
		})
		return
	}
	p.tasks.Add(1)
	go func() {
		defer p.tasks.Done()
		result := p.run(ctx, p.withGPUs(array, gpus), shard)
		release() // before done, which may launch the next task
		done(result)
	}()
}

// Close waits until every launched task has ended. To end them sooner, end
// the contexts they were launched with.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.tasks.Wait()
	return nil
}

// arguments is the command line of a task.
func arguments(array executor.Array, shard int) []string {
	words := slices.Clone(array.Command)
	if !array.NoShard {
		words = append(words, "--shard", strconv.Itoa(shard))
	}
	return words
}

// openLog opens the log of a task for appending.
func openLog(path string) (*os.File, error) {
	log, err := plainfile.Create(path, os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return log, nil
}

// tail is what a log ends with, as far as it can be read.
func tail(path string) string {
	const most = 4 << 10
	log, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer log.Close()                                      // only read
	if _, err := log.Seek(-most, io.SeekEnd); err != nil { // it is shorter
		_, _ = log.Seek(0, io.SeekStart)
	}
	text, _ := io.ReadAll(log)
	return string(text)
}

// ownVariables are added to the environment of every task.
func ownVariables(array executor.Array) map[string]string {
	added := map[string]string{"LATHE_ATTEMPT": strconv.Itoa(array.Attempt)}
	maps.Copy(added, array.Env)
	return added
}

// belongsToArrayTask reports the variables by which a task would take itself
// for a task of the job array that this process runs in.
func belongsToArrayTask(name string) bool {
	return strings.HasPrefix(name, "SLURM_ARRAY_") || name == "SLURM_RESTART_COUNT"
}
