package graph_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TaskOf is the inverse of Outputs, for every output that a run can have.
func TestTaskOfAnOutput(t *testing.T) {
	t.Parallel()
	for _, settings := range [][]string{
		{"schedule.iterations=3", "rollout.shards=3", "schedule.staleness=1", "evaluation.every=1"},
		{"schedule.iterations=2", "schedule.gradient_shards=2", "loss.mini_batches=3", "warm_start.chunk=100"},
		{"schedule.iterations=2", "policy.lora.rank=4", "loss.kl.ref_every=0"},
		{"schedule.iterations=2", "loss.kl.coef=0.1", "loss.kl.ref_every=1"},
		{"schedule.iterations=2", "schedule.gradient_shards=2", "loss.mini_batches=2", "preset=ppo", "factors=[]", "policy.critic=model"},
	} {
		g := planned(t, settings...)
		nodes := g.Nodes()
		for k := 1; k <= g.Recipe.Schedule.Iterations; k++ {
			nodes = append(nodes, graph.Node{Stage: graph.StageClose, Iteration: k}, graph.Node{Stage: graph.StageMetrics, Iteration: k})
		}
		for _, n := range nodes {
			for shard := range g.Shards(n) {
				task := graph.Task{Node: n, Shard: shard}
				for _, path := range g.Outputs(task) {
					if got, made := g.TaskOf(path); !made || got != task {
						t.Errorf("%q is made by %v (%v), want %v", path, got, made, task)
					}
				}
			}
		}
		for _, rel := range []string{
			"run.json", "recipe.yaml", "tasks.parquet", "iter/000009/plan.parquet", "iter/000001/rollout/00099.parquet", "iter/1/plan.parquet",
			"iter/000001/w01/rollout/00000.parquet", "policy/v000099", "policy/v000000.ref", "policy/v000001.ref.optim", "policy/v000000.critic", "iter/000000/batch.arrow", "iter/000000/close.json", "notes.txt",
			"iter/000001/score/00000.parquet.json", "policy/v000001/model.safetensors", "../other/iter/000001/plan.parquet", "iter/999999999999999999999/plan.parquet",
		} {
			if got, made := g.TaskOf(filepath.Join(string(g.Dir), rel)); made {
				t.Errorf("%q is made by %v", rel, got)
			}
		}
	}
}

// A sealed file is a task's by what its manifest says.
func TestAccept(t *testing.T) {
	t.Parallel()
	g := planned(t, "schedule.iterations=2", "rollout.shards=3")
	g.RunID, g.RecipeSHA256 = "here-1", "aa"
	task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}, Shard: 2}
	path := g.Dir.Rollout(1, 2)
	for _, c := range []struct {
		change func(m *seal.Manifest)
		want   string
	}{
		{func(*seal.Manifest) {}, ""},
		{func(m *seal.Manifest) { m.PolicyVersion = 7; m.Attempt = 3 }, ""},
		{func(m *seal.Manifest) { m.Run = "there-2" }, `it is of run "there-2", and this is run "here-1"`},
		{func(m *seal.Manifest) { m.RecipeSHA256 = "bb" }, "it was made by a recipe with sha256 bb, and the run's has aa"},
		{func(m *seal.Manifest) { m.Seed++ }, "it was made with seed 2, and the run's is 1"},
		{func(m *seal.Manifest) { m.Shard = 0 }, "it is the work of rollout-000001-00000, and here belongs that of rollout-000001-00002"},
		{func(m *seal.Manifest) { m.Iteration = 2 }, "it is the work of rollout-000002-00002, and here"},
		{func(m *seal.Manifest) { m.Wave = 1 }, "it is the work of rollout-000001-w01-00002, and here"},
		{func(m *seal.Manifest) { m.Stage = "score" }, "it is the work of score-000001-00002, and here"},
		{func(m *seal.Manifest) { m.Of = 4 }, "it is one of 4 shards, and here belongs one of 3"},
	} {
		m := g.Expected(task)
		c.change(&m)
		err := g.Accept(path, m)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("the task's own: %v", err)
		case c.want != "" && (err == nil || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if err := g.Accept("/elsewhere/policy", seal.Manifest{Run: "there-2"}); err != nil {
		t.Errorf("outside the run: %v", err)
	}
}
