package advance

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// AwaitWarmStart has a run take the warm start of another, which Slurm runs, once
// that has made it, and make none of its own as long as that is at it.
func AwaitWarmStart(of, other graph.Dir, attempt seal.Attempt) error {
	return seal.Replace(awaitedPath(of), []byte(string(other)+"\n"), attempt)
}

// awaitedPath is the file that names the run whose warm start is waited for.
func awaitedPath(d graph.Dir) string { return filepath.Join(d.Jobs(), "warmstart") }

// takeWarmStart seals the warm start that the run waits for, if it has been made. making
// are the jobs of the other run that come to it, as long as it has not: none where the
// other run has failed, was cancelled or is gone, and then this run makes its own.
func (a *Advancer) takeWarmStart(ctx context.Context, limits slurm.Limits) (making []slurm.Job, err error) {
	content, err := plainfile.Read(awaitedPath(a.Run.Dir), plainfile.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, sealed, err := seal.Check(ctx, a.Run.Dir.Policy(0), a.Run.Graph.Reading(0)); err != nil || sealed {
		return nil, err
	}
	other, err := rundir.Open(ctx, graph.Dir(strings.TrimSpace(string(content))))
	if errors.Is(err, seal.ErrNotSealed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	shared, err := sweep.ShareWarmStart(ctx, a.Run, other, a.Attempt, a.Version)
	if shared {
		a.Log("the run begins with the warm start of %s", other.Dir)
	}
	if shared || err != nil {
		return nil, err
	}
	return a.warming(ctx, other.Dir, limits)
}

// warming are the jobs of another run that make its warm start or resume it.
func (a *Advancer) warming(ctx context.Context, d graph.Dir, limits slurm.Limits) ([]slurm.Job, error) {
	listed, err := listSubmissions(d)
	if err != nil {
		return nil, err
	}
	var jobs []slurm.Job
	for _, s := range listed.read(d, func(n graph.Node) bool { return n.Stage == graph.StageWarm }) {
		jobs = append(jobs, s.Jobs...)
		if s.Gate != nil {
			jobs = append(jobs, *s.Gate)
		}
	}
	if last, known := readLastGate(d); known {
		jobs = append(jobs, last.Job)
	}
	states, err := a.Cluster.States(ctx, limits, jobs)
	return slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !states.Live(j) }), err
}

// unawaited are the tasks that are ready and do not make what is waited for.
func unawaited(ready []graph.Task, making []slurm.Job) []graph.Task {
	if len(making) == 0 {
		return ready
	}
	return slices.DeleteFunc(slices.Clone(ready), func(t graph.Task) bool { return t.Stage == graph.StageWarm })
}
