package report

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func metricsOf(t *testing.T, r *rundir.Run, k int) []shard.Metric {
	t.Helper()
	rows, _ := must.Get2(measure.Metrics(context.Background(), r, k))(t)
	return rows
}

func usageOf(t *testing.T, r *rundir.Run, k int) []shard.Usage {
	t.Helper()
	_, rows := must.Get2(measure.Metrics(context.Background(), r, k))(t)
	return rows
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	f := finished(t)
	want := []shard.Metric{
		{Iteration: 0, Stage: "warm", Shard: 1, Name: "loss", Value: 1.5},
		{Iteration: 0, Stage: "warm", Shard: 1, Name: "tokens", Value: 1000},
		{Iteration: 0, Stage: "buffer", Shard: 0, Name: "curriculum_instances", Value: 0},
	}
	if diff := cmp.Diff(want, metricsOf(t, f.run, 0)); diff != "" {
		t.Errorf("metrics of iteration 0 (-want +got):\n%s", diff)
	}
	used := []shard.Usage{
		{Iteration: 0, Stage: "warm", Shard: 1, Name: "attempt", Value: 0},
		{Iteration: 0, Stage: "warm", Shard: 1, Name: "task_seconds", Value: 10},
		{Iteration: 0, Stage: "buffer", Shard: 0, Name: "attempt", Value: 0},
		{Iteration: 0, Stage: "buffer", Shard: 0, Name: "task_seconds", Value: 1},
	}
	if diff := cmp.Diff(used, usageOf(t, f.run, 0)); diff != "" {
		t.Errorf("usage of iteration 0 (-want +got):\n%s", diff)
	}
	rows := metricsOf(t, f.run, 1)
	sealed, m := must.Get2(shard.Read[shard.Metric](context.Background(), f.run.Dir.Metrics(1), seal.Options{}))(t)
	if diff := cmp.Diff(rows, sealed); diff != "" {
		t.Errorf("what is sealed differs from what was returned:\n%s", diff)
	}
	// Two rollouts, two scores, state, stats, batch, ledger and plan 2, policy and
	// optimizer.
	if m.Stage != "metrics" || m.Iteration != 1 || len(m.Inputs) != 11 {
		t.Errorf("manifest: stage %s, iteration %d, %d inputs", m.Stage, m.Iteration, len(m.Inputs))
	}
	if slices.IndexFunc(usageOf(t, f.run, 1), func(m shard.Usage) bool {
		return m.Stage == "rollout" && m.Shard == 1 && m.Name == "task_seconds" && m.Value == 8
	}) < 0 {
		t.Error("the second rollout did not take 8 s")
	}
	// A task's metrics are there once, however many outputs repeat them.
	seen := map[shard.Metric]bool{}
	for _, row := range rows {
		row.Value = 0
		if seen[row] {
			t.Errorf("%+v is there twice", row)
		}
		seen[row] = true
	}
}

func TestMetricsOfAnUnfinishedIteration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.begin()
	f.sample(1, 0, "a", [2]float64{12, 15}, [2]float64{16, 17})
	if rows := metricsOf(t, f.run, 1); len(rows) == 0 {
		t.Error("nothing of what is there")
	}
	if _, err := seal.Read(context.Background(), f.run.Dir.Metrics(1), seal.Options{}); !errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("an iteration that is not complete was sealed: %v", err)
	}
}

// A damaged table is made again from the manifests.
func TestDamagedMetrics(t *testing.T) {
	t.Parallel()
	f := finished(t)
	ctx := context.Background()
	metrics, usage := metricsOf(t, f.run, 2), usageOf(t, f.run, 2)
	for _, path := range []string{f.run.Dir.Metrics(2), f.run.Dir.Usage(2)} {
		must.Do(t, os.WriteFile(path, []byte("damage"), 0o666))
		if diff := cmp.Diff(metrics, metricsOf(t, f.run, 2)) + cmp.Diff(usage, usageOf(t, f.run, 2)); diff != "" {
			t.Errorf("sealed and gathered metrics differ:\n%s", diff)
		}
		if _, err := seal.Verify(ctx, path, seal.Options{}); err != nil {
			t.Errorf("the damage was not mended: %v", err)
		}
	}
}

// Gradient shards have one learn task per optimizer step: its number is in
// the name.
func TestMetricsOfShardedLearner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "schedule.gradient_shards=2", "loss.mini_batches=2")
	a, m := f.job("a", 0, 1, graph.StageGradient, 1, 1, 2, map[string]float64{"tokens": 7})
	m.Step = 1
	f.check(seal.WriteBytes(f.run.Dir.Gradient(1, 1, 1), []byte("a gradient"), a, m))
	rows := metricsOf(t, f.run, 1)
	want := shard.Metric{Iteration: 1, Stage: "gradient", Shard: 1, Name: "step-001/tokens", Value: 7}
	if !slices.Contains(rows, want) {
		t.Errorf("%+v is not in %+v", want, rows)
	}
}
