package learn

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// Workload is what a learn task asks of the engine that it trains, with
// sequences of at most longest tokens; 0 for as many as the policy takes. The
// plan that a GPU's engine makes of it (package cuda) changes no result.
func Workload(r recipe.Recipe, longest int) policy.Workload {
	w := trainer.Workload(r, longest)
	w.Sums = sumsOfStep(r.Schedule.GradientUnits)
	w.Beside = beside(r)
	if r.Policy.Critic == recipe.CriticModel {
		w.Twins = 1
	}
	return w
}

// GradientWorkload is that of a gradient shard.
func GradientWorkload(r recipe.Recipe, longest int) policy.Workload {
	return reduceWorkload(r.Schedule.GradientShards)(r, longest)
}

// reduceWorkload is that of one of so many tasks that share the gradient shards.
func reduceWorkload(tasks int) func(r recipe.Recipe, longest int) policy.Workload {
	return func(r recipe.Recipe, longest int) policy.Workload {
		w := Workload(r, longest)
		w.Sums = sumsOfShard(r.Schedule.GradientUnits, r.Schedule.GradientShards, tasks)
		return w
	}
}

// CriticWorkload is that of a critic that is a model of its own; there is none
// where ok is false.
func CriticWorkload(r recipe.Recipe, longest int) (w policy.Workload, ok bool) {
	w = Workload(r, longest)
	w.Twins = 0
	return w, r.Policy.Critic == recipe.CriticModel
}

// ReferenceWorkload is that of the reference policy; there is none where ok is
// false.
func ReferenceWorkload(r recipe.Recipe, longest int) (w policy.Workload, ok bool) {
	return trainer.Workload(r, longest), hasReference(r)
}

// hasReference says whether a second policy is open. Under policy.lora the
// reference is what is adapted.
func hasReference(r recipe.Recipe) bool { return r.Loss.KL.Coef != 0 && r.Policy.LoRA == nil }

// beside is the number of policies that are open beside the one that is trained:
// the reference, and one at a time of those whose log-probabilities (recompute)
// or values (estimateAdvantages) are wanted before the first step.
func beside(r recipe.Recipe) int {
	n := 0
	if hasReference(r) {
		n++
	}
	if r.Rollout.Remote != nil || r.Advantage.Critic() && r.Schedule.GradientShards > 1 {
		n++
	}
	return n
}
