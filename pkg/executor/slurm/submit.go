package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// Job is one submitted job or job array.
type Job struct {
	ID        string    `json:"id"`    // Slurm's; with ";CLUSTER" where there are several
	Name      string    `json:"name"`  //
	Stage     string    `json:"stage"` //
	Iteration int       `json:"iteration"`
	Step      int       `json:"step"`
	Attempt   int       `json:"attempt"`
	Array     bool      `json:"array"`  // whether its tasks have an index
	Shards    Shards    `json:"shards"` // task i does Shards[i]
	Script    string    `json:"script"` // a copy of what was submitted
	Submitted time.Time `json:"submitted"`
}

// Tasks lists the tasks of the job, in the order of its shards.
func (j Job) Tasks() []TaskID {
	tasks := make([]TaskID, len(j.Shards))
	for i := range tasks {
		tasks[i] = TaskID{Job: bareID(j.ID), Index: i}
		if !j.Array {
			tasks[i].Index = NoIndex
		}
	}
	return tasks
}

// Dependency is what a job waits for.
type Dependency struct {
	AfterAny   []string      // ids of jobs that must have ended, however they did
	AfterFirst []TaskID      // tasks of which one must have ended, however it did; not with AfterAny
	Delay      time.Duration // that must have passed; rounded up to seconds
}

// flags are those of sbatch.
func (d Dependency) flags() []string {
	var flags []string
	if len(d.AfterAny) > 0 {
		var ids []string
		for _, id := range d.AfterAny {
			ids = append(ids, bareID(id))
		}
		flags = append(flags, "--dependency=afterany:"+strings.Join(ids, ":"))
	}
	if len(d.AfterFirst) > 0 {
		var ends []string
		for _, task := range d.AfterFirst {
			ends = append(ends, "afterany:"+task.String())
		}
		flags = append(flags, "--dependency="+strings.Join(ends, "?"))
	}
	if d.Delay > 0 {
		flags = append(flags, fmt.Sprintf("--begin=now+%d", int(math.Ceil(d.Delay.Seconds()))))
	}
	return flags
}

// SubmitArray splits an array into chunks and submits them, leaving a copy of
// each script in the folder jobs. It returns the jobs that were submitted
// even if it fails for a later one; with [ErrQueueFull] the others may follow
// when there is room again.
func (c *Cluster) SubmitArray(ctx context.Context, array executor.Array, limits Limits, jobs string, wait Dependency) ([]Job, error) {
	site, err := c.site.Stage(array.SiteStage())
	if err != nil {
		return nil, err
	}
	chunks, err := Plan(array, limits, site.Throttle)
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{array.LogDir, jobs} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return nil, exitcode.IOf("create a folder of the run: %w", err)
		}
	}
	var submitted []Job
	for _, chunk := range chunks {
		script, err := Script(array, chunk, c.site)
		if err != nil {
			return submitted, err
		}
		path := filepath.Join(jobs, ScriptName(array, chunk))
		if err := plainfile.Write(path, script); err != nil {
			return submitted, exitcode.IOf("writing a job script: %w", err)
		}
		waits := wait
		if chunk.After >= 0 {
			waits.AfterAny = append(append([]string(nil), wait.AfterAny...), submitted[chunk.After].ID)
		}
		id, err := c.Submit(ctx, script, JobName(array), waits)
		if err != nil {
			return submitted, fmt.Errorf("submitting %s, chunk %d of %d: %w", array.Name(), chunk.Number+1, chunk.Of, err)
		}
		submitted = append(submitted, Job{
			ID: id, Name: JobName(array), Stage: array.Stage, Iteration: array.Iteration, Step: array.Step, Attempt: array.Attempt,
			Array: !array.NoShard, Shards: chunk.Shards, Script: path, Submitted: time.Now().UTC(),
		})
	}
	return submitted, nil
}

// ScriptName is the name of the copy of a chunk's script.
func ScriptName(array executor.Array, chunk Chunk) string {
	if chunk.Of == 1 {
		return fmt.Sprintf("%s.%d.sh", array.Name(), array.Attempt)
	}
	return fmt.Sprintf("%s.%d.chunk%d.sh", array.Name(), array.Attempt, chunk.Number)
}

