package drive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// movers is a launcher whose tasks move outputs into place that were sealed
// elsewhere: it opens and lists nothing.
type movers struct {
	t      *testing.T
	staged graph.Graph // where the outputs lie
	run    *rundir.Run
}

func (movers) Cores() int   { return 2 }
func (movers) Spare() bool  { return true }
func (movers) Close() error { return nil }

func (m movers) Launch(_ context.Context, a executor.Array, done func(executor.Result)) error {
	task := graph.Task{Node: graph.Node{Stage: graph.Stage(a.Stage), Iteration: a.Iteration, Step: a.Step}, Shard: a.Shards[0]}
	from, to := m.staged.Outputs(task), m.run.Graph.Outputs(task)
	var err error
	for i := range from {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(to[i]), 0o777),
			os.Rename(from[i], to[i]), os.Rename(seal.ManifestPath(from[i]), seal.ManifestPath(to[i])))
	}
	if err != nil {
		return err
	}
	go done(executor.Result{Shard: task.Shard, Cause: executor.CauseOK})
	return nil
}

// The driver looks at a folder a bounded number of times, and at a file as often
// as its task ends, however many shards there are.
func TestDriverDoesNotSurveyAfterEveryTask(t *testing.T) {
	t.Parallel()
	const shards = 120
	n := fmt.Sprint(shards)
	dir := graph.Dir(filepath.Join(t.TempDir(), "run"))
	r, err := rundir.Create(t.Context(), dir, runtest.Load(t), seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	staged := runtest.NewBoard(t, "schedule.iterations=1", "rollout.prompts="+n, "rollout.shards="+n)
	r.Recipe, r.Graph.Recipe = staged.Recipe, staged.Recipe
	staged.RunID, staged.RecipeSHA256 = r.Graph.RunID, r.Graph.RecipeSHA256
	for _, node := range staged.Nodes() {
		staged.Seal(node)
	}
	rollouts, scores := filepath.Dir(dir.Rollout(1, 0)), filepath.Dir(dir.Score(1, 0))
	if err := errors.Join(os.MkdirAll(rollouts, 0o777), os.MkdirAll(scores, 0o777)); err != nil {
		t.Fatal(err)
	}
	opens := runtest.CountOpens(t, rollouts, scores)
	driver := &drive.Driver{Run: r, Launcher: movers{t, staged.Graph, r}, Attempt: seal.AttemptFromEnv(), Version: "test"}
	started := time.Now()
	if err := driver.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%v a task", time.Since(started)/(2*shards))
	listings, files := opens.Counts()
	// Sweeps list at the start and at the end; nodes that are done, in between.
	for _, folder := range []string{rollouts, scores} {
		if listings[folder] > 10 {
			t.Errorf("%s was listed %d times for %d tasks", dir.Rel(folder), listings[folder], shards)
		}
	}
	for path, times := range files {
		if times > 1 {
			t.Errorf("%s was opened %d times", dir.Rel(path), times)
		}
	}
	if len(files) != 4*shards {
		t.Errorf("%d files were opened, want the %d outputs and their manifests", len(files), 2*shards)
	}
}
