package advance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// Cancelled counts the jobs and job arrays that were cancelled.
type Cancelled struct {
	Gates  int `json:"gates"`
	Arrays int `json:"arrays"`
}

// looks bounds how often the queue is looked at for what a gate submitted that
// was at it when the run was paused.
const looks = 10

// lookAgain is the time between two looks. A test waits less.
var lookAgain = time.Second

// Cancel takes a run that is paused out of the queue: the gates, and what the
// pause stops. A pause that stops nothing leaves what runs alone and takes out what
// waits. now kills what runs without giving it time to stop.
func Cancel(ctx context.Context, c *slurm.Cluster, d graph.Dir, runID string, p rundir.Pause, now bool) (Cancelled, error) {
	gates, arrays := map[string]bool{}, map[string]bool{}
	prefix := slurm.NamePrefix(runID)
	for look := range looks {
		queue, err := c.Queue(ctx, prefix)
		if err != nil {
			return Cancelled{}, err
		}
		var first, rest []string // gates come first: they submit what the others lack
		left := 0                // gates that run, which leave by themselves
		for _, job := range queue {
			node := strings.TrimPrefix(job.Name, prefix)
			switch {
			case !isOf(job, d, runID):
			case node == slurm.GateStage && (job.Pending || p.Stop):
				first, gates[job.ID] = append(first, job.ID), true
			case node == slurm.GateStage:
				left++
			case !p.Stop && job.Pending || stops(p, node):
				rest, arrays[job.ID] = append(rest, job.ID), true
			}
		}
		ids := unique(append(first, rest...))
		if len(ids) == 0 && left == 0 || look == looks-1 && len(ids) == 0 {
			return Cancelled{len(gates), len(arrays)}, nil
		}
		cancel := c.Cancel
		switch {
		case now:
			cancel = c.CancelNow
		case !p.Stop:
			cancel = c.CancelWaiting
		}
		if err := cancel(ctx, ids...); err != nil {
			return Cancelled{}, err
		}
		select {
		case <-ctx.Done():
			return Cancelled{}, ctx.Err()
		case <-time.After(lookAgain):
		}
	}
	return Cancelled{len(gates), len(arrays)}, fmt.Errorf("jobs %s are still in the queue after %d attempts to cancel them", strings.Join(append(slices.Sorted(maps.Keys(gates)), slices.Sorted(maps.Keys(arrays))...), ", "), looks)
}

// stops reports whether a pause stops the tasks of a job, by the name of their
// node: STAGE-ITERATION, and perhaps a step or a wave.
func stops(p rundir.Pause, node string) bool {
	stage, rest, _ := strings.Cut(node, "-")
	number, _, _ := strings.Cut(rest, "-")
	iteration, err := strconv.Atoi(number)
	return err == nil && p.Stops(graph.Node{Stage: graph.Stage(stage), Iteration: iteration})
}

// unique keeps the first of each.
func unique(ids []string) []string {
	listed := make(map[string]bool, len(ids))
	return slices.DeleteFunc(ids, func(id string) bool {
		again := listed[id]
		listed[id] = true
		return again
	})
}
