package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/logs"
)

// MeetingName is the name of the job whose two tasks meet in a folder.
const MeetingName = "lathe-doctor"

// Meet has two tasks of one job on two nodes write into the folder for each other,
// and reports what they saw and what the nodes are. It waits for the job for so long.
func (c *Cluster) Meet(ctx context.Context, r *Report, wait time.Duration) error {
	const from = "a job of two tasks, on two nodes if there are two"
	if err := c.meet(ctx, r, from, wait); err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.add("between nodes", Problem, err.Error(), from)
	}
	return nil
}

func (c *Cluster) meet(ctx context.Context, r *Report, from string, wait time.Duration) error {
	nodes := min(2, c.Partition.Nodes)
	trial, err := c.trialFolder()
	if err != nil {
		return err
	}
	defer os.RemoveAll(trial)
	script, log := c.meetingScript(trial, nodes), filepath.Join(trial, "log")
	id, err := c.Slurm.Submit(ctx, script, MeetingName, slurm.Dependency{})
	if err != nil {
		r.add("between nodes", Problem, err.Error(), from)
		return nil
	}
	job := slurm.Job{ID: id, Name: MeetingName, Shards: []int{0}}
	said := func() string {
		lines, _, err := logs.Tail(log, 5)
		if err != nil {
			return err.Error()
		}
		return strings.Join(lines, "; ")
	}
	for deadline := time.Now().Add(wait); ; {
		a, errA := readWitness(trial, 0)
		b, errB := readWitness(trial, 1)
		if errA == nil && errB == nil {
			for i, w := range []Witness{a, b} {
				if i == 0 || w.Host.Name != a.Host.Name {
					w.Host.reportOn(r)
				}
			}
			reportWitnesses(r, a, b)
			return c.Slurm.Cancel(ctx, id)
		}
		states, err := c.Slurm.States(ctx, slurm.Limits{}, []slurm.Job{job})
		if err != nil {
			return err
		}
		state := states.Of(job.Tasks()[0])
		if state.Phase == slurm.PhaseEnded && time.Since(state.End) > 10*time.Second {
			r.add("between nodes", Problem, fmt.Sprintf("job %s ended but its two tasks wrote nothing: %s; its log: %s", id, state.Evidence, said()),
				from+"; the nodes must see this binary and the folder")
			return nil
		}
		if time.Now().After(deadline) {
			r.add("between nodes", Unknown, fmt.Sprintf("job %s did not end within %v: %s; retry with a larger --wait-seconds", id, wait, state.Evidence), from)
			return c.Slurm.Cancel(ctx, id)
		}
		select {
		case <-ctx.Done():
			_ = c.Slurm.Cancel(context.WithoutCancel(ctx), id) // the person goes
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// meetingScript is the job. Memory is not asked for: not every site takes that.
func (c *Cluster) meetingScript(trial string, nodes int) []byte {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	flags := append(c.BaseFlags(), fmt.Sprintf("--nodes=%d", nodes), "--ntasks=2", fmt.Sprintf("--ntasks-per-node=%d", 2/max(1, nodes)), "--cpus-per-task=1", "--time=5", "--no-requeue")
	slices.Sort(flags)
	for _, flag := range flags {
		fmt.Fprintf(&b, "#SBATCH %s\n", flag)
	}
	fmt.Fprintf(&b, "#SBATCH --output=%s\n", slurm.Directive(strings.ReplaceAll(filepath.Join(trial, "log"), "%", "%%")))
	for _, line := range c.Site.Setup {
		b.WriteString(line + "\n")
	}
	fmt.Fprintf(&b, "exec srun --ntasks=2 --cpus-per-task=1 %s doctor --witness %s\n", slurm.Word(c.Binary), slurm.Word(trial))
	return []byte(b.String())
}
