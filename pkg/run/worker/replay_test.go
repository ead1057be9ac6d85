package worker_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Once a run is made it needs its data files no more, nor to stay where it is.
func TestDataFilesMayGo(t *testing.T) {
	t.Parallel()
	opened, data := runtest.OnFiles(t)
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	runtest.Drive(t, opened)
	runtest.Exact(t, opened)
	for _, stage := range []graph.Stage{graph.StageRollout, graph.StageScore, graph.StageBuffer, graph.StageLearn, graph.StageEvaluate} {
		cited := false
		made, err := seal.Read(t.Context(), opened.Graph.Outputs(graph.Task{Node: graph.Node{Stage: stage, Iteration: 1}})[0], seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, input := range made.Inputs {
			cited = cited || input.Path == "tasks.parquet" && input.ContentSHA256 == opened.Identity.TasksSHA256
		}
		if want := stage != graph.StageLearn; cited != want {
			t.Errorf("%s cites the tasks: %v, want %v", stage, cited, want)
		}
	}
	there := graph.Dir(filepath.Join(t.TempDir(), "elsewhere"))
	if err := os.Rename(string(opened.Dir), string(there)); err != nil {
		t.Fatal(err)
	}
	moved := runtest.Open(t, there)
	runtest.Exact(t, moved)
	var tasks []graph.Task
	for _, n := range moved.Graph.Nodes() {
		tasks = append(tasks, graph.Task{Node: n})
	}
	results, err := worker.Replay(t.Context(), worker.New(moved, seal.AttemptFromEnv(), "test", t.Logf), tasks)
	if err != nil || len(results) < len(tasks) {
		t.Fatalf("%d results of %d tasks: %v", len(results), len(tasks), err)
	}
	for _, r := range results {
		if !r.Same {
			t.Errorf("%s is replayed to other bytes", r.Path)
		}
	}

	// A score that differs in what was measured is the same, one that differs in its reward
	// is not, and neither is taken from the run instead of made again.
	for _, c := range []struct {
		stage  graph.Stage
		change func(*shard.Score)
		same   bool
	}{
		{graph.StageScore, func(s *shard.Score) { s.ExecuteSeconds++ }, true},
		{graph.StageEvalScore, func(s *shard.Score) { s.Reward += 2 }, false},
	} {
		task := graph.Task{Node: graph.Node{Stage: c.stage, Iteration: 1}}
		path := moved.Graph.Outputs(task)[0]
		rows, m, err := shard.Read[shard.Score](t.Context(), path, seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.change(&rows[0])
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
		if m, err = shard.Write(path, rows, nil, seal.AttemptFromEnv(), m); err != nil {
			t.Fatal(err)
		}
		results, err := worker.Replay(t.Context(), worker.New(moved, seal.AttemptFromEnv(), "test", t.Logf), []graph.Task{task})
		if err != nil || len(results) != 1 || results[0].Same != c.same || results[0].Measured != c.same || results[0].Sealed != m.ContentSHA256 || results[0].Now == m.ContentSHA256 {
			t.Errorf("%s, changed: %+v, %v", task, results, err)
		}
	}
}