// Submit submits a script under a job name and returns the id of the job.
//
// When sbatch fails although the controller may have taken the job, the queue
// is searched for it before it is submitted again: each submission carries a
// mark of its own in its comment.
func (c *Cluster) Submit(ctx context.Context, script []byte, name string, wait Dependency) (string, error) {
	mark := "lathe-submission-" + rand.Text()
	args := []string{"--parsable", "--comment=" + mark}
	args = append(args, wait.flags()...)
	retried := false
	id, err := c.retry(ctx, func() (string, error) {
		if retried {
			if id, found := c.findMark(ctx, name, mark); found {
				return id, nil
			}
		}
		retried = true
		out, err := c.run(ctx, script, "sbatch", args...)
		if err != nil {
			return "", err
		}
		return parseJobID(out)
	})
	if failed := (*commandError)(nil); errors.As(err, &failed) && (failed.late || failed.again(0)) { // the last attempt may have been taken too
		if id, found := c.findMark(ctx, name, mark); found {
			return id, nil
		}
	}
	if err != nil {
		return "", c.explainSubmission(ctx, err)
	}
	return id, nil
}

// Try has Slurm look at the script of a job and submits nothing (sbatch --test-only). It
// is an error if the job would be refused; one that would wait, however long, is none.
// Slurm looks at nodes that are up alone then, and sbatch itself at all: while some are
// down or drained, that none fits says nothing.
func (c *Cluster) Try(ctx context.Context, script []byte) error {
	_, err := c.Ask(ctx, script, "sbatch", "--test-only")
	if means, failed := meaning(err); failed && (means == full || means == closed) {
		return nil
	}
	if err = c.explainSubmission(ctx, err); errors.Is(err, ErrQueueFull) {
		return nil
	}
	if err != nil && strings.Contains(err.Error(), noNodeFits) && c.lacksNodes(ctx) {
		return nil
	}
	return err
}

// noNodeFits is what Slurm says of a job for which no node is large enough.
const noNodeFits = "Requested node configuration is not available"

// lacksNodes reports whether a node is neither working nor ready to.
func (c *Cluster) lacksNodes(ctx context.Context) bool {
	out, err := c.Ask(ctx, nil, "sinfo", "-h", "-N", "-o", "%T")
	return err == nil && unavailable(strings.Fields(out))
}

// unavailable reports whether one of the states of nodes, as sinfo writes them, is none of
// a node that works or is ready to.
func unavailable(states []string) bool {
	return slices.ContainsFunc(states, func(state string) bool {
		return !slices.Contains([]string{"idle", "mixed", "allocated", "completing", "planned"}, state)
	})
}

// findMark looks for a submission of ours in the queue. Not finding it proves
// nothing; submitting twice wastes time and harms nothing.
func (c *Cluster) findMark(ctx context.Context, name, mark string) (id string, found bool) {
	out, err := c.run(ctx, nil, "squeue", "-h", "-t", "all", "--name="+name, "-o", "%F %k")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(out) {
		if id, comment, _ := strings.Cut(strings.TrimSpace(line), " "); comment == mark {
			return id, true
		}
	}
	return "", false
}

// Cancel cancels jobs and single tasks of arrays, by ids such as 12 and
// 12_3. Those that have ended already are no error.
func (c *Cluster) Cancel(ctx context.Context, ids ...string) error { return c.cancel(ctx, nil, ids) }

// cancel runs scancel with flags, in as many calls as the ids need.
func (c *Cluster) cancel(ctx context.Context, flags, ids []string) error {
	for part := range slices.Chunk(ids, idsPerCall) {
		args := slices.Clone(flags)
		for _, id := range part {
			args = append(args, bareID(id))
		}
		_, err := c.Ask(ctx, nil, "scancel", args...)
		if err != nil && !isGone(err) {
			return explain(err)
		}
	}
	return nil
}
