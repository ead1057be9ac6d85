package run_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestOneIteration: the iteration that example_iteration_test.go spells out in memory has
// the weights and the state of the curriculum that a run has by its tasks and files.
func TestOneIteration(t *testing.T) {
	t.Parallel()
	opened := runtest.Finish(t, runtest.Smoke(), "schedule.iterations=1", "schedule.gradient_units=1", "warm_start.chunk=300")
	environment, _, err := opened.Environment(t.Context(), nil, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chooser, err := opened.Recipe.NewCurriculum()
	if err != nil {
		t.Fatal(err)
	}
	it := iteration{recipe: opened.Recipe, environment: environment, curriculum: chooser, policy: opened.Dir.Policy(0), k: 1}
	weights, state := it.run(t.Context())
	_, want, err := checkpoint.Load(opened.Dir.Policy(1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, weights); diff != "" {
		t.Errorf("weights of policy version 1 (-run +in memory):\n%.2000s", diff)
	}
	entries, _, err := shard.Read[shard.Entry](t.Context(), opened.Dir.State(1), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(curriculum.State{Iteration: 1, Entries: entries}, state); diff != "" {
		t.Errorf("state of the curriculum (-run +in memory):\n%.2000s", diff)
	}
}
