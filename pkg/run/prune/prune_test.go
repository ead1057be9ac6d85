package prune_test

import (
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/prune"
)

// The learner computes what a server has not told, under each policy that has
// sampled: those stay.
func TestPruningWithAServer(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=5", "schedule.staleness=1", "schedule.oversample=1.5", "rollout.prompts=8", "rollout.shards=3",
		`rollout.remote.serve=[x, "{policy}", "{port}"]`)
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	for k := 1; k <= 4; k++ {
		late := 1 // of iteration 3, sampled by version 1
		for shard := range 3 {
			if k != 3 || shard != late {
				b.Seal(runtest.Node(graph.StageRollout, k), shard)
				b.Seal(runtest.Node(graph.StageScore, k), shard)
			}
		}
		if k == 4 {
			b.Seal(runtest.Node(graph.StageRollout, 3), late)
			b.Seal(runtest.Node(graph.StageScore, 3), late)
		}
		b.Close()
		b.Seal(runtest.Node(graph.StageBuffer, k))
		if k < 4 {
			b.Seal(runtest.Node(graph.StageLearn, k))
		}
	}
	b.Ready("learn-000004-00000", "rollout-000005-00000", "rollout-000005-00001", "rollout-000005-00002")
	pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: 5})
	if err != nil || len(pruned.Paths) > 0 {
		t.Errorf("learning iteration 4 takes versions 1, 2 and 3, and removed are %v: %v", pruned.Paths, err)
	}
}

// The policy that adapters are of is never pruned: the warm start that made it
// counts as made all the same.
func TestPrunedWarmStartOfAnAdapter(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=2", "policy.lora={rank: 2, alpha: 4}", "loss.kl.ref_every=0", "warm_start.chunk=100")
	for k := 1; k <= 3; k++ {
		b.Seal(runtest.Node(graph.StageWarm, k))
	}
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	if pruned, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), prune.Options{KeepEvery: 1}); err != nil || len(pruned.Paths) != 4 {
		t.Errorf("removed are %v: %v", pruned.Paths, err)
	}
	for k := 1; k <= 3; k++ {
		if made, err := b.Surveyor.Made(t.Context(), graph.Task{Node: runtest.Node(graph.StageWarm, k)}); !made || err != nil {
			t.Errorf("checkpoint %d was made: %v, %v", k, made, err)
		}
	}
}

// A gate prunes whenever it looks: the folders of iterations of which nothing is left to
// prune are not listed, however many they are.
func TestPruningLeavesPrunedIterationsAlone(t *testing.T) {
	t.Parallel()
	const last, keep = 5, 4
	b := runtest.NewBoard(t, "schedule.iterations=5", "schedule.gradient_shards=2", "loss.mini_batches=2", "loss.kl.coef=0")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	var folders []string
	for k := 1; k <= last; k++ {
		for _, n := range b.LearnNodes(k) {
			b.Seal(n)
		}
		b.Seal(runtest.Node(graph.StageBuffer, k))
		folders = append(folders, b.Dir.Iteration(k), filepath.Dir(b.Dir.Gradient(k, 0, 0)))
	}
	options := prune.Options{KeepEvery: keep}
	first, err := prune.Prune(t.Context(), b.Surveyor.Inventory, b.Survey(), options)
	// Of each iteration, four gradients and the policy between two steps with its
	// optimizer's state; of three the policy and its state.
	if err != nil || len(first.Paths) != 5*6+3*2 {
		t.Fatalf("%d are removed, %v: %v", len(first.Paths), first.Paths, err)
	}
	found := b.Survey()
	opens := runtest.CountOpens(t, folders...)
	again, err := prune.Prune(t.Context(), b.Surveyor.Inventory, found, options)
	if err != nil || len(again.Paths) != 0 {
		t.Fatalf("removed are %v: %v", again.Paths, err)
	}
	listings, _ := opens.Counts()
	for k := 1; k <= 3; k++ {
		for _, folder := range []string{b.Dir.Iteration(k), filepath.Dir(b.Dir.Gradient(k, 0, 0))} {
			if listings[folder] > 0 {
				t.Errorf("%s was listed", b.Dir.Rel(folder))
			}
		}
	}
}
