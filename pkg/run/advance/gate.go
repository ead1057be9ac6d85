package advance

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// GoesByShard reports whether shards of a node do not wait for the rest of its
// array: they go through waves, or their iteration may be closed without some.
func GoesByShard(g graph.Graph, n graph.Node) bool {
	return g.Waves(n.Stage) > 1 || g.MayBeLate() && n.OfTraces() && !n.HeldOut()
}

func (a *Advancer) goesByShard(s Submission) bool { return GoesByShard(a.Run.Graph, s.Node()) }

// MostWatched bounds the tasks whose ends one gate follows. The other tasks are
// looked at when one of these has ended.
const MostWatched = 100

// watch lists the tasks that are pending or running whose shards do not wait for
// each other, those that run first: they end first.
func (a *Advancer) watch(view *jobsView, submitted []Submission) []slurm.TaskID {
	var running, pending []slurm.TaskID
	for _, s := range view.submissions {
		if !a.goesByShard(s) {
			continue
		}
		for id, t := range s.all() {
			if !view.live[t] { // cancelled
				continue
			}
			switch view.states.Of(id).Phase {
			case slurm.PhaseRunning:
				running = append(running, id)
			case slurm.PhasePending:
				pending = append(pending, id)
			}
		}
	}
	for _, s := range submitted {
		if !a.goesByShard(s) {
			continue
		}
		for _, job := range s.Jobs {
			pending = append(pending, job.Tasks()...)
		}
	}
	return Watched(running, pending)
}

// Watched are the tasks whose ends one gate follows, of those that run and those
// that wait.
func Watched[T any](running, pending []T) []T {
	live := slices.Concat(running, pending)
	return live[:min(len(live), MostWatched)]
}

// gate submits the job that advances the run when what it waits for has come.
// Of gates that run at once, claims let one submit each array.
func (a *Advancer) gate(ctx context.Context, wait slurm.Dependency, limits slurm.Limits) (*slurm.Job, error) {
	if len(wait.AfterAny) == 0 && len(wait.AfterFirst) == 0 && wait.Delay == 0 {
		wait.Delay = idleGateDelay
	}
	jobs, err := a.Cluster.SubmitArray(ctx, GateArray(a.Run, a.Binaries, a.Site.SHA256, a.Attempt.Number), limits, a.Run.Dir.Jobs(), wait)
	if err != nil {
		return nil, fmt.Errorf("submitting the controller job: %w", err)
	}
	return &jobs[0], nil
}

// idleGateDelay is how long a gate that follows nothing waits before it looks
// again.
const idleGateDelay = 30 * time.Second

// lastGate is the gate that was last submitted for no submission of its own.
type lastGate struct {
	slurm.Job
	First bool `json:"first"` // it follows the first end among tasks, and not all of them
}

// lastGate submits a gate that belongs to no submission, and notes it.
func (a *Advancer) lastGate(ctx context.Context, wait slurm.Dependency, limits slurm.Limits) error {
	gate, err := a.gate(ctx, wait, limits)
	if err != nil {
		return err
	}
	return seal.ReplaceJSON(lastGatePath(a.Run.Dir), lastGate{*gate, len(wait.AfterFirst) > 0}, a.Attempt)
}

func lastGatePath(d graph.Dir) string { return filepath.Join(d.Jobs(), "gate.json") }

func readLastGate(d graph.Dir) (gate lastGate, ok bool) {
	content, err := plainfile.Read(lastGatePath(d), plainfile.MaxDocument)
	return gate, err == nil && json.Unmarshal(content, &gate) == nil && len(gate.Shards) == 1 && submittedFrom(d.Jobs(), gate.Job)
}

// GateArray is a controller job of a run. It takes the site profile that is in the run,
// whose digest it is told: what that says is run by a shell.
func GateArray(r *rundir.Run, binaries, siteSHA256 string, number int) executor.Array {
	q := r.Recipe.Resources.Stages.Gate
	return executor.Array{
		Run: r.Identity.RunID, Stage: slurm.GateStage, Attempt: number, Shards: []int{0}, NoShard: true,
		Command: append([]string{filepath.Join(binaries, "lathe"), "advance", "--run", string(r.Dir), "--executor", "slurm", "--site", sitePath(r.Dir), "--site-sha256", siteSHA256, "--unless-paused"},
			r.Graph.ExtendedFlag()...),
		CPUs: max(1, q.CPUs), MemoryGB: q.MemoryGB, GPUs: q.GPUs, Minutes: q.Minutes, LogDir: r.Dir.Logs(), Env: drive.WithTrust(map[string]string{}),
	}
}

func ids(jobs []slurm.Job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.ID
	}
	return out
}

func (a *Advancer) liveJobs(view *jobsView, submitted []Submission) []string {
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
	return ids(live)
}
