package command

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
)

// How often the files of runs on Slurm are looked at, and how often Slurm is asked
// whether one has failed: that is a call for each run.
const (
	lookAtRuns  = 5 * time.Second
	askForState = 2 * time.Minute
)

// await waits until one of the runs that Slurm runs has ended where others may
// wait for it, and until all have where none does. It returns how many are left.
func await(ctx context.Context, b begun) (left int, err error) {
	dirs, first := b.dirs, -1
	for asked := time.Now(); ; {
		ask := time.Since(asked) >= askForState
		if ask {
			asked = time.Now()
		}
		if dirs, err = underWay(ctx, dirs, ask); err != nil {
			return 0, err
		}
		if left != len(dirs) {
			fmt.Fprintf(os.Stderr, "lathe: %s in progress\n", plural.Of(len(dirs), len(b.dirs), "run"))
		}
		left = len(dirs)
		if first < 0 {
			first = left
		}
		if left == 0 || left < first && len(b.waiting) > 0 {
			return left, nil
		}
		select {
		case <-ctx.Done():
			return left, exitcode.WithHint(ctx.Err(), "the runs continue on the cluster; run the same command again to continue the plan")
		case <-time.After(lookAtRuns):
		}
	}
}

// underWay are those of the runs that are neither done nor, where Slurm is asked, have
// failed or are stuck.
func underWay(ctx context.Context, dirs []string, ask bool) ([]string, error) {
	var left []string
	for _, dir := range dirs {
		opened, err := rundir.Open(ctx, graph.Dir(dir))
		if err != nil {
			return nil, err
		}
		state, err := status.ReadState(ctx, opened)
		if err == nil && ask && state != status.StateDone {
			seen, unasked := seeJobs(ctx, opened)
			var s status.Status
			if s, err = status.Read(ctx, opened, seen, unasked); err == nil {
				state = s.State
			}
		}
		if err != nil {
			return nil, err
		}
		if state != status.StateDone && state != status.StateFailed && state != status.StateStuck {
			left = append(left, dir)
		}
	}
	return left, nil
}
